"""The Internet checksum (RFC 1071)."""

import struct


def ones_sum(data: bytes) -> int:
    """The ones' complement sum of the 16-bit words; an odd last octet is padded."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def checksum(data: bytes) -> int:
    """The complement of the sum, as headers carry it."""
    return ~ones_sum(data) & 0xFFFF


def header_length(packet: bytes) -> int:
    """Octets of an IPv4 header."""
    return (packet[0] & 0x0F) * 4


def with_header_checksum(packet: bytes) -> bytes:
    """An IPv4 packet with the checksum of its header computed anew."""
    header = bytearray(packet[: header_length(packet)])
    header[10:12] = bytes(2)
    header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
    return bytes(header) + packet[len(header) :]
