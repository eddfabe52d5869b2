"""A translator of addresses and ports (RFC 4787, RFC 5382, RFC 5508) with blocks of ports.

It does not know which free port of a user's block is taken for a new mapping: it is told, and
takes no other than a free one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address

from .checksum import header_length, ones_sum, with_header_checksum
from .dissect import ICMP, TCP, UDP, Frame, dissect, word
from .icmp import summed
from .translate import by_difference, repaired

FIRST_PORT = 1024
SECOND = 1_000_000  # times are in microseconds
UDP_S, ESTABLISHED_S, TRANSITORY_S, ICMP_S = 300, 7440, 500, 60
REASSEMBLY_S = 30
FIN, SYN, RST, ACK = 1, 2, 4, 16
QUERIES = (0, 8, 13, 14, 15, 16, 17, 18)
ERRORS = (3, 11, 12)
SOURCE, DESTINATION = 0, 1  # the ends of a packet
CHECKSUM_AT = {TCP: 16, UDP: 6, ICMP: 2}

Outcome = tuple[str | None, bytes | None]  # why it is dropped, or the packet


# Stages of a connection that is open.
OPEN = {"opening", "established"}
# Connections of one mapping that are followed.
FOLLOWED = 4


class Refused(Exception):
    """Why a packet goes no further."""


@dataclass
class Mapping:
    """An inside address and port, and the public port of it."""

    inside: bytes
    port: int
    protocol: int
    user: int
    public: int
    expires: int
    connections: dict[tuple[bytes, int], str] = field(default_factory=dict)
    is_crowded: bool = False

    def is_steady(self) -> bool:
        """Whether a far end has answered, and its connection is open; a mapping with more
        connections than are followed is taken for one."""
        return self.is_crowded or "established" in self.connections.values()

    def make_room(self, far: tuple[bytes, int]) -> bool:
        """Whether a connection with this far end is followed, in the place of an ended one."""
        if far not in self.connections and len(self.connections) == FOLLOWED:
            ended = [far for far, stage in self.connections.items() if stage not in OPEN]
            if not ended:
                self.is_crowded = True
                return False
            del self.connections[ended[0]]
        return True


@dataclass
class Translator:
    """Many users behind one address. `chosen` tells the public port in the frame that leaves
    next at a port of the node."""

    address: str
    block: int
    chosen: Callable[[str], int]
    now: int = 0
    mappings: list[Mapping] = field(default_factory=list)
    blocks: dict[int, int] = field(default_factory=dict)
    given: int = 0
    firsts: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)  # of fragments

    @property
    def public(self) -> bytes:
        """The address as octets."""
        return ip_address(self.address).packed

    def outbound(self, frame: Frame, user: int) -> Outcome:
        """From inside."""
        try:
            return None, self.out(frame, user)
        except Refused as refused:
            return str(refused), None

    def inbound(self, frame: Frame, _user: object) -> Outcome:
        """From outside."""
        try:
            return None, self.back(frame)
        except Refused as refused:
            return str(refused), None

    def out(self, frame: Frame, user: int) -> bytes:
        """The source becomes public; what is for the public address turns round."""
        self.end_what_has_expired()
        if not frame.is_first:
            if user not in self.blocks:
                raise Refused("nat_fragment")
            packet = self.rewritten(frame, SOURCE, self.public, None)
        elif is_error(frame):
            address, port, protocol = about(frame, DESTINATION)
            mapping = self.find(protocol, inside=(address, port))
            if mapping.user != user:
                raise Refused("nat_foreign_address")
            packet = with_quoted(frame, DESTINATION, self.public, mapping.public)
            packet = with_address(packet, SOURCE, self.public)
        else:
            mapping = self.mapped(frame, user)
            refresh(mapping, frame, True, self.now)
            packet = self.rewritten(frame, SOURCE, self.public, mapping.public)
        if packet[16:20] == self.public:
            return self.back(reread(frame, packet))
        return packet

    def back(self, frame: Frame) -> bytes:
        """The destination becomes the inside one."""
        self.end_what_has_expired()
        if frame.destination != self.public:
            return frame.ip
        key = frame.source + frame.destination + frame.ip[4:6] + bytes([frame.protocol])
        if not frame.is_first:
            inside, until = self.firsts.get(key, (b"", 0))
            if until <= self.now:
                raise Refused("nat_fragment")
            return self.rewritten(frame, DESTINATION, inside, None)
        if is_error(frame):
            address, port, protocol = about(frame, SOURCE)
            if address != self.public:
                raise Refused("nat_no_mapping")
            mapping = self.find(protocol, public=port)
            packet = with_quoted(frame, SOURCE, mapping.inside, mapping.port)
            return with_address(packet, DESTINATION, mapping.inside)
        mapping = self.find(frame.protocol, public=port_of(frame, DESTINATION))
        refresh(mapping, frame, False, self.now)
        if frame.is_fragment:
            self.firsts[key] = (mapping.inside, self.now + REASSEMBLY_S * SECOND)
        return self.rewritten(frame, DESTINATION, mapping.inside, mapping.port)

    def end_what_has_expired(self) -> None:
        """A user without mappings has no block."""
        self.mappings = [one for one in self.mappings if one.expires > self.now]
        alive = {one.user for one in self.mappings}
        self.blocks = {user: first for user, first in self.blocks.items() if user in alive}

    def find(self, protocol: int, inside=None, public=None) -> Mapping:
        """By inside address and port, or by the public port."""
        for one in self.mappings:
            if one.protocol == protocol and (one.public == public or (one.inside, one.port) == inside):
                return one
        raise Refused("nat_no_mapping")

    def mapped(self, frame: Frame, user: int) -> Mapping:
        """The mapping of a packet from inside; a new one in a free port of the user's block."""
        port = port_of(frame, SOURCE)
        try:
            return self.find(frame.protocol, inside=(frame.source, port))
        except Refused:
            pass
        if user not in self.blocks:  # blocks are many: none is given out twice
            self.blocks[user] = FIRST_PORT + self.given * self.block
            self.given += 1
        ports = range(self.blocks[user], self.blocks[user] + self.block)
        used = [one.public for one in self.mappings if one.protocol == frame.protocol]
        free = [port for port in ports if port not in used]
        if not free:
            raise Refused("nat_no_port")
        public = self.chosen("access" if frame.destination == self.public else "core")
        public = public if public in free else free[0]
        expires = self.now + SECOND
        self.mappings.append(Mapping(frame.source, port, frame.protocol, user, public, expires))
        return self.mappings[-1]

    def rewritten(self, frame: Frame, end: int, address: bytes, port: int | None) -> bytes:
        """The packet with another end, and every checksum right."""
        packet = frame.ip[: 12 + 4 * end] + address + frame.ip[16 + 4 * end :]
        if port is not None:
            at = frame.transport + port_at(frame.protocol, end)
            packet = packet[:at] + port.to_bytes(2, "big") + packet[at + 2 :]
        if frame.protocol == ICMP and frame.is_first:
            packet = packet[: frame.transport] + summed(packet[frame.transport :], b"")
        return repaired(frame, packet)


def port_at(protocol: int, end: int) -> int:
    """Where a port or an identifier is in its header."""
    return 4 if protocol == ICMP else 2 * end


def port_of(frame: Frame, end: int) -> int:
    """A port or an identifier; some packets have none."""
    query = frame.protocol == ICMP and frame.segment[0] in QUERIES
    if frame.protocol not in (TCP, UDP) and not query:
        raise Refused("nat_protocol")
    return word(frame.segment, port_at(frame.protocol, end))


def refresh(mapping: Mapping, frame: Frame, outbound: bool, now: int) -> None:
    """RFC 4787 REQ-5 and REQ-6, RFC 5382 REQ-5, RFC 5508 REQ-2: only what goes out keeps a
    mapping. What comes in says how a connection stands that the inside has opened."""
    if frame.protocol == TCP:
        stages, flags = mapping.connections, frame.segment[13]
        is_quiet = not flags & (SYN | FIN | RST)
        if not (mapping.is_steady() and is_quiet):
            far = (frame.destination if outbound else frame.source, word(frame.segment, 2 * outbound))
            stage = stages.get(far)
            if outbound:
                if mapping.make_room(far):
                    stages[far] = sent(stage, flags)
            elif stage is not None:
                stages[far] = received(stage, flags)
                if not mapping.is_crowded and not OPEN.intersection(stages.values()):
                    mapping.expires = min(mapping.expires, now + TRANSITORY_S * SECOND)
        if outbound:
            mapping.expires = now + (ESTABLISHED_S if mapping.is_steady() else TRANSITORY_S) * SECOND
    elif outbound:
        mapping.expires = now + (UDP_S if frame.protocol == UDP else ICMP_S) * SECOND


def sent(stage: str | None, flags: int) -> str:
    """How a connection stands behind a segment of the inside."""
    if flags & (FIN | RST):
        return "closed"
    if stage is None or flags & SYN:
        return "opening"
    return "established" if stage == "reset" else stage


def received(stage: str, flags: int) -> str:
    """How it stands behind a segment of the far end; a forged reset does not end it for good
    (RFC 5961 section 3)."""
    if stage in OPEN and flags & RST:
        return "reset"
    if stage in OPEN and flags & FIN:
        return "closed"
    return "established" if stage == "opening" and flags & ACK else stage


def is_error(frame: Frame) -> bool:
    """About another packet."""
    return frame.protocol == ICMP and frame.segment[0] in ERRORS


def about(frame: Frame, end: int) -> tuple[bytes, int, int]:
    """Address, port and protocol of the packet that an error is about (RFC 5508 section 4.1)."""
    quoted = frame.segment[8:]
    whole = len(quoted) >= 20 and len(quoted) >= header_length(quoted) >= 20
    if ones_sum(frame.segment) != 0xFFFF or not whole:
        raise Refused("nat_checksum")
    header, segment = quoted[: header_length(quoted)], quoted[header_length(quoted) :]
    if ones_sum(header) != 0xFFFF:
        raise Refused("nat_checksum")
    protocol = header[9]
    at = port_at(protocol, end)
    later = word(header, 6) & 0x1FFF
    if later or protocol not in CHECKSUM_AT or len(segment) < at + 2:
        raise Refused("nat_protocol")
    return header[12 + 4 * end : 16 + 4 * end], word(segment, at), protocol


def with_quoted(frame: Frame, end: int, address: bytes, port: int) -> bytes:
    """The error about a packet that has another end (RFC 5508 section 4.2)."""
    quoted = frame.segment[8:]
    size, protocol = header_length(quoted), quoted[9]
    header, segment = quoted[:size], bytearray(quoted[size:])
    at, sum_at = port_at(protocol, end), CHECKSUM_AT[protocol]
    before = bytes(segment[at : at + 2])
    after = port.to_bytes(2, "big")
    if protocol != ICMP:
        before, after = header[12 + 4 * end : 16 + 4 * end] + before, address + after
    old = word(segment, sum_at)
    segment[at : at + 2] = port.to_bytes(2, "big")
    if len(segment) >= sum_at + 2 and (protocol, old) != (UDP, 0):
        fresh = by_difference(before, after, old)
        fresh = 0xFFFF if (protocol, fresh) == (UDP, 0) else fresh
        segment[sum_at : sum_at + 2] = fresh.to_bytes(2, "big")
    quoted = with_address(header, end, address) + bytes(segment)
    return frame.ip[: frame.transport] + summed(frame.segment[:8] + quoted, b"")


def with_address(packet: bytes, end: int, address: bytes) -> bytes:
    """The packet or header with another address."""
    return with_header_checksum(packet[: 12 + 4 * end] + address + packet[16 + 4 * end :])


def reread(frame: Frame, packet: bytes) -> Frame:
    """The frame with another packet in it, taken apart."""
    return dissect(frame.octets[: frame.network] + packet)
