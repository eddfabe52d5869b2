"""What the two captures for a translator share: public ports, and when things happen.

Users 1 to 4 send in this order first, so that each has the block of its number. A block has 16
ports, and the outside tries all of them: which of them are in use is the translator's to choose.
"""

import struct

from scapy.packet import Packet
from scapy.utils import checksum

from .capture import Capture
from .plan import payload

PUBLIC4 = "192.0.2.0"
BLOCK = 16
FIRST_PORT = 1024

# Seconds: what goes out, answers, what follows, and two looks at what is left of it.
OUT, BACK, AGAIN, LATE, LAST = 0, 1, 20, 100, 400


def block(n: int) -> range:
    """The public ports of user n."""
    first = FIRST_PORT + (n - 1) * BLOCK
    return range(first, first + BLOCK)


def at(capture: Capture, seconds: int) -> None:
    """The next frame comes then, or right behind the one before."""
    capture.now_us = max(capture.now_us, seconds * 1_000_000)


def damaged(packet: Packet, place: int) -> bytes:
    """The frame with another octet at a place, and no checksum that says so."""
    octets = bytearray(bytes(packet))
    octets[place] ^= 0x55
    return bytes(octets)


def query(kind: int, identifier: int, sequence: int, size: int) -> bytes:
    """A query of ICMP or its answer; Scapy would put the time into some of them."""
    whole = struct.pack("!BBHHH", kind, 0, 0, identifier, sequence) + payload(size)
    return whole[:2] + checksum(whole).to_bytes(2, "big") + whole[4:]
