"""What comes out of softwires: RFC 7596 sections 5.2, 6.2 and 8, with its faults."""

import random

from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    PadN,
)
from scapy.packet import Packet

from .capture import Capture
from .lwaftr_plan import AFTR, GROUPED, SHARED, SOFTWIRES, address, datagram, ipv4, port, tunnel, up4
from .nat_plan import damaged, query
from .plan import access, outside4, outside6, payload, uplink4, uplink6, user6

ICMPV4 = 1


def build() -> Capture:
    """All parts, one after another."""
    capture = Capture()
    for part in (
        softwires,
        queries,
        errors_of_users,
        classes,
        refused,
        malformed,
        others,
        inner_fragments,
        outer_fragments,
        spoilt_fragments,
        hairpins,
        tunnel_errors,
    ):
        part(capture)
    return capture


def softwires(capture: Capture) -> None:
    """Every softwire from the edges of its port sets."""
    for n, (_, ports) in SOFTWIRES.items():
        for i, number in enumerate(ports):
            udp, tcp = UDP(sport=number, dport=5001), TCP(sport=number, dport=443, flags="S")
            capture.add(tunnel(n, up4(n, outside4(n)) / udp / payload(20 + i, n)))
            capture.add(tunnel(n, up4(n, outside4(n), ttl=2 + i) / tcp))
    options = up4(1, outside4(1), options=[IPOption_Router_Alert()])
    capture.add(tunnel(1, options / datagram(1) / payload(33)))
    unsummed = up4(2, outside4(1)) / UDP(sport=port(2), dport=9, chksum=0) / payload(20)
    capture.add(tunnel(2, unsummed))
    # An extension header in front, and padding of the link behind.
    inner = ipv4(up4(3, outside4(3)) / datagram(3) / payload(8))
    front = access() / IPv6(src=user6(3), dst=AFTR)
    extension = IPv6ExtHdrDestOpt(nh=4, options=[PadN(optdata=b"\0" * 4)])
    capture.add(front / extension / inner)
    capture.add(bytes(tunnel(3, inner)) + bytes(20))


def queries(capture: Capture) -> None:
    """Echoes by identifiers that are in the set, and that are not."""
    for n in (1, 2, 5, 7):
        for kind in (8, 0, 13):
            inner = up4(n, outside4(n), proto=ICMPV4) / query(kind, port(n), 1, 24)
            capture.add(tunnel(n, inner))
    capture.add(tunnel(1, up4(1, outside4(1), proto=ICMPV4) / query(8, port(2), 1, 24)))


def errors_of_users(capture: Capture) -> None:
    """About what they were sent: by a port of theirs, by another's, damaged."""
    for n, owner in ((1, 1), (2, 2), (2, 1), (7, 7)):
        came = IP(src=outside4(9), dst=address(owner)) / UDP(sport=53, dport=port(owner))
        inner = up4(n, outside4(9)) / ICMP(type=3, code=3) / ipv4(came / payload(9))
        capture.add(tunnel(n, inner))
    came = ipv4(IP(src=outside4(9), dst=address(1)) / UDP(sport=53, dport=port(1)) / payload(9))
    error = up4(1, outside4(9)) / ICMP(type=3, code=3)
    capture.add(tunnel(1, damaged(ipv4(error / came), 24)))
    capture.add(tunnel(1, error / damaged(came, 8)))
    capture.add(tunnel(1, up4(1, outside4(9)) / ICMP(type=5) / came))


def classes(capture: Capture) -> None:
    """Each congestion notification outside and inside, with code points of both."""
    for outer in range(4):
        for inner in range(4):
            packet = up4(4, outside4(4), tos=0x28 | inner) / datagram(4) / payload(8)
            capture.add(tunnel(4, packet, tc=0xB8 | outer))


def refused(capture: Capture) -> None:
    """Port, address or lwB4 of another (ingress filtering)."""
    capture.add(tunnel(1, up4(1, outside4(1)) / datagram(2) / payload(20)))
    capture.add(tunnel(3, up4(1, outside4(1)) / datagram(1) / payload(1200)))
    capture.add(tunnel(1, up4(7, outside4(1)) / datagram(7)))
    capture.add(tunnel(1, IP(src="10.0.0.1", dst=outside4(1)) / datagram(1)))
    capture.add(tunnel(19, up4(1, outside4(1)) / datagram(1)))
    for number in (0, 1023, 16383, (1 << 14) + 2 * 64, (1 << 14) + 128):
        packet = IP(src=GROUPED, dst=outside4(1)) / UDP(sport=number, dport=9)
        capture.add(tunnel(5, packet))


def malformed(capture: Capture) -> None:
    """No sound IPv4 inside."""
    inner = ipv4(up4(1, outside4(1)) / datagram(1) / payload(20))
    for place in (0, 10, 3, 2):  # version, checksum, total length
        capture.add(tunnel(1, damaged(inner, place)))
    capture.add(tunnel(1, inner[:19]))
    capture.add(tunnel(1, inner[:30]))
    short = ipv4(up4(1, outside4(1), proto=6) / bytes(12))
    capture.add(tunnel(1, short))
    capture.add(tunnel(1, ipv4(up4(1, outside4(1)) / datagram(1)) + b"behind the packet"))


def others(capture: Capture) -> None:
    """What is in no softwire, and protocols without ports."""
    capture.add(uplink6(1) / UDP(sport=9, dport=9) / payload(20))
    capture.add(uplink4(1) / UDP(sport=9, dport=9) / payload(20))
    front = access() / IPv6(src=user6(1), dst=AFTR)
    capture.add(front / UDP(sport=9, dport=9) / payload(20))
    capture.add(front / ICMPv6EchoRequest(id=1, seq=1))
    for n in (1, 7):
        capture.add(tunnel(n, up4(n, outside4(n)) / GRE() / payload(20)))


def inner_fragments(capture: Capture) -> None:
    """IPv4 fragments inside: the later ones follow their first, and no other lwB4 may join."""
    data = bytes(ipv4(up4(1, outside4(1)) / datagram(1) / payload(392)))[20:]
    for identification, order in ((0x300, (0, 1, 2)), (0x301, (2, 0, 1))):
        for i in order:
            more = "MF" if i < 2 else ""
            part = data[i * 160 : (i + 1) * 160]
            header = up4(1, outside4(1), id=identification, proto=17, frag=i * 20, flags=more)
            capture.add(tunnel(1, header / part))
    forged = up4(1, outside4(1), id=0x300, proto=17, frag=60) / payload(24)
    capture.add(tunnel(2, forged))


def pieces(n: int, inner: bytes, size: int, identification: int, **fields) -> list[Packet]:
    """The IPv6 fragments of a packet in the softwire of user n."""
    found = []
    for start in range(0, len(inner), size):
        more = int(start + size < len(inner))
        header = IPv6ExtHdrFragment(nh=4, offset=start // 8, m=more, id=identification)
        front = access() / IPv6(**{"src": user6(n), "dst": AFTR, **fields})
        found.append(front / header / inner[start : start + size])
    return found


def outer_fragments(capture: Capture) -> None:
    """In order, in reverse, at random, with congestion on the way, interleaved."""
    inner = ipv4(up4(1, outside4(1)) / datagram(1) / payload(1400))
    marked = ipv4(up4(1, outside4(1), tos=2) / datagram(1) / payload(700))
    shuffled = pieces(1, inner, 104, 3)
    random.Random(7596).shuffle(shuffled)
    for all_of in (
        pieces(1, inner, 1232, 1),
        pieces(1, inner, 512, 2)[::-1],
        shuffled,
        pieces(1, marked, 400, 4, tc=2)[:1] + pieces(1, marked, 400, 4, tc=3)[1:],
        pieces(1, marked, 400, 5)[:1] + pieces(1, marked, 400, 5, tc=3)[1:],
        pieces(1, inner, 2000, 6),  # atomic: a fragment header, but all of the packet
    ):
        for piece in all_of:
            capture.add(piece)
    other = ipv4(up4(2, outside4(2)) / datagram(2) / payload(600))
    for pair in zip(pieces(1, inner, 720, 7), pieces(2, other, 320, 7)):
        for piece in pair:
            capture.add(piece)
    # Put together, it is checked as any other.
    for piece in pieces(2, inner, 720, 8):
        capture.add(piece)


def spoilt_fragments(capture: Capture) -> None:
    """Overlaps, odd sizes, too much, what is no IPv4, and one that is missed for ever."""
    inner = ipv4(up4(1, outside4(1)) / datagram(1) / payload(600))
    first, second, third = pieces(1, inner, 240, 20)
    for piece in (first, pieces(1, inner, 248, 20)[1], third, second):
        capture.add(piece)
    for piece in pieces(1, inner, 100, 21)[:2]:
        capture.add(piece)
    long = pieces(1, inner + bytes(1600), 1200, 22)
    for piece in long:
        capture.add(piece)
    front = access() / IPv6(src=user6(1), dst=AFTR)
    capture.add(front / IPv6ExtHdrFragment(nh=17, m=1, id=23) / bytes(64))
    capture.add(pieces(1, inner, 240, 24)[0])


def hairpins(capture: Capture) -> None:
    """From one softwire to another: short, long, not to be fragmented, to no host."""
    for n, other in ((1, 2), (1, 7), (7, 5), (3, 3)):
        packet = up4(n, address(other)) / UDP(sport=port(n), dport=port(other)) / payload(20)
        capture.add(tunnel(n, packet))
    ports = UDP(sport=port(1), dport=port(2))
    for flags, size, ttl in (("", 1400, 64), ("DF", 1400, 64), ("", 20, 1)):
        header = up4(1, SHARED, flags=flags, ttl=ttl)
        inner = ipv4(header / ports / payload(size))
        for piece in pieces(1, inner, 1000, 40) if size > 1000 else [tunnel(1, inner)]:
            capture.add(piece)
    echo = up4(1, SHARED, proto=ICMPV4) / query(8, port(1), 1, 20)
    capture.add(tunnel(1, echo))
    packet = up4(1, "192.0.2.9") / UDP(sport=port(1), dport=9) / payload(20)
    capture.add(tunnel(1, packet))


def tunnel_errors(capture: Capture) -> None:
    """ICMPv6 from the way to a lwB4 (RFC 2473 section 8)."""

    def about(flags: str, lwb4: str, fragment: bool = False, destination: int = 2) -> IPv6:
        sent = IP(src=outside4(9), dst=address(destination), flags=flags, ttl=63)
        sent = ipv4(sent / UDP(sport=53, dport=port(destination)) / payload(600))
        if fragment:
            return IPv6(src=AFTR, dst=lwb4) / IPv6ExtHdrFragment(nh=4, m=1, id=1) / sent[:400]
        return IPv6(src=AFTR, dst=lwb4, nh=4) / sent

    front = access() / IPv6(src="2001:db8:0:13::9", dst=AFTR)
    own = user6(2)
    for error in (
        ICMPv6PacketTooBig(mtu=1300) / about("DF", own),
        ICMPv6PacketTooBig(mtu=576) / about("DF", own),
        ICMPv6PacketTooBig(mtu=1300) / about("", own),
        ICMPv6DestUnreach(code=3) / about("", own),
        ICMPv6TimeExceeded(code=0) / about("DF", own),
        ICMPv6ParamProblem(code=1, ptr=6) / about("", own),
        ICMPv6DestUnreach(code=0) / about("", own, fragment=True),
        ICMPv6DestUnreach(code=0) / about("", user6(3)),
        ICMPv6DestUnreach(code=0) / bytes(about("", own))[:59],
        ICMPv6DestUnreach(code=0) / (IPv6(src=outside6(1), dst=own) / UDP() / payload(60)),
    ):
        capture.add(front / error)
    capture.add(damaged(front / ICMPv6DestUnreach(code=0) / about("", own), 14 + 40 + 2))
