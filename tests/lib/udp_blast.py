#!/usr/bin/python3
"""Sends UDP datagrams at a rate, by the clock: what a loaded machine delays is caught up
with, at most a tenth of a second of it.

    udp_blast.py ADDRESS PORT BITS SECONDS [SOURCE-PORT]

BITS counts IP packets, which have 1,000 bytes of data each. Prints how many left.
"""

import socket
import sys
import time

DATA = bytes(1000)


def main() -> None:
    address, port, bits, seconds, *source = sys.argv[1:]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    wire = socket.socket(family, socket.SOCK_DGRAM)
    if source:
        wire.bind(("", int(source[0])))
    length = len(DATA) + 8 + (40 if family == socket.AF_INET6 else 20)
    gap = 8 * length / float(bits)
    due = start = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < start + float(seconds):
        due = max(due, now - 0.1)
        while due <= now:
            try:
                wire.sendto(DATA, (address, int(port)))
                sent += 1
            except OSError:
                pass  # no one listens, or no room
            due += gap
        time.sleep(min(gap, 0.005))
    print(sent)


main()
