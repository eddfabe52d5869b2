"""The border function of lightweight 4over6 (RFC 7596), and what RFC 2473, RFC 6040 and
RFC 7597 say of its tunnels and port sets."""

import struct
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from .checksum import header_length, ones_sum, with_header_checksum
from .dissect import FRAGMENT, ICMP, ICMPV6, TCP, UDP, Fault, Frame, dissect, word
from .icmp import (
    ERRORS_V4,
    HOST_UNREACHABLE,
    SOURCE_REFUSED,
    TIME_EXCEEDED,
    TOO_BIG,
    error,
    is_owed,
    pseudo_header,
)
from .node import one_hop_less

IPV4_IN = 4  # the protocol number of IPv4 inside
SOURCE, DESTINATION = 0, 1  # the ends of a packet
SECOND = 1_000_000  # times are in microseconds
FOLLOW_S, JOIN_S = 30, 60
LONGEST = 1792  # octets that are put together
NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3


class Refused(Exception):
    """Why a packet goes no further, and what its sender is told."""

    def __init__(self, reason: str, problem: str | None = None):
        super().__init__(reason)
        self.problem = problem


@dataclass
class Shares:
    """How the addresses of a prefix are shared (RFC 7597 section 5.1)."""

    prefix: str
    offset: int  # bits
    length: int

    def psid(self, port: int) -> int | None:
        """The bits of the port behind the offset, as text."""
        bits = f"{port:016b}"
        if self.offset and "1" not in bits[: self.offset]:
            return None
        return int("0" + bits[self.offset : self.offset + self.length], 2)


@dataclass
class Joining:
    """The fragments of an IPv6 packet that have come."""

    until: int
    parts: dict[int, bytes] = field(default_factory=dict)
    marks: list[int] = field(default_factory=list)
    length: int | None = None
    spoilt: bool = False


@dataclass
class Border:
    """A table of softwires, (IPv4 address, PSID) to the address of the lwB4."""

    address: str
    own4: str
    shares: list[Shares]
    softwires: dict[tuple[str, int], str]
    mtu: int
    now: int = 0
    told: list[bytes] = field(default_factory=list)
    firsts: dict[tuple[int, bytes], tuple[bytes, int]] = field(default_factory=dict)
    joining: dict[tuple[bytes, int], Joining] = field(default_factory=dict)
    fragmented: int = 0

    def carry(self, frame: Frame, is_uplink: bool) -> tuple[str | None, list[bytes] | bytes | None]:
        """Why it is dropped, or the packets that it becomes."""
        try:
            if frame.version == 6:
                return None, self.out_of_softwire(frame) if is_uplink else frame.ip
            if is_uplink:
                raise Refused("lwaftr_not_tunnelled")
            return None, self.into_softwire(frame.ip, self.owner(frame.ip, DESTINATION), frame)
        except Refused as refused:
            own = self.own4 if frame.version == 4 else self.address
            if refused.problem and is_owed(frame, refused.problem):
                mtu = self.mtu - 40 if refused.problem == TOO_BIG else 0
                about = frame.ip
                packet = error(about, refused.problem, packed(own), mtu, longest=1500)
                self.told.append(packet)
            return str(refused), None

    # --- whose it is ----------------------------------------------------------------

    def share(self, address: bytes) -> Shares | None:
        """How an address is shared."""
        for one in self.shares:
            if ip_address(address) in ip_network(one.prefix):
                return one
        return None

    def b4(self, address: bytes, port: int) -> bytes:
        """The lwB4 that has it."""
        share = self.share(address)
        found = share and self.softwires.get((str(ip_address(address)), share.psid(port)))
        if not found:
            raise Refused("lwaftr_no_softwire", HOST_UNREACHABLE)
        return packed(found)

    def owner(self, ip: bytes, end: int) -> bytes:
        """RFC 7596 sections 6.2 and 8.1."""
        address = ip[12 + 4 * end : 16 + 4 * end]
        protocol, segment = ip[9], ip[header_length(ip) :]
        datagram = ip[12:20] + ip[4:6] + ip[9:10]
        if word(ip, 6) & 0x1FFF:
            b4, until = self.firsts.get((end, datagram), (b"", 0))
            if until <= self.now:
                raise Refused("lwaftr_fragment")
            return b4
        share = self.share(address)
        if protocol in (TCP, UDP):
            port = word(segment, 2 * end)
        elif protocol == ICMP:
            port = self.port_of_message(segment, address, end)
        elif share and share.length == share.offset == 0:
            port = 0
        else:
            raise Refused("lwaftr_protocol")
        b4 = self.b4(address, port)
        if word(ip, 6) & 0x2000:
            self.firsts[end, datagram] = (b4, self.now + FOLLOW_S * SECOND)
        return b4

    def port_of_message(self, message: bytes, address: bytes, end: int) -> int:
        """The identifier of a query, or the port of what an error is about."""
        kind = message[0]
        if kind in (0, 8) or kind in range(13, 19) and end == SOURCE:
            return word(message, 4)
        about = message[8:]
        if kind not in (3, 11, 12) or ones_sum(message) != 0xFFFF or len(about) < 20:
            raise Refused("lwaftr_icmp")
        if ones_sum(about[: header_length(about)]) != 0xFFFF or word(about, 6) & 0x1FFF:
            raise Refused("lwaftr_icmp")
        other = 1 - end
        segment = about[header_length(about) :]
        at = 4 if about[9] == ICMP else 2 * other
        is_known = about[9] in (TCP, UDP, ICMP) and len(segment) >= at + 2
        if not is_known or about[12 + 4 * other : 16 + 4 * other] != address:
            raise Refused("lwaftr_icmp")
        return word(segment, at)

    # --- into a softwire ------------------------------------------------------------

    def into_softwire(self, ip: bytes, b4: bytes, told: Frame | None) -> list[bytes]:
        """RFC 2473 sections 3.1, 6.4 and 7.2, RFC 6333 section 6.3."""
        too_long = len(ip) + 40 > self.mtu
        if ip[8] <= 1:
            raise Refused("lwaftr_ttl_exceeded", TIME_EXCEEDED if told else None)
        if too_long and word(ip, 6) & 0x4000:
            raise Refused("lwaftr_too_big", TOO_BIG if told else None)
        inner = one_hop_less(ip)
        if not too_long:
            return [self.outer(inner, ip[1], b4, IPV4_IN)]
        self.fragmented += 1
        size = (self.mtu - 48) // 8 * 8
        pieces = []
        for start in range(0, len(inner), size):
            part = inner[start : start + size]
            more = int(start + size < len(inner))
            header = struct.pack("!BBHI", IPV4_IN, 0, start | more, self.fragmented)
            pieces.append(self.outer(header + part, ip[1], b4, FRAGMENT))
        return pieces

    def outer(self, payload: bytes, traffic_class: int, b4: bytes, following: int) -> bytes:
        """An IPv6 packet to a lwB4."""
        first = 6 << 28 | traffic_class << 20
        header = struct.pack("!IHBB", first, len(payload), following, 64)
        return header + packed(self.address) + b4 + payload

    # --- out of a softwire ----------------------------------------------------------

    def out_of_softwire(self, frame: Frame) -> list[bytes] | bytes:
        """RFC 7596 section 6.2."""
        if frame.destination != packed(self.address):
            return frame.ip
        inner, mark = frame.segment, (word(frame.ip, 0) >> 4) & 3
        if frame.is_fragment:
            inner, mark = self.joined(frame, mark)
        elif frame.protocol == ICMPV6:
            return [self.relayed(frame)]
        elif frame.protocol != IPV4_IN:
            raise Refused("lwaftr_not_softwire")
        inner = sound(inner)
        try:
            is_own = self.owner(inner, SOURCE) == frame.source
        except Refused as refused:
            if str(refused) != "lwaftr_no_softwire":
                raise Refused(str(refused)) from None
            is_own = False
        if not is_own:
            if frame.is_fragment:
                self.tell_of_joined(frame, inner, mark)
                raise Refused("lwaftr_refused")
            raise Refused("lwaftr_refused", SOURCE_REFUSED)
        inner = self.marked(inner, mark)
        if not self.share(inner[16:20]):
            return [inner]
        try:
            return self.into_softwire(inner, self.owner(inner, DESTINATION), None)
        except Refused as refused:
            raise Refused(str(refused)) from None

    def tell_of_joined(self, frame: Frame, inner: bytes, mark: int) -> None:
        """Of fragments, the packet that they are is what the error is about."""
        first = word(frame.ip, 0) & 0xFFCF | mark << 4
        header = struct.pack("!HHHBB", first, word(frame.ip, 2), len(inner), IPV4_IN, frame.ip[7])
        packet = header + frame.ip[8:40] + inner
        self.told.append(error(packet, SOURCE_REFUSED, packed(self.address), 0, longest=1500))

    def marked(self, inner: bytes, outer: int) -> bytes:
        """RFC 6040 section 4.2, figure 4."""
        old = inner[1] & 3
        if old == NOT_ECT and outer == CE:
            raise Refused("lwaftr_congestion")
        new = CE if CE in (old, outer) else ECT1 if (old, outer) == (ECT0, ECT1) else old
        return with_header_checksum(inner[:1] + bytes([inner[1] & 0xFC | new]) + inner[2:])

    def joined(self, frame: Frame, mark: int) -> tuple[bytes, int]:
        """RFC 8200 section 4.5, RFC 5722, RFC 3168 section 5.3."""
        if frame.ip[6] != FRAGMENT or frame.ip[40] != IPV4_IN:
            raise Refused("lwaftr_fragment_bad")
        field_, identification = struct.unpack("!HI", frame.ip[42:48])
        start, more, part = field_ & 0xFFF8, field_ & 1, frame.ip[48:]
        one = self.joining.get((frame.source, identification))
        if one is None or one.until <= self.now:
            one = Joining(self.now + JOIN_S * SECOND)
            self.joining[frame.source, identification] = one
        end = start + len(part)
        one.marks.append(mark)
        overlaps = any(s < end and start < s + len(p) for s, p in one.parts.items())
        if not more and one.length is None:
            one.length = end
        beyond = one.length is not None and max([end, *(s + len(p) for s, p in one.parts.items())])
        one.spoilt |= (
            overlaps
            or end > LONGEST
            or bool(more and len(part) % 8)
            or one.length is not None
            and beyond > one.length
            or {NOT_ECT, CE} <= set(one.marks)
        )
        if one.spoilt:
            raise Refused("lwaftr_fragment_bad")
        one.parts[start] = part
        if one.length is None or sum(map(len, one.parts.values())) < one.length:
            raise Refused("lwaftr_fragment_joined")
        del self.joining[frame.source, identification]
        return b"".join(one.parts[s] for s in sorted(one.parts)), max(one.marks)

    def relayed(self, frame: Frame) -> bytes:
        """An ICMPv6 error about a tunnel's packet, as ICMPv4 (RFC 2473 section 8)."""
        message = frame.segment
        kind, about = message[0], message[8:]
        if kind >= 128:
            raise Refused("lwaftr_not_softwire")
        dropped = Refused("lwaftr_tunnel_error")
        covered = pseudo_header(frame.ip[:40], len(message)) + message
        if ones_sum(covered) != 0xFFFF or about[8:24] != packed(self.address):
            raise dropped
        inner = about[48:] if about[6] == FRAGMENT else about[40:]
        if len(inner) < 20 or inner[9] == ICMP and inner[20] in ERRORS_V4:
            raise dropped
        try:
            segment = inner[header_length(inner) :]
            port = word(segment, 4 if inner[9] == ICMP else 2)
            if len(segment) < 4 or self.b4(inner[16:20], port) != about[24:40]:
                raise dropped
        except Refused:
            raise dropped from None
        inner = inner[: word(inner, 2)]
        problem, mtu = HOST_UNREACHABLE, 0
        if kind == 2:
            if not word(inner, 6) & 0x4000:
                raise dropped
            problem, mtu = TOO_BIG, max(int.from_bytes(message[4:8], "big"), 1280) - 40
        return error(inner, problem, packed(self.own4), mtu, longest=576)


def packed(address: str) -> bytes:
    """An address as octets."""
    return ip_address(address).packed


def sound(inner: bytes) -> bytes:
    """The IPv4 packet inside, without what is behind it."""
    try:
        return dissect(bytes(12) + b"\x08\x00" + inner).ip
    except Fault:
        raise Refused("lwaftr_inner_malformed") from None
