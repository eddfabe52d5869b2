"""A frame taken apart: Ethernet, VLAN tags, IP with options and extension headers, ports."""

from dataclasses import dataclass

from .checksum import ones_sum

ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
TAGS = (0x8100, 0x88A8)
RESERVED_VLAN = 0x0FFF
ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS = 0, 43, 44, 51, 60
EXTENSIONS = (HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS)
MOST_EXTENSIONS = 8  # that a node reads
NO_NEXT_HEADER = 59
SOURCE_ROUTES = (131, 137)  # loose and strict


class Fault(Exception):
    """What a node drops the frame for, in the words of its counters."""


@dataclass
class Frame:
    """Where things are in a frame, and what it says of itself."""

    octets: bytes
    vlans: list[int]  # identifiers, outermost first
    ethertype: int
    network: int  # where the IP header begins
    version: int = 0  # 4, 6, or 0 where there is no IP
    ip: bytes = b""  # the packet without padding
    source: bytes = b""
    destination: bytes = b""
    hops: int = 0  # time to live, hop limit
    dscp: int = 0
    dont_fragment: bool = True  # IPv6 is fragmented by its sender only
    is_fragment: bool = False
    is_first: bool = True  # the transport header is here
    offset: int = 0  # of a fragment, in octets
    stops_left: bool = False  # the destination is the next stop of a source route
    protocol: int = -1
    transport: int = 0  # where the transport header begins in `ip`
    has_transport: bool = False  # all of the header is there
    ports: tuple[int, int] | None = None

    @property
    def padding(self) -> bytes:
        """What follows the packet in the frame."""
        return self.octets[self.network + len(self.ip) :]

    @property
    def segment(self) -> bytes:
        """From the transport header on."""
        return self.ip[self.transport :]


def dissect(octets: bytes) -> Frame:
    """Raises Fault for what no node carries."""
    if len(octets) < 14:
        raise Fault("ethernet_malformed")
    at, vlans = 12, []
    ethertype = word(octets, at)
    while ethertype in TAGS:
        if len(vlans) == 2 or len(octets) < at + 6:
            raise Fault("vlan_malformed")
        vlans.append(word(octets, at + 2) & 0x0FFF)
        if vlans[-1] == RESERVED_VLAN:
            raise Fault("vlan_malformed")
        at += 4
        ethertype = word(octets, at)
    frame = Frame(octets, vlans, ethertype, at + 2)
    if ethertype == IPV4:
        dissect_ipv4(frame, octets[at + 2 :])
    elif ethertype == IPV6:
        dissect_ipv6(frame, octets[at + 2 :])
    elif ethertype != ARP:
        raise Fault("ethertype_unknown")
    return frame


def word(octets: bytes, at: int) -> int:
    """A 16-bit number."""
    return int.from_bytes(octets[at : at + 2], "big")


def dissect_ipv4(frame: Frame, rest: bytes) -> None:
    """RFC 791 section 3.1."""
    if len(rest) < 20 or rest[0] >> 4 != 4:
        raise Fault("ipv4_malformed")
    header, total = (rest[0] & 0x0F) * 4, word(rest, 2)
    if not 20 <= header <= total <= len(rest):
        raise Fault("ipv4_malformed")
    if ones_sum(rest[:header]) != 0xFFFF:
        raise Fault("ipv4_checksum")
    frame.version, frame.ip = 4, rest[:total]
    frame.source, frame.destination = rest[12:16], rest[16:20]
    frame.hops, frame.dscp, frame.protocol = rest[8], rest[1] >> 2, rest[9]
    flags = word(rest, 6)
    frame.dont_fragment = bool(flags & 0x4000)
    frame.offset = (flags & 0x1FFF) * 8
    frame.is_fragment = bool(flags & 0x3FFF)
    frame.is_first = frame.offset == 0
    for kind, body in ipv4_options(rest[20:header]):
        if kind in SOURCE_ROUTES:
            frame.stops_left = body[0] <= len(body) + 2
    frame.transport = header
    dissect_transport(frame)


def ipv4_options(area: bytes):
    """Kind and contents of each option; a fault where one does not fit."""
    at = 0
    while at < len(area) and area[at] != 0:
        if area[at] == 1:
            at += 1
            continue
        length = area[at + 1] if at + 1 < len(area) else 0
        if not 2 <= length <= len(area) - at:
            raise Fault("ipv4_malformed")
        yield area[at], area[at + 2 : at + length]
        at += length


def dissect_ipv6(frame: Frame, rest: bytes) -> None:
    """RFC 8200 section 3."""
    if len(rest) < 40 or rest[0] >> 4 != 6:
        raise Fault("ipv6_malformed")
    length = word(rest, 4)
    if length > len(rest) - 40 or length == 0 and rest[6] != NO_NEXT_HEADER:
        raise Fault("ipv6_malformed")
    frame.version, frame.ip = 6, rest[: 40 + length]
    frame.source, frame.destination = rest[8:24], rest[24:40]
    frame.hops, frame.dscp = rest[7], (word(rest, 0) >> 6) & 0x3F
    walk_extensions(frame)
    dissect_transport(frame)


def walk_extensions(frame: Frame) -> None:
    """RFC 8200 section 4; ends at the upper layer, or behind the header of a later fragment."""
    protocol, at, fragments = frame.ip[6], 40, 0
    for _ in range(MOST_EXTENSIONS + 1):
        if protocol not in EXTENSIONS or not frame.is_first:
            frame.protocol, frame.transport = protocol, at
            return
        size = extension_size(frame.ip, protocol, at)
        fragments += protocol == FRAGMENT
        if size > len(frame.ip) - at or fragments > 1 or protocol == HOP_BY_HOP and at > 40:
            break
        if protocol == ROUTING:
            frame.stops_left = frame.ip[at + 3] > 0
        if protocol == FRAGMENT:
            offset = word(frame.ip, at + 2)
            frame.offset = offset & 0xFFF8
            frame.is_first, frame.is_fragment = frame.offset == 0, bool(offset & 0xFFF9)
        protocol, at = frame.ip[at], at + size
    raise Fault("ipv6_malformed")


def extension_size(ip: bytes, protocol: int, at: int) -> int:
    """Octets of an extension header."""
    if at + 8 > len(ip) or protocol == AUTHENTICATION and ip[at + 1] == 0:
        raise Fault("ipv6_malformed")
    if protocol == FRAGMENT:
        return 8
    return (ip[at + 1] + 2) * 4 if protocol == AUTHENTICATION else (ip[at + 1] + 1) * 8


def dissect_transport(frame: Frame) -> None:
    """RFC 768 and RFC 9293: a header that does not fit is a fault, but not in a fragment."""
    if not frame.is_first:
        return
    segment, fits = frame.segment, True
    if frame.protocol == UDP:
        longest = 0xFFFF if frame.is_fragment else len(segment)
        fits = len(segment) >= 8 and 8 <= word(segment, 4) <= longest
    elif frame.protocol == TCP:
        fits = len(segment) >= 20 and 20 <= (segment[12] >> 4) * 4 <= len(segment)
    if not fits and not frame.is_fragment:
        raise Fault("transport_malformed")
    frame.has_transport = fits
    if fits and frame.protocol in (TCP, UDP, SCTP) and len(segment) >= 4:
        frame.ports = (word(segment, 0), word(segment, 2))
