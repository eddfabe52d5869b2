#!/usr/bin/env python3
"""Numbered datagrams of many flows at one of two hosts.

    flow_traffic.py OWN... PORT OTHER... PORT RATE FILE

One of both ends has one address, and the other one or more: each of these is a flow. Sends RATE
datagrams a second over all flows in turn, from when FILE is there until SIGTERM, and takes what
comes. A second later it ends with a line of JSON: datagrams that were sent, that came, that came
twice, and that came behind a later one of their flow.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time

BUFFER = 8 << 20
AT_ONCE = 20

ended = False


def end(*_: object) -> None:
    """SIGTERM."""
    global ended
    ended = True


class Flow:
    """A flow: a socket, the other end, and what has come."""

    def __init__(self, own: tuple[str, int], other: tuple[str, int]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.socket.bind(own)
        self.socket.connect(other)
        self.socket.setblocking(False)
        self.sent = self.newest = self.twice = self.behind = 0
        self.seen: set[int] = set()

    def send(self) -> None:
        """The next one, unless the host has no room for it."""
        try:
            self.socket.send((self.sent + 1).to_bytes(8, "big"))
            self.sent += 1
        except (BlockingIOError, ConnectionRefusedError):
            pass

    def take(self) -> None:
        """All that is there."""
        while True:
            try:
                number = int.from_bytes(self.socket.recv(64), "big")
            except (BlockingIOError, ConnectionRefusedError):
                return
            self.twice += number in self.seen
            self.behind += number < self.newest
            self.newest = max(self.newest, number)
            self.seen.add(number)


def flows(words: list[str]) -> list[Flow]:
    """Both ends, as they are on the command line."""
    at = next(place for place, word in enumerate(words) if "." not in word)
    ends = [(words[:at], int(words[at])), (words[at + 1 : -1], int(words[-1]))]
    (own, own_port), (other, other_port) = ends
    count = max(len(own), len(other))
    # The end with one address tells flows apart by its ports.
    own_ports = [own_port + (number if len(own) == 1 else 0) for number in range(count)]
    other_ports = [other_port + (number if len(other) == 1 else 0) for number in range(count)]
    return [
        Flow((own[number % len(own)], own_ports[number]), (other[number % len(other)], other_ports[number]))
        for number in range(count)
    ]


def main() -> None:
    """Sends and takes."""
    *ends, rate, begins = sys.argv[1:]
    signal.signal(signal.SIGTERM, end)
    all_flows = flows(ends)
    selector = selectors.DefaultSelector()
    for flow in all_flows:
        selector.register(flow.socket, selectors.EVENT_READ, flow)
    while not os.path.exists(begins) and not ended:
        time.sleep(0.01)
    begun, turn, pause, closes = time.monotonic(), 0, 1 / int(rate), None
    while closes is None or time.monotonic() < closes:
        now = time.monotonic()
        if ended and closes is None:
            closes = now + 1
        # A sender that was held up makes up for it in small pieces.
        for _ in range(AT_ONCE):
            if closes is not None or turn * pause > now - begun:
                break
            all_flows[turn % len(all_flows)].send()
            turn += 1
        for key, _ in selector.select(min(pause, 0.005)):
            key.data.take()
    total = lambda of: sum(of(flow) for flow in all_flows)
    print(json.dumps({
        "sent": total(lambda flow: flow.sent),
        "came": total(lambda flow: len(flow.seen)),
        "twice": total(lambda flow: flow.twice),
        "behind": total(lambda flow: flow.behind),
        "idle": sum(not flow.seen for flow in all_flows),
    }))


main()
