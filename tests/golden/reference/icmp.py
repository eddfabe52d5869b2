"""ICMP errors about a packet, and echo replies (RFC 792, RFC 1812 section 4.3, RFC 4443)."""

import struct
from ipaddress import ip_address

from .checksum import checksum, with_header_checksum
from .dissect import ICMP, ICMPV6, Frame

HOPS = 64
CS6 = 0xC0  # internetwork control (RFC 1812 section 4.3.2.5)
ERRORS_V4 = (3, 4, 5, 11, 12)
REDIRECT_V6 = 137
TIME_EXCEEDED, TOO_BIG = "time exceeded", "too big"
NO_ROUTE, HOST_UNREACHABLE, PROHIBITED = "no route", "host unreachable", "prohibited"
SOURCE_REFUSED = "source refused"
CODES_V4 = {  # type and code
    TIME_EXCEEDED: (11, 0),
    TOO_BIG: (3, 4),
    NO_ROUTE: (3, 0),
    HOST_UNREACHABLE: (3, 1),
    PROHIBITED: (3, 13),
}
CODES_V6 = {
    TIME_EXCEEDED: (3, 0),
    TOO_BIG: (2, 0),
    NO_ROUTE: (1, 0),
    HOST_UNREACHABLE: (1, 3),
    PROHIBITED: (1, 1),
    SOURCE_REFUSED: (1, 5),
}


def is_owed(frame: Frame, problem: str) -> bool:
    """RFC 1122 section 3.2.2, RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 e."""
    source, destination = ip_address(frame.source), ip_address(frame.destination)
    if not is_host(source):
        return False
    if frame.version == 6 and problem == TOO_BIG and not frame.is_first:
        return True  # no error itself: those are never fragments (section 3.2)
    if not frame.is_first:
        return False
    if destination.is_multicast and not (frame.version == 6 and problem == TOO_BIG):
        return False
    if frame.version == 4 and frame.destination == bytes([255] * 4):
        return False
    kind = frame.segment[0] if frame.segment else None
    if frame.version == 4:
        return frame.protocol != ICMP or kind is not None and kind not in ERRORS_V4
    return frame.protocol != ICMPV6 or kind is not None and kind >= 128 and kind != REDIRECT_V6


def is_host(address) -> bool:
    """Whether it is one host's address (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5)."""
    if address.version == 4:
        first = address.packed[0]
        return first not in (0, 127) and first < 224
    return not (address.is_unspecified or address.is_loopback or address.is_multicast)


def error(packet: bytes, problem: str, own: bytes, mtu: int, longest: int) -> bytes:
    """An IP packet from `own` to the sender of `packet`, `longest` octets at most."""
    if packet[0] >> 4 == 4:
        quoted = packet[: min(576, longest) - 28]
        message = struct.pack("!BBHI", *CODES_V4[problem], 0, mtu) + quoted
        fixed = struct.pack("!BBHHHBBH", 0x45, CS6, 20 + len(message), 0, 0x4000, HOPS, ICMP, 0)
        return with_header_checksum(fixed + own + packet[12:16]) + summed(message, b"")
    message = struct.pack("!BBHI", *CODES_V6[problem], 0, mtu) + packet[: 1280 - 48]
    header = struct.pack("!IHBB", 6 << 28, len(message), ICMPV6, HOPS) + own + packet[8:24]
    return header + summed(message, pseudo_header(header, len(message)))


def pseudo_header(header: bytes, length: int) -> bytes:
    """RFC 8200 section 8.1."""
    return header[8:40] + struct.pack("!II", length, ICMPV6)


def summed(message: bytes, pseudo: bytes) -> bytes:
    """The message with its checksum computed anew."""
    blank = message[:2] + bytes(2) + message[4:]
    return blank[:2] + checksum(pseudo + blank).to_bytes(2, "big") + blank[4:]


def echo_reply(frame: Frame) -> bytes | None:
    """The answer to an echo request, as an IP packet."""
    requests = {4: (ICMP, 8, 0), 6: (ICMPV6, 128, 129)}
    protocol, request, reply = requests[frame.version]
    if frame.is_fragment or frame.protocol != protocol or frame.segment[:1] != bytes([request]):
        return None
    message = bytes([reply]) + frame.segment[1:]
    if frame.version == 4:
        header = frame.ip[:8] + bytes([HOPS]) + frame.ip[9:12] + frame.destination + frame.source
        return with_header_checksum(header) + summed(message, b"")
    header = frame.ip[:7] + bytes([HOPS]) + frame.destination + frame.source
    return header + summed(message, pseudo_header(header, len(message)))
