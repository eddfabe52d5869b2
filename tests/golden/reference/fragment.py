"""An IPv4 packet in fragments (RFC 791 section 3.2)."""

from .checksum import header_length, with_header_checksum
from .dissect import ipv4_options, word

MORE, FLAGS = 0x2000, 0xC000
NO_OPERATION = b"\1"


def fragments(packet: bytes, mtu: int) -> list[bytes]:
    """Pieces of `mtu` octets at most, in order; all but the last carry a multiple of 8."""
    header = packet[: header_length(packet)]
    field, data = word(packet, 6), packet[len(header) :]
    pieces, at = [], 0
    while True:
        room = mtu - len(header)
        size = len(data) - at if len(data) - at <= room else room // 8 * 8
        more = field & MORE or (MORE if at + size < len(data) else 0)
        offset = (field & 0x1FFF) + at // 8
        pieces.append(piece(header, field & FLAGS | more | offset, data[at : at + size]))
        at += size
        if at >= len(data):
            return pieces
        header = packet[:20] + copied_options(packet[20 : header_length(packet)])


def piece(header: bytes, field: int, data: bytes) -> bytes:
    """One fragment: lengths, flags with offset, and checksum are its own."""
    fresh = bytearray(header)
    fresh[0] = 0x40 | len(header) // 4
    fresh[2:4] = (len(header) + len(data)).to_bytes(2, "big")
    fresh[6:8] = field.to_bytes(2, "big")
    return with_header_checksum(bytes(fresh) + data)


def copied_options(area: bytes) -> bytes:
    """The options with the copied flag, which all fragments carry."""
    copied = b"".join(
        bytes((kind, len(body) + 2)) + body for kind, body in ipv4_options(area) if kind & 0x80
    )
    return copied + NO_OPERATION * (-len(copied) % 4)
