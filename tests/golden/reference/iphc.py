"""A decompressor of IP headers (RFC 2507), in the plainest way.

Contexts are whole headers; what a compressed header says is applied to a copy, and
lengths and IPv4 checksums are computed anew.
"""

from dataclasses import dataclass, field

from .checksum import header_length, ones_sum, with_header_checksum

FULL_HEADER, COMPRESSED_TCP, COMPRESSED_NON_TCP = 0x0061, 0x0063, 0x0065
COMPRESSED_TCP_NODELTA, CONTEXT_STATE = 0x2063, 0x2065
IPV4, TCP, UDP, IPV6 = 4, 6, 17, 41
HOP_BY_HOP, ROUTING, FRAGMENT, ESP, AH, DESTINATION = 0, 43, 44, 50, 51, 60
# Of IPv6 alone; what else is called an extension header there may follow IPv4 as well.
EXTENSIONS = (HOP_BY_HOP, ROUTING, DESTINATION)
PADDING = (0, 1)
MAX_HEADER = 168


class Undecodable(Exception):
    """Why a packet cannot be rebuilt."""


@dataclass
class Subheader:
    """A part of the header (§2)."""

    kind: int  # its protocol number
    at: int
    length: int
    whole: bool = False  # of IPv4, with options or a fragment: §7.13 b


@dataclass
class Chain:
    """The compressible subheaders that begin a packet (§7)."""

    parts: list[Subheader] = field(default_factory=list)

    @property
    def layers(self) -> list[Subheader]:
        """The IP headers."""
        return [part for part in self.parts if part.kind in (IPV4, IPV6)]

    @property
    def last(self) -> Subheader:
        """What the chain ends with."""
        return self.parts[-1]

    @property
    def transport(self) -> int:
        """TCP, UDP, or 0."""
        return self.last.kind if self.last.kind in (TCP, UDP) else 0

    @property
    def at(self) -> int:
        """Where the transport header is."""
        return self.last.at

    @property
    def length(self) -> int:
        """Octets of the header."""
        return self.last.at + self.last.length

    @property
    def unit(self) -> Subheader | None:
        """IPv4 that TCP follows immediately, to be compressed as one with it (§6 a, §7.13 a)."""
        before = self.parts[-2] if self.transport == TCP else None
        return before if before and before.kind == IPV4 and not before.whole else None

    @property
    def marked(self) -> Subheader | None:
        """The IP header of whose class the R octet has two bits (§6 a, §7.1)."""
        return self.unit or (self.layers[-1] if self.layers[-1].kind == IPV6 else None)


def walk(packet: bytes) -> Chain:
    """Follows the subheaders from the first one on (§7 a and b)."""
    chain, place = Chain(), 0
    following = IPV4 if packet[0] >> 4 == 4 else IPV6
    while following is not None:
        part, following = subheader(packet, place, following, chain)
        if part is None or place + part.length > MAX_HEADER:
            break
        chain.parts.append(part)
        place += part.length
    return chain


def subheader(
    packet: bytes, at: int, kind: int, chain: Chain
) -> tuple[Subheader | None, int | None]:
    """The subheader at a place, and the protocol of the next; none where the chain ends."""
    behind_ipv6 = bool(chain.parts) and chain.layers[-1].kind == IPV6
    if kind == IPV4:
        length = header_length(packet[at:])
        fragment = int.from_bytes(packet[at + 6 : at + 8], "big") & 0x3FFF != 0
        part = Subheader(kind, at, length, whole=fragment or length > 20)
        return part, None if fragment else packet[at + 9]
    if kind == IPV6:
        return Subheader(kind, at, 40), packet[at + 6]
    if kind == TCP:
        return Subheader(kind, at, (packet[at + 12] >> 4) * 4), None
    if kind == UDP:
        return Subheader(kind, at, 8), None
    if kind in EXTENSIONS and behind_ipv6:
        return Subheader(kind, at, (packet[at + 1] + 1) * 8), packet[at]
    if kind == FRAGMENT and behind_ipv6:
        return Subheader(kind, at, 8), None
    if kind == AH:
        return Subheader(kind, at, (packet[at + 1] + 2) * 4), packet[at]
    if kind == ESP:
        return Subheader(kind, at, 4), None
    return None, None


def length_places(chain: Chain) -> list[int]:
    """The length fields, the outermost first (§5.3.2)."""
    places = [layer.at + (2 if layer.kind == IPV4 else 4) for layer in chain.layers]
    return places + [chain.at + 4] if chain.transport == UDP else places


def random_octets(chain: Chain, part: Subheader, header: bytes, whole_tcp: bool) -> list[int]:
    """The RANDOM octets of a subheader, from its beginning (§7.3 to §7.13)."""
    octets = header[part.at : part.at + part.length]
    if part.kind == IPV4 and part.whole:
        return list(range(part.length))
    if part.kind == IPV4:
        return [4, 5] if part is not chain.unit or whole_tcp else []
    if part.kind in (HOP_BY_HOP, DESTINATION):
        return option_data(octets)
    if part.kind == FRAGMENT:
        return list(range(2, 8))
    if part.kind == AH:
        return list(range(8, part.length))
    if part.kind == UDP:
        return [6, 7] if octets[6:8] != bytes(2) else []
    return []


def option_data(octets: bytes) -> list[int]:
    """The data of options but padding (§7.3)."""
    found, at = [], 2
    while at < len(octets):
        if octets[at] == 0:
            at += 1
            continue
        if octets[at] not in PADDING:
            found += range(at + 2, at + 2 + octets[at + 1])
        at += 2 + octets[at + 1]
    return found


def inferred(chain: Chain, headers: bytes, data: bytes, full: bool = False) -> bytes:
    """The packet with its INFERRED fields (§7). In a full header, length fields of headers
    that are otherwise sent whole have to be inferred as well (§5.3)."""
    packet = bytearray(headers + data)
    for layer in chain.layers:
        if layer.kind == IPV6:
            packet[layer.at + 4 : layer.at + 6] = (len(packet) - layer.at - 40).to_bytes(2, "big")
        elif full or not layer.whole:
            packet[layer.at + 2 : layer.at + 4] = (len(packet) - layer.at).to_bytes(2, "big")
        if layer.kind == IPV4 and not layer.whole:
            packet[layer.at :] = with_header_checksum(bytes(packet[layer.at :]))
    if chain.transport == UDP:
        packet[chain.at + 4 : chain.at + 6] = (len(packet) - chain.at).to_bytes(2, "big")
    return bytes(packet)


def tcp_is_right(chain: Chain, packet: bytes) -> bool:
    """Whether the TCP checksum is."""
    layer = chain.layers[-1]
    offset = layer.at
    if layer.kind == IPV4:
        addresses = packet[offset + 12 : offset + 20]
    else:
        addresses = packet[offset + 8 : offset + 24] + final_destination(packet, offset)
    segment = packet[chain.at :]
    return ones_sum(addresses + bytes([0, TCP]) + len(segment).to_bytes(2, "big") + segment) == 0xFFFF


def final_destination(packet: bytes, offset: int) -> bytes:
    """Of an IPv6 packet: the last address of a routing header of type 0 on its way
    (RFC 8200 §8.1), otherwise the destination."""
    place, following = offset + 40, packet[offset + 6]
    while following in (*EXTENSIONS, AH):
        words = packet[place + 1]
        length = (words + 2) * 4 if following == AH else (words + 1) * 8
        if following == ROUTING and packet[place + 3]:
            return packet[place + length - 16 : place + length]
        place, following = place + length, packet[place]
    return packet[offset + 24 : offset + 40]


class Reader:
    """Octets that are taken from the front."""

    def __init__(self, octets: bytes):
        self.octets = octets

    def take(self, count: int) -> bytes:
        """So many of them."""
        if len(self.octets) < count:
            raise Undecodable("cut off")
        taken, self.octets = self.octets[:count], self.octets[count:]
        return taken

    def number(self, count: int = 1) -> int:
        """A number of so many octets."""
        return int.from_bytes(self.take(count), "big")

    def delta(self) -> int:
        """One octet, or 0 and two more (RFC 1144 §3.2.3)."""
        return self.number() or self.number(2)


@dataclass
class Decompressor:
    """The contexts of one link."""

    tcp: dict = field(default_factory=dict)  # CID: headers, octets of data behind them
    other: dict = field(default_factory=dict)  # CID: headers, generation

    def packet(self, protocol: int, octets: bytes) -> bytes:
        """The packet that a frame of a PPP protocol stands for."""
        kinds = {
            FULL_HEADER: self.full,
            COMPRESSED_NON_TCP: self.non_tcp,
            COMPRESSED_TCP: self.delta,
            COMPRESSED_TCP_NODELTA: self.whole,
        }
        return kinds[protocol](octets)

    def full(self, octets: bytes) -> bytes:
        """FULL_HEADER (§5.3.2)."""
        chain = walk(octets)
        fields = [int.from_bytes(octets[at : at + 2], "big") for at in length_places(chain)]
        packet = inferred(chain, octets[: chain.length], octets[chain.length :], full=True)
        headers = packet[: chain.length]
        if chain.transport == TCP:
            self.tcp[fields[0] & 0xFF] = (headers, len(packet) - chain.length)
        else:
            wide = fields[0] & 0x8000
            cid = fields[1] if wide else fields[0] & 0xFF
            self.other[cid] = (headers, fields[0] >> 8 & 0x3F)
        return packet

    def non_tcp(self, octets: bytes) -> bytes:
        """COMPRESSED_NON_TCP (§6 c)."""
        reader = Reader(octets)
        cid, flags = reader.number(), reader.number()
        if flags & 0x80:
            cid = cid << 8 | reader.number()
        if flags & 0x40:
            reader.number()
        if cid not in self.other:
            raise Undecodable("unknown context")
        headers, generation = self.other[cid]
        if generation != flags & 0x3F:
            raise Undecodable("stale generation")
        headers = with_random(walk(headers), headers, reader, whole_tcp=True)
        return inferred(walk(headers), headers, reader.octets)

    def delta(self, octets: bytes) -> bytes:
        """COMPRESSED_TCP (§6 a)."""
        reader = Reader(octets)
        cid, flags = reader.number(), reader.number()
        checksum = reader.take(2)
        if cid not in self.tcp:
            raise Undecodable("unknown context")
        headers, before = self.tcp[cid]
        new = bytearray(with_random(walk(headers), headers, reader, whole_tcp=False))
        chain = walk(bytes(new))
        octet = reader.number() if flags & 0x80 else None
        sequence = acknowledgment = window = 0
        urgent = None
        if flags & 0x0F == 0x0F:
            sequence = before
        elif flags & 0x0F == 0x0B:
            sequence = acknowledgment = before
        else:
            urgent = reader.delta() if flags & 1 else None
            window = reader.delta() if flags & 2 else 0
            acknowledgment = reader.delta() if flags & 4 else 0
            sequence = reader.delta() if flags & 8 else 0
        identification = reader.delta() if flags & 0x20 else 1
        if chain.unit:
            add(new, chain.unit.at + 4, 2, identification)
        add(new, chain.at + 4, 4, sequence)
        add(new, chain.at + 8, 4, acknowledgment)
        add(new, chain.at + 14, 2, window)
        # ACK is inferred to be 1, RST, SYN and FIN to be 0 (§7.12.1).
        new[chain.at + 13] = new[chain.at + 13] & 0xC0 | 0x10
        new[chain.at + 13] |= (0x08 if flags & 0x10 else 0) | (0 if urgent is None else 0x20)
        new[chain.at + 16 : chain.at + 18] = checksum
        if urgent is not None:
            new[chain.at + 18 : chain.at + 20] = urgent.to_bytes(2, "big")
        if flags & 0x40:
            new[chain.at + 20 :] = reader.take(chain.length - chain.at - 20)
        context = bytes(new)
        if octet is not None:
            if chain.marked:
                place, shift = chain.marked.at + 1, 0 if chain.marked.kind == IPV4 else 4
                new[place] = new[place] & ~(3 << shift) | (octet & 3) << shift
            new[chain.at + 12] = new[chain.at + 12] & 0xF0 | octet >> 4
            new[chain.at + 13] = new[chain.at + 13] & 0x3F | (octet & 0x0C) << 4
        return self.accept(cid, chain, context, inferred(chain, bytes(new), reader.octets))

    def whole(self, octets: bytes) -> bytes:
        """COMPRESSED_TCP_NODELTA (§6 b)."""
        reader = Reader(octets)
        cid = reader.number()
        if cid not in self.tcp:
            raise Undecodable("unknown context")
        headers = self.tcp[cid][0]
        headers = with_random(walk(headers), headers, reader, whole_tcp=True)
        chain = walk(headers)
        if len(reader.octets) < 9:
            raise Undecodable("cut off")
        ports = headers[chain.at : chain.at + 4]
        segment = reader.take((reader.octets[8] >> 4) * 4 - 4)
        headers = headers[: chain.at] + ports + segment
        chain = walk(headers)
        packet = inferred(chain, headers, reader.octets)
        return self.accept(cid, chain, packet[: chain.length], packet)

    def accept(self, cid: int, chain: Chain, context: bytes, packet: bytes) -> bytes:
        """The packet, if TCP's checksum finds it right: only then the context changes."""
        if not tcp_is_right(chain, packet):
            raise Undecodable("damaged")
        self.tcp[cid] = (context, len(packet) - chain.length)
        return packet


def with_random(chain: Chain, headers: bytes, reader: Reader, whole_tcp: bool) -> bytes:
    """The headers with their RANDOM fields. Of a header that is sent whole the length is
    what it says, not what it was (§7.13 b: the size of options tells no packet stream)."""
    new = bytearray()
    for part in chain.parts:
        octets = bytearray(headers[part.at : part.at + part.length])
        if part.whole:
            octets = bytearray(reader.take(20))
            octets += reader.take((octets[0] & 0xF) * 4 - 20)
        else:
            for at in random_octets(chain, part, headers, whole_tcp):
                octets[at] = reader.number()
        new += octets
    return bytes(new)


def add(octets: bytearray, at: int, count: int, delta: int) -> None:
    """Adds to a number in its place."""
    number = int.from_bytes(octets[at : at + count], "big") + delta
    octets[at : at + count] = (number % (1 << 8 * count)).to_bytes(count, "big")
