#!/usr/bin/env python3
"""Numbered datagrams between two hosts, while what is between them is upgraded.

    upgrade_traffic.py OWN PORT OTHER PORT RATE FILE

Sends RATE datagrams a second from OWN to OTHER, from when FILE is there until SIGTERM, and takes what comes from there.
The last datagram says that it is the last. A second after that of the other has come, and no other
since, it ends with a line of JSON: datagrams that were sent, that came, that came twice, that came
behind a later one, and the longest time in which none came until SIGTERM, in milliseconds. A
datagram that the own host has no room for is not sent, and waits.
"""

import errno
import json
import os
import select
import signal
import socket
import sys
import time

LAST = b" last"
QUIET = 1.0  # seconds without a datagram behind which none comes twice
# Seconds from SIGTERM in which the last one has to come: what is between both may have a long queue
# where the machine has much else to do.
PATIENCE = 30.0

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
    last = closed = None
    has_told = other_ended = False
    while True:
        now = time.monotonic()
        if ended and closed is None:
            closed = now
        if closed is not None:
            quiet = now - max(last or closed, closed)
            if now > closed + PATIENCE or other_ended and quiet > QUIET:
                break
            if not has_told and leaves(datagrams, b"%d" % sent + LAST, to):
                has_told = True
                sent += 1
        # A sender that was held up makes up for it in small pieces.
        has_room = True
        for _ in range(20):
            if closed is not None or sent * pause > now - begun:
                break
            has_room = leaves(datagrams, b"%d" % sent, to)
            if not has_room:
                break
            sent += 1
        for _ in range(100):
            try:
                datagram = datagrams.recv(64)
            except BlockingIOError:
                break
            other_ended = other_ended or datagram.endswith(LAST)
            number = int(datagram.removesuffix(LAST))
            if number in seen:
                twice += 1
            elif number < newest:
                behind += 1
            seen.add(number)
            newest = max(newest, number)
            if last is not None and closed is None:
                longest = max(longest, now - last)
            last = now
        next_one = begun + sent * pause - now if has_room and closed is None else 0.01
        select.select([datagrams], [], [], min(max(next_one, 0), 0.05))
    print(json.dumps({"sent": sent, "came": len(seen), "twice": twice, "behind": behind,
                      "longest": round(longest * 1e3, 1)}), flush=True)


signal.signal(signal.SIGTERM, end)
main()
