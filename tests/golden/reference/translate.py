"""An IP packet with other addresses or other contents, and every checksum right again."""

import struct

from .checksum import checksum, ones_sum, with_header_checksum
from .dissect import ICMPV6, TCP, UDP, Frame, word

CHECKSUMS = {(TCP, 4): 16, (TCP, 6): 16, (UDP, 4): 6, (UDP, 6): 6, (ICMPV6, 6): 2}  # where it is


def translated(frame: Frame, source: bytes | None, destination: bytes | None) -> bytes:
    """The packet with the addresses that are given.

    The destination of a source route with stops left is only the next stop: no
    checksum covers it, and it stays.
    """
    at, size = (12, 4) if frame.version == 4 else (8, 16)
    source = source or frame.source
    destination = frame.destination if frame.stops_left else destination or frame.destination
    return repaired(frame, frame.ip[:at] + source + destination + frame.ip[at + 2 * size :])


def written(frame: Frame, at: int, octets: bytes) -> bytes:
    """The packet with `octets` from the place `at` of its transport header on."""
    at += frame.transport
    return repaired(frame, frame.ip[:at] + octets + frame.ip[at + len(octets) :])


def repaired(frame: Frame, packet: bytes) -> bytes:
    """The packet of `frame` with something changed, and the checksums made right."""
    place = CHECKSUMS.get((frame.protocol, frame.version))
    if place is not None and frame.has_transport:
        old, place = word(frame.segment, place), place + frame.transport
        if (frame.protocol, old) != (UDP, 0):  # 0 says that there is none
            fresh = transport_checksum(frame, packet, old)
            packet = packet[:place] + fresh.to_bytes(2, "big") + packet[place + 2 :]
    return with_header_checksum(packet) if frame.version == 4 else packet


def transport_checksum(frame: Frame, packet: bytes, old: int) -> int:
    """Computed anew, except where the rest is not here, or the old one was wrong and stays so."""
    whole = covered(frame, frame.ip) + old.to_bytes(2, "big")
    if frame.is_fragment or frame.stops_left or ones_sum(whole) != 0xFFFF:
        fresh = by_difference(covered(frame, frame.ip), covered(frame, packet), old)
    else:
        fresh = checksum(covered(frame, packet))
    return 0xFFFF if (frame.protocol, fresh) == (UDP, 0) else fresh


def covered(frame: Frame, packet: bytes) -> bytes:
    """Pseudo-header and segment, the checksum itself blank (RFC 768, RFC 9293, RFC 8200 §8.1)."""
    segment, place = packet[frame.transport :], CHECKSUMS[frame.protocol, frame.version]
    length = word(segment, 4) if frame.protocol == UDP else len(segment)
    segment = segment[:place] + bytes(2) + segment[place + 2 : length]
    segment += bytes(len(segment) % 2)
    if frame.version == 4:
        return packet[12:20] + struct.pack("!BBH", 0, frame.protocol, length) + segment
    return packet[8:40] + struct.pack("!II", length, frame.protocol) + segment


def by_difference(before: bytes, after: bytes, old: int) -> int:
    """RFC 1624, equation 3: HC' = ~(~HC + ~m + m')."""
    removed = bytes(~octet & 0xFF for octet in before)
    return checksum((~old & 0xFFFF).to_bytes(2, "big") + removed + after)
