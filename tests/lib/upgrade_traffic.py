#!/usr/bin/env python3
"""Numbered datagrams between two hosts, while what is between them is upgraded.

    upgrade_traffic.py OWN PORT OTHER PORT RATE FILE

Sends RATE datagrams a second from OWN to OTHER, from when FILE is there until SIGTERM, and takes what comes from there.
A second later it ends with a line of JSON: datagrams that were sent, that came, that came twice,
that came behind a later one, and the longest time in which none came, in milliseconds. A datagram
that the own host has no room for is not sent, and waits.
"""

import errno
import json
import os
import signal
import socket
import sys
import time

ended = False


def end(*_: object) -> None:
    """SIGTERM."""
    global ended
    ended = True


def leaves(datagrams: socket.socket, datagram: bytes, to: tuple[str, int]) -> bool:
    """Sends a datagram, if there is room for it."""
    try:
        datagrams.sendto(datagram, to)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
            raise
        return False
    return True


def main() -> None:
    """Sends and takes."""
    own, own_port, other, other_port, rate, begins = sys.argv[1:]
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    datagrams.bind((own, int(own_port)))
    datagrams.setblocking(False)
    to, pause = (other, int(other_port)), 1 / int(rate)
    sent, seen, twice, behind, newest, longest = 0, set(), 0, 0, -1, 0.0
    while not os.path.exists(begins) and not ended:
        time.sleep(0.01)
    begun = time.monotonic()
    last = ends = None
    while ends is None or time.monotonic() < ends:
        now = time.monotonic()
        if ended and ends is None:
            ends = now + 1
        # A sender that was held up makes up for it in small pieces.
        for _ in range(20):
            if ends is not None or sent * pause > now - begun:
                break
            if not leaves(datagrams, b"%d" % sent, to):
                break
            sent += 1
        for _ in range(100):
            try:
                number = int(datagrams.recv(64))
            except BlockingIOError:
                break
            if number in seen:
                twice += 1
            elif number < newest:
                behind += 1
            seen.add(number)
            newest = max(newest, number)
            if last is not None and ends is None:
                longest = max(longest, now - last)
            last = now
        time.sleep(0.0002)
    print(json.dumps({"sent": sent, "came": len(seen), "twice": twice, "behind": behind,
                      "longest": round(longest * 1e3, 1)}), flush=True)


signal.signal(signal.SIGTERM, end)
main()
