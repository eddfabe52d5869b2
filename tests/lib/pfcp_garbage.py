#!/usr/bin/python3
"""Sends what is no PFCP message to a user plane, and messages that are cut or changed.

    pfcp_garbage.py LOCAL REMOTE COUNT

COUNT datagrams, at most 2,000 a second: random bytes, headers of all message types with random
elements, and a session establishment cut at each of its bytes, with lengths that do not fit
and with bytes turned. The same each time. Reads what comes back, and fails when an answer to
any of it accepts a session.
"""

import random
import socket
import struct
import sys
import time

PORT = 8805
ESTABLISHMENT, ANSWER = 50, 51
CAUSE, ACCEPTED = 19, 1


def element(number: int, inside: bytes) -> bytes:
    return struct.pack("!HH", number, len(inside)) + inside


def whole(local: str) -> bytes:
    """A session establishment that lacks a FAR: refused even when it is whole."""
    address = socket.inet_aton(local)
    pdi = element(20, b"\0") + element(21, b"\x05") + element(23, b"\x01\0\0\x05permi")
    pdr = element(56, b"\0\1") + element(29, b"\0\0\0\1") + element(2, pdi) + element(108, b"\0\0\0\1")
    inside = element(60, b"\0" + address) + element(57, b"\2" + bytes(7) + b"\1" + address) + element(1, pdr)
    return message(ESTABLISHMENT, inside)


def message(number: int, inside: bytes, seid: int = 0) -> bytes:
    sequence = random.randrange(1 << 24).to_bytes(3, "big")
    body = struct.pack("!Q", seid) + sequence + b"\0" + inside
    return struct.pack("!BBH", 0x21, number, len(body)) + body


def turned(octets: bytes) -> bytes:
    changed = bytearray(octets)
    for _ in range(random.randint(1, 4)):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def datagrams(local: str):
    good = whole(local)
    while True:
        yield random.randbytes(random.randint(0, 64))
        elements = b"".join(
            element(random.randrange(272), random.randbytes(random.randint(0, 12))) for _ in range(4))
        yield message(random.randrange(256), elements, random.randrange(4))
        yield good[: random.randrange(len(good))]
        yield turned(good)
        yield good[:2] + struct.pack("!H", random.randrange(1 << 16)) + good[4:]


def accepts(datagram: bytes) -> bool:
    """Whether it is an answer that accepts an establishment (§7.5.3)."""
    return len(datagram) > 16 and datagram[1] == ANSWER and element(CAUSE, bytes([ACCEPTED])) in datagram


def main() -> int:
    local, remote, count = sys.argv[1:]
    random.seed(29244)
    wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    wire.bind((local, 0))
    wire.setblocking(False)
    accepted = 0
    for number, datagram in zip(range(int(count)), datagrams(local)):
        wire.sendto(datagram, (remote, PORT))
        if number % 20 == 0:
            time.sleep(0.01)
        try:
            while True:
                accepted += accepts(wire.recv(65536))
        except OSError:
            pass  # nothing more has come, or the port is closed
    if accepted:
        print(f"{accepted} sessions were accepted")
    return int(accepted > 0)


sys.exit(main())
