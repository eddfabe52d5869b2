"""IPv4 and IPv6 fragments: in order, out of order, overlapping, and hostile.

The notes say of each frame which piece of which datagram it is.
"""

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    PadN,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from .capture import Capture
from .plan import downlink4, downlink6, payload, uplink4, uplink6

MORE = "MF"
UDP_PROTOCOL, TCP_PROTOCOL, ICMPV6_PROTOCOL = 17, 6, 58


def build() -> Capture:
    """IPv4, then IPv6; the notes become fragments.txt."""
    capture = Capture()
    parts = (
        whole4,
        orders4,
        interleaved4,
        overlapping4,
        first_too_short4,
        odd4,
        whole6,
        orders6,
        overlapping6,
        first_too_short6,
        odd6,
        downlink,
    )
    for part in parts:
        part(capture)
    capture.side_files["fragments.txt"] = capture.notes("fragments.pcap, frame by frame")
    return capture


def transport(layer: Packet, header: Packet) -> bytes:
    """The transport bytes with the checksum that `header` gives them."""
    return bytes(Ether(bytes(header / layer)).payload.payload)


def datagram(header: Packet, size: int) -> bytes:
    """UDP header and payload of `size` octets, checksum over the whole."""
    return transport(UDP(sport=40000, dport=5001) / payload(size - 8), header)


def piece4(
    n: int,
    identification: int,
    data: bytes,
    start: int,
    end: int,
    last: bool,
    protocol=UDP_PROTOCOL,
) -> Packet:
    """Octets start..end of `data` as an IPv4 fragment of user n; start is a multiple of 8."""
    flags = 0 if last else MORE
    return (
        uplink4(n, id=identification, proto=protocol, frag=start // 8, flags=flags)
        / data[start:end]
    )


def pieces4(n: int, identification: int, size: int, step: int) -> list[Packet]:
    """A datagram of `size` octets in pieces of `step`."""
    data = datagram(uplink4(n), size)
    return [
        piece4(n, identification, data, start, start + step, start + step >= size)
        for start in range(0, size, step)
    ]


def add_all(capture: Capture, pieces: list[Packet], order: tuple[int, ...], what: str) -> None:
    """Adds the pieces in `order`; the note says which of how many each is."""
    for position in order:
        capture.add_padded(pieces[position], f"{what}: piece {position + 1} of {len(pieces)}")


def whole4(capture: Capture) -> None:
    """An unfragmented datagram to compare with."""
    capture.add(uplink4(1) / UDP(sport=40000, dport=5001) / payload(100), "IPv4, not a fragment")


def orders4(capture: Capture) -> None:
    """The same sizes in order, in reverse, last first, one piece doubled, one lost."""
    add_all(capture, pieces4(1, 0x0101, 3008, 1480), (0, 1, 2), "IPv4 in order")
    add_all(capture, pieces4(2, 0x0102, 3008, 1480), (2, 1, 0), "IPv4 in reverse")
    add_all(capture, pieces4(3, 0x0103, 600, 200), (2, 0, 1), "IPv4 last first")
    add_all(capture, pieces4(4, 0x0104, 600, 200), (0, 1, 1, 2), "IPv4 doubled")
    add_all(capture, pieces4(5, 0x0105, 600, 200), (0, 2), "IPv4 middle lost")
    add_all(capture, pieces4(6, 0x0106, 600, 200), (1, 2), "IPv4 first lost")
    add_all(capture, pieces4(7, 0x0107, 128, 16), tuple(range(8)), "IPv4 many small")


def interleaved4(capture: Capture) -> None:
    """Two users with the same identification, and one user with two, in turn."""
    first, second = pieces4(8, 0x0200, 600, 200), pieces4(9, 0x0200, 600, 200)
    third = pieces4(8, 0x0201, 600, 200)
    for position in range(3):
        for pieces, what in ((first, "user 8 a"), (second, "user 9"), (third, "user 8 b")):
            add_all(capture, pieces, (position,), f"IPv4 interleaved, {what}")


def overlapping4(capture: Capture) -> None:
    """Pieces that disagree about the same octets (RFC 1858, RFC 3128, teardrop)."""
    data, other = datagram(uplink4(10), 400), payload(400, 0x80)
    capture.add(piece4(10, 0x0301, data, 0, 200, False), "IPv4 overlap: octets 0-199")
    capture.add(
        piece4(10, 0x0301, other, 96, 400, True), "IPv4 overlap: octets 96-399, other content"
    )
    capture.add(piece4(10, 0x0302, data, 0, 400, False), "IPv4 teardrop: octets 0-399")
    capture.add_padded(
        piece4(10, 0x0302, other, 80, 96, True), "IPv4 teardrop: octets 80-95, inside the first"
    )
    capture.add(piece4(10, 0x0303, data, 0, 200, False), "IPv4 same offset: octets 0-199")
    capture.add(
        piece4(10, 0x0303, other, 0, 200, False), "IPv4 same offset: octets 0-199, other content"
    )
    syn = transport(TCP(sport=40000, dport=23, flags="S"), uplink4(10))
    ack = transport(TCP(sport=40000, dport=80, flags="A"), uplink4(10))
    capture.add_padded(
        piece4(10, 0x0304, ack, 0, 16, False, TCP_PROTOCOL), "IPv4 overlaid TCP header: octets 0-15"
    )
    capture.add_padded(
        piece4(10, 0x0304, syn, 8, 20, True, TCP_PROTOCOL),
        "IPv4 overlaid TCP header: octets 8-19 set SYN",
    )


def first_too_short4(capture: Capture) -> None:
    """First fragments that end inside the transport header (RFC 1858 section 3)."""
    tcp = transport(TCP(sport=40000, dport=80, flags="S") / payload(60), uplink4(11))
    for size in (8, 16):
        first = piece4(11, 0x0400 + size, tcp, 0, size, False, TCP_PROTOCOL)
        rest = piece4(11, 0x0400 + size, tcp, size, len(tcp), True, TCP_PROTOCOL)
        capture.add_padded(first, f"IPv4 tiny first: {size} octets of TCP")
        capture.add_padded(rest, "IPv4 tiny first: the rest")
    udp = datagram(uplink4(11), 64)
    capture.add_padded(
        piece4(11, 0x0420, udp, 0, 8, False), "IPv4 tiny first: the UDP header alone"
    )
    capture.add_padded(piece4(11, 0x0420, udp, 8, 64, True), "IPv4 tiny first: the rest of UDP")
    capture.add_padded(piece4(11, 0x0421, udp, 0, 4, False), "IPv4 tiny first: 4 octets of UDP")


def odd4(capture: Capture) -> None:
    """Fragments that no sender of sound mind makes."""
    data = datagram(uplink4(12), 400)
    capture.add_padded(piece4(12, 0x0501, data, 0, 0, False), "IPv4 first fragment without data")
    capture.add_padded(piece4(12, 0x0502, data, 8, 8, True), "IPv4 last fragment without data")
    capture.add(piece4(12, 0x0503, data, 0, 101, False), "IPv4 more fragments, but 101 octets")
    capture.add(
        uplink4(12, id=0x0504, proto=17, flags="MF+DF") / data,
        "IPv4 more fragments and don't fragment",
    )
    beyond = uplink4(12, id=0x0505, proto=17, frag=0x1FFF) / payload(100)
    capture.add(beyond, "IPv4 last fragment ends past octet 65535 (ping of death)")
    expired = uplink4(12, id=0x0506, proto=17, ttl=1, frag=20) / payload(100)
    capture.add(
        expired, "IPv4 later fragment with TTL 1: no ICMP error is owed (RFC 1122 section 3.2.2)"
    )


def piece6(
    n: int,
    identification: int,
    data: bytes,
    start: int,
    end: int,
    last: bool,
    protocol=UDP_PROTOCOL,
) -> Packet:
    """Octets start..end of `data` as an IPv6 fragment of user n; start is a multiple of 8."""
    extension = IPv6ExtHdrFragment(
        nh=protocol, id=identification, offset=start // 8, m=int(not last)
    )
    return uplink6(n) / extension / data[start:end]


def pieces6(n: int, identification: int, size: int, step: int) -> list[Packet]:
    """A datagram of `size` octets in pieces of `step`."""
    data = datagram(uplink6(n), size)
    return [
        piece6(n, identification, data, start, start + step, start + step >= size)
        for start in range(0, size, step)
    ]


def whole6(capture: Capture) -> None:
    """An unfragmented datagram, and atomic fragments (RFC 6946)."""
    capture.add(uplink6(1) / UDP(sport=40000, dport=5001) / payload(100), "IPv6, not a fragment")
    atomic = IPv6ExtHdrFragment(id=0x0600)
    capture.add(
        uplink6(1) / atomic / UDP(sport=40000, dport=5001) / payload(100),
        "IPv6 atomic fragment, UDP",
    )
    echo = ICMPv6EchoRequest(id=6, seq=1, data=payload(56))
    capture.add(uplink6(1) / atomic / echo, "IPv6 atomic fragment, ICMPv6")


def orders6(capture: Capture) -> None:
    """In order, in reverse, last first, one lost, and behind other extension headers."""
    add_all(capture, pieces6(1, 0x0701, 2896, 1448), (0, 1), "IPv6 in order")
    add_all(capture, pieces6(2, 0x0702, 2896, 1448), (1, 0), "IPv6 in reverse")
    add_all(capture, pieces6(3, 0x0703, 600, 200), (2, 0, 1), "IPv6 last first")
    add_all(capture, pieces6(4, 0x0704, 600, 200), (0, 2), "IPv6 middle lost")
    add_all(capture, pieces6(5, 0x0705, 600, 200), (1, 2), "IPv6 first lost")
    data = datagram(uplink6(6), 400)
    for start, end in ((0, 200), (200, 400)):
        options = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)])
        fragment = IPv6ExtHdrFragment(nh=17, id=0x0706, offset=start // 8, m=int(end < 400))
        capture.add(
            uplink6(6) / options / fragment / data[start:end],
            f"IPv6 behind hop-by-hop: octets {start}-{end - 1}",
        )


def overlapping6(capture: Capture) -> None:
    """Overlaps, which RFC 5722 forbids."""
    data, other = datagram(uplink6(7), 400), payload(400, 0x80)
    capture.add(piece6(7, 0x0801, data, 0, 200, False), "IPv6 overlap: octets 0-199")
    capture.add(
        piece6(7, 0x0801, other, 96, 400, True), "IPv6 overlap: octets 96-399, other content"
    )
    capture.add(piece6(7, 0x0802, data, 0, 200, False), "IPv6 same offset: octets 0-199")
    capture.add(
        piece6(7, 0x0802, other, 0, 200, False), "IPv6 same offset: octets 0-199, other content"
    )


def first_too_short6(capture: Capture) -> None:
    """First fragments without the whole header chain (RFC 7112)."""
    tcp = transport(TCP(sport=40000, dport=80, flags="S") / payload(60), uplink6(8))
    capture.add(
        piece6(8, 0x0901, tcp, 0, 8, False, TCP_PROTOCOL), "IPv6 tiny first: 8 octets of TCP"
    )
    capture.add(
        piece6(8, 0x0901, tcp, 8, len(tcp), True, TCP_PROTOCOL), "IPv6 tiny first: the rest"
    )
    options = bytes(IPv6ExtHdrDestOpt(nh=17, options=[PadN(optdata=b"\0" * 12)]))
    chain = options + datagram(uplink6(8), 64)
    capture.add(
        piece6(8, 0x0902, chain, 0, 16, False, 60), "IPv6 header chain split: the options alone"
    )
    capture.add(piece6(8, 0x0902, chain, 16, len(chain), True, 60), "IPv6 header chain split: UDP")
    capture.add(
        piece6(8, 0x0903, chain, 0, 8, False, 60), "IPv6 header chain split: half of the options"
    )
    capture.add(
        piece6(8, 0x0903, chain, 8, len(chain), True, 60),
        "IPv6 header chain split: the other half and UDP",
    )


def odd6(capture: Capture) -> None:
    """Fragments that no sender of sound mind makes."""
    data = datagram(uplink6(9), 400)
    capture.add(piece6(9, 0x0A01, data, 0, 0, False), "IPv6 first fragment without data")
    capture.add(piece6(9, 0x0A02, data, 8, 8, True), "IPv6 last fragment without data")
    capture.add(piece6(9, 0x0A03, data, 0, 101, False), "IPv6 more fragments, but 101 octets")
    beyond = IPv6ExtHdrFragment(nh=17, id=0x0A04, offset=0x1FFF)
    capture.add(uplink6(9) / beyond / payload(100), "IPv6 last fragment ends past octet 65535")
    nested = IPv6ExtHdrFragment(id=0x0A05) / IPv6ExtHdrFragment(nh=17, id=0x0A06, m=1)
    capture.add(uplink6(9) / nested / data[:200], "IPv6 fragment header inside a fragment")
    expired = uplink6(9, hlim=1) / IPv6ExtHdrFragment(nh=17, id=0x0A07, offset=20)
    capture.add(expired / payload(100), "IPv6 later fragment with hop limit 1")


def downlink(capture: Capture) -> None:
    """Two datagrams towards a user, to be read at the core port by its destination MAC address."""
    data4, data6 = datagram(downlink4(1), 400), datagram(downlink6(1), 400)
    for start in (0, 200):
        flags, frag, span = (MORE if start == 0 else 0), start // 8, slice(start, start + 200)
        piece = downlink4(1, id=0x0B01, proto=17, frag=frag, flags=flags) / data4[span]
        capture.add(piece, f"IPv4 downlink: octets {start}-{start + 199}")
        extension = IPv6ExtHdrFragment(nh=17, id=0x0B02, offset=frag, m=int(start == 0))
        capture.add(
            downlink6(1) / extension / data6[span], f"IPv6 downlink: octets {start}-{start + 199}"
        )
