"""A decompressor of IP headers (RFC 2507), in the plainest way.

Contexts are whole headers; what a compressed header says is applied to a copy, and
lengths and IPv4 checksums are computed anew.
"""

from dataclasses import dataclass, field

from .checksum import header_length, ones_sum, with_header_checksum

FULL_HEADER, COMPRESSED_TCP, COMPRESSED_NON_TCP = 0x0061, 0x0063, 0x0065
COMPRESSED_TCP_NODELTA, CONTEXT_STATE = 0x2063, 0x2065
IPV4, TCP, UDP, IPV6 = 4, 6, 17, 41
# Hop-by-hop options, routing, destination options.
EXTENSIONS = (0, 43, 60)


class Undecodable(Exception):
    """Why a packet cannot be rebuilt."""


@dataclass
class Chain:
    """Where the headers are that begin a packet (RFC 2507 §3)."""

    layers: list[tuple[int, int]] = field(default_factory=list)  # version, offset
    transport: int = 0  # TCP, UDP, or 0
    at: int = 0  # of the transport header
    length: int = 0


def walk(packet: bytes) -> Chain:
    """Follows the headers from the first one on."""
    chain, place = Chain(), 0
    following = IPV4 if packet[0] >> 4 == 4 else IPV6
    while True:
        if following == IPV4:
            chain.layers.append((4, place))
            step, after = header_length(packet[place:]), packet[place + 9]
        elif following == IPV6:
            chain.layers.append((6, place))
            step, after = 40, packet[place + 6]
        elif following in EXTENSIONS and chain.layers[-1][0] == 6:
            step, after = (packet[place + 1] + 1) * 8, packet[place]
        else:
            if following in (TCP, UDP):
                chain.transport, chain.at = following, place
                place += (packet[place + 12] >> 4) * 4 if following == TCP else 8
            chain.length = place
            return chain
        place, following = place + step, after


def length_places(chain: Chain) -> list[int]:
    """The length fields, the outermost first (§5.3.2)."""
    places = [offset + (2 if version == 4 else 4) for version, offset in chain.layers]
    return places + [chain.at + 4] if chain.transport == UDP else places


def random_places(chain: Chain, packet: bytes, whole: bool) -> list[int]:
    """The RANDOM fields of two octets (§7): identifications, but for that in front of TCP
    unless the segment goes whole, and the UDP checksum if there is one."""
    places = [offset + 4 for version, offset in chain.layers if version == 4]
    if chain.transport == TCP and chain.layers[-1][0] == 4 and not whole:
        places.pop()
    if chain.transport == UDP and packet[chain.at + 6 : chain.at + 8] != bytes(2):
        places.append(chain.at + 6)
    return places


def inferred(chain: Chain, headers: bytes, data: bytes) -> bytes:
    """The packet with its INFERRED fields (§7)."""
    packet = bytearray(headers + data)
    for version, offset in chain.layers:
        if version == 6:
            packet[offset + 4 : offset + 6] = (len(packet) - offset - 40).to_bytes(2, "big")
            continue
        packet[offset + 2 : offset + 4] = (len(packet) - offset).to_bytes(2, "big")
        packet[offset:] = with_header_checksum(bytes(packet[offset:]))
    if chain.transport == UDP:
        packet[chain.at + 4 : chain.at + 6] = (len(packet) - chain.at).to_bytes(2, "big")
    return bytes(packet)


def tcp_is_right(chain: Chain, packet: bytes) -> bool:
    """Whether the TCP checksum is."""
    version, offset = chain.layers[-1]
    if version == 4:
        addresses = packet[offset + 12 : offset + 20]
    else:
        addresses = packet[offset + 8 : offset + 24] + final_destination(packet, offset)
    segment = packet[chain.at :]
    return ones_sum(addresses + bytes([0, TCP]) + len(segment).to_bytes(2, "big") + segment) == 0xFFFF


def final_destination(packet: bytes, offset: int) -> bytes:
    """Of an IPv6 packet: the last address of a routing header of type 0 on its way
    (RFC 8200 §8.1), otherwise the destination."""
    place, following = offset + 40, packet[offset + 6]
    while following in EXTENSIONS:
        length = (packet[place + 1] + 1) * 8
        if following == 43 and packet[place + 3]:
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
        packet = inferred(chain, octets[: chain.length], octets[chain.length :])
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
        chain = walk(headers)
        return inferred(chain, with_random(chain, headers, reader, whole=True), reader.octets)

    def delta(self, octets: bytes) -> bytes:
        """COMPRESSED_TCP (§6 a)."""
        reader = Reader(octets)
        cid, flags = reader.number(), reader.number()
        checksum = reader.take(2)
        if cid not in self.tcp:
            raise Undecodable("unknown context")
        headers, before = self.tcp[cid]
        chain = walk(headers)
        new = bytearray(with_random(chain, headers, reader, whole=False))
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
        version, offset = chain.layers[-1]
        if version == 4:
            add(new, offset + 4, 2, identification)
        add(new, chain.at + 4, 4, sequence)
        add(new, chain.at + 8, 4, acknowledgment)
        add(new, chain.at + 14, 2, window)
        new[chain.at + 13] &= ~0x28
        new[chain.at + 13] |= (0x08 if flags & 0x10 else 0) | (0 if urgent is None else 0x20)
        new[chain.at + 16 : chain.at + 18] = checksum
        if urgent is not None:
            new[chain.at + 18 : chain.at + 20] = urgent.to_bytes(2, "big")
        if flags & 0x40:
            new[chain.at + 20 :] = reader.take(chain.length - chain.at - 20)
        context = bytes(new)
        if octet is not None:
            place, shift = (offset + 1, 0) if version == 4 else (offset + 1, 4)
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
        chain = walk(self.tcp[cid][0])
        headers = with_random(chain, self.tcp[cid][0], reader, whole=True)
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


def with_random(chain: Chain, headers: bytes, reader: Reader, whole: bool) -> bytes:
    """The headers with their RANDOM fields."""
    new = bytearray(headers)
    for at in random_places(chain, headers, whole):
        new[at : at + 2] = reader.take(2)
    return bytes(new)


def add(octets: bytearray, at: int, count: int, delta: int) -> None:
    """Adds to a number in its place."""
    number = int.from_bytes(octets[at : at + count], "big") + delta
    octets[at : at + count] = (number % (1 << 8 * count)).to_bytes(count, "big")
