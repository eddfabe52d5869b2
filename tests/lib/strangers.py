#!/usr/bin/env python3
"""What a stranger sends to a node, at random: forged messages of what a node speaks, true frames
that are cut off or changed, and octets without sense.

    strangers.py DEVICE MAC SEED RATE SECONDS    frames to the node with that MAC address

Neighbours are not lied about: who is on a link may take the addresses of others there, and no
node can tell.
"""

import random
import socket
import struct
import sys
import time

from floods import FAR4, FAR6, NODE4, NODE6, USER4, USER6, packet, udp

BURST = 0.1  # seconds between bursts


def service_header(draw: random.Random) -> bytes:
    """A service header, of the paths that there are or of others (RFC 8300)."""
    path = draw.choice((10, 11, 12, draw.getrandbits(24)))
    index = draw.choice((255, 254, 253, draw.getrandbits(8)))
    if draw.random() < 0.5:
        record = b"\x57\x67" + draw.randbytes(6) + struct.pack("!I", draw.randrange(512))
        record += bytes((0, draw.choice((0, 2, 3)), 14, 0))
        context = b"\xff\xf6\x02" + bytes((len(record),)) + record
        head = struct.pack("!HBB", 63 << 6 | (2 + len(context) // 4), 2, 3)
        return head + struct.pack("!I", path << 8 | index) + context
    head = struct.pack("!HBB", draw.getrandbits(16), draw.randrange(3), draw.randrange(6))
    return head + struct.pack("!I", path << 8 | index) + draw.randbytes(draw.randrange(40))


def message(draw: random.Random) -> bytes:
    """A GTP-U message with a TEID of no tunnel, or of a user's that moves (TS 29.281)."""
    teid = draw.choice((0, 1, draw.getrandbits(32), 1 << 30 | draw.getrandbits(30)))
    kind = draw.choice((1, 2, 26, 31, 254, 255, draw.getrandbits(8)))
    inside = packet(USER4, FAR4, 17, udp(9, b"inside"), 64)
    rest = draw.choice((inside, b"", draw.randbytes(draw.randrange(64))))
    flags = draw.choice((0x30, 0x32, 0x34, 0x36, draw.getrandbits(8)))
    if flags & 7:
        rest = draw.randbytes(4) + rest
    length = len(rest) if draw.random() < 0.8 else draw.getrandbits(16)
    return struct.pack("!BBHI", flags, kind, length, teid) + rest


def datagram(draw: random.Random, is_v6: bool) -> bytes:
    """A UDP datagram to the node or past it."""
    port = draw.choice((2152, 2152, 4790, 49152 + draw.randrange(16384), draw.getrandbits(16)))
    match port:
        case 4790:
            payload = b"\x0c\0\0\x04\0\0\0\0" + service_header(draw)
        case 2152:
            payload = message(draw)
        case _:
            payload = draw.randbytes(draw.randrange(200))
    own, user, far = (NODE6, USER6, FAR6) if is_v6 else (NODE4, USER4, FAR4)
    stranger = f"2001:db8:0:1::{draw.randrange(16, 999):x}" if is_v6 else f"10.0.0.{draw.randrange(20, 250)}"
    source = draw.choice((stranger, stranger, user))
    return packet(source, draw.choice((own, own, far)), 17, udp(port, payload), draw.choice((64, 1)))


def frame(draw: random.Random, own: bytes, node: bytes) -> bytes:
    """One frame."""
    kind = draw.randrange(10)
    if kind < 2:
        made = node + own + b"\x89\x4f" + service_header(draw) + draw.randbytes(60)
    elif kind == 2:
        made = node + own + draw.choice((b"\x08\0", b"\x86\xdd", b"\x81\0", b"\x88\x64"))
        made += draw.randbytes(draw.randrange(14, 200))
    else:
        is_v6 = draw.random() < 0.5
        made = node + own + (b"\x86\xdd" if is_v6 else b"\x08\0") + datagram(draw, is_v6)
    if draw.random() < 0.3:
        made = made[: draw.randrange(14, len(made) + 1)]
    if draw.random() < 0.3:
        changed = bytearray(made)
        for _ in range(draw.randrange(1, 4)):
            changed[draw.randrange(12, len(changed))] = draw.getrandbits(8)
        made = bytes(changed)
    return made


def main() -> None:
    device, mac, seed, rate, seconds = sys.argv[1:]
    draw, node = random.Random(int(seed)), bytes.fromhex(mac.replace(":", ""))
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((device, 0))
    own = wire.getsockname()[4]
    begin, sent, burst = time.monotonic(), 0, 0
    while time.monotonic() < begin + float(seconds):
        burst += 1
        for _ in range(max(1, int(int(rate) * BURST))):
            try:
                wire.send(frame(draw, own, node))
                sent += 1
            except OSError:  # no room in the device's queue, or too short for it
                continue
        time.sleep(max(0.0, begin + burst * BURST - time.monotonic()) or BURST / 4)
    print(sent)


if __name__ == "__main__":
    main()
