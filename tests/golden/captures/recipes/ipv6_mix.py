"""IPv6 from the users to the outside: well-formed, with every kind of extension header."""

import random

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import (
    HBHOptUnknown,
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    IPv6ExtHdrSegmentRouting,
    PadN,
    RouterAlert,
)

from .capture import Capture
from .ipv4_mix import DSCPS, TCP_SYN_OPTIONS
from .plan import GATEWAY6, USERS, outside6, payload, uplink6, user, user6

FRAME_SIZES = (62, 63, 64, 65, 127, 128, 256, 590, 1024, 1280, 1294, 1500, 1514)
HEADERS_UDP = 14 + 40 + 8  # octets
NO_NEXT_HEADER = 59


def build() -> Capture:
    """All parts, one after another, users in turn."""
    capture = Capture()
    parts = (
        every_user,
        frame_sizes,
        other_interface_identifiers,
        hop_limit,
        traffic_class_and_flow_label,
        extension_headers,
        tcp_conversation,
        icmp_messages,
        other_protocols,
        user_to_user_and_node,
        shuffled,
    )
    for part in parts:
        part(capture)
    return capture


def every_user(capture: Capture) -> None:
    """One datagram of each user."""
    for n in range(1, USERS + 1):
        capture.add(uplink6(n) / UDP(sport=40000 + n, dport=5001) / payload(32, n))


def frame_sizes(capture: Capture) -> None:
    """UDP in each frame size; 62 octets are the headers alone."""
    for i, size in enumerate(FRAME_SIZES):
        udp = UDP(sport=40100 + i, dport=5001)
        capture.add(uplink6(user(i)) / udp / payload(size - HEADERS_UDP, i))


def other_interface_identifiers(capture: Capture) -> None:
    """A user is its whole /64: temporary addresses (RFC 8981), first and last of the prefix."""
    for i, suffix in enumerate(("a1b2:c3d4:e5f6:708", "0:0:0:0", "ffff:ffff:ffff:ffff")):
        n = user(i)
        header = uplink6(n, src=f"2001:db8:0:{n:x}:{suffix}")
        capture.add(header / UDP(sport=41000, dport=5002) / payload(32))


def hop_limit(capture: Capture) -> None:
    """Hop limit 1 must not be forwarded, 2 leaves as 1."""
    for i, limit in enumerate((1, 2, 3, 64, 255)):
        header = uplink6(user(i), hlim=limit)
        capture.add(header / UDP(sport=44000, dport=33434 + i) / payload(32))
        capture.add(header / TCP(sport=44000, dport=80, flags="S", seq=i))
        capture.add(header / ICMPv6EchoRequest(id=44, seq=i, data=payload(56)))


def traffic_class_and_flow_label(capture: Capture) -> None:
    """Each usual code point, each ECN field in turn, flow labels from 0 to all ones."""
    for i, dscp in enumerate(DSCPS):
        header = uplink6(user(i), tc=dscp << 2 | i % 4, fl=(0, 1, 0x12345, 0xFFFFF)[i % 4])
        capture.add(header / UDP(sport=43000, dport=5003) / payload(32, dscp))


def extension_headers(capture: Capture) -> None:
    """Each header alone and in the order of RFC 8200 section 4.1, before UDP, TCP and nothing."""
    hop = IPv6ExtHdrHopByHop(options=[RouterAlert(value=0)])
    wide_hop = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 36)])
    skipped = IPv6ExtHdrDestOpt(
        options=[HBHOptUnknown(otype=0x1E, optdata=payload(12))]
    )  # RFC 4727
    destination = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])
    source_route = IPv6ExtHdrRouting(type=0, segleft=0, addresses=[outside6(7), outside6(8)])
    segments = IPv6ExtHdrSegmentRouting(
        addresses=[outside6(9), outside6(7)], segleft=0, lastentry=1
    )
    atomic = IPv6ExtHdrFragment(id=1, m=0, offset=0)  # RFC 6946
    chains = (
        (hop,),
        (wide_hop,),
        (destination,),
        (skipped,),
        (source_route,),
        (segments,),
        (atomic,),
        (hop, destination),
        (hop, source_route, destination),
        (hop, destination, segments, atomic, destination),
        (destination,) * 5,
    )
    for i, chain in enumerate(chains):
        header = uplink6(user(i))
        for extension in chain:
            header = header / extension.copy()
        capture.add(header / UDP(sport=46000 + i, dport=5005) / payload(64))
        capture.add(
            header / TCP(sport=46000 + i, dport=443, flags="PA", seq=1, ack=1) / payload(64)
        )
    bare = IPv6ExtHdrDestOpt(nh=NO_NEXT_HEADER, options=[PadN(optdata=b"\0" * 4)])
    capture.add(uplink6(1, nh=NO_NEXT_HEADER))
    capture.add(uplink6(2) / bare)


def tcp_conversation(capture: Capture) -> None:
    """The user's half of two conversations."""
    stamp = [("NOP", None), ("NOP", None), ("Timestamp", (1001, 2000))]
    for i in range(2):
        header, ports = uplink6(user(i), fl=0xABCDE), {"sport": 49000 + i, "dport": 443}
        capture.add(header / TCP(**ports, flags="S", seq=100, options=TCP_SYN_OPTIONS))
        capture.add(header / TCP(**ports, flags="A", seq=101, ack=5001, options=stamp))
        capture.add(
            header / TCP(**ports, flags="PA", seq=101, ack=5001, options=stamp) / payload(1200)
        )
        capture.add(header / TCP(**ports, flags="FA", seq=1301, ack=5001, options=stamp))


def icmp_messages(capture: Capture) -> None:
    """Echo in three sizes, and the errors that a host sends (RFC 4443)."""
    for i, size in enumerate((0, 56, 1452)):
        capture.add(uplink6(user(i)) / ICMPv6EchoRequest(id=50, seq=i, data=payload(size)))
        capture.add(uplink6(user(i)) / ICMPv6EchoReply(id=50, seq=i, data=payload(size)))
    for i, error in enumerate((ICMPv6DestUnreach(code=4), ICMPv6PacketTooBig(mtu=1280))):
        n = user(i)
        offending = IPv6(src=outside6(n), dst=user6(n)) / UDP(sport=5001, dport=40000) / payload(16)
        capture.add(uplink6(n) / error / offending)


def other_protocols(capture: Capture) -> None:
    """Protocols that the node forwards without looking inside: ESP, an experiment."""
    esp = bytes.fromhex("0000010000000001") + payload(40)
    capture.add(uplink6(1, nh=50) / esp)
    capture.add(uplink6(2, nh=253) / payload(30))


def user_to_user_and_node(capture: Capture) -> None:
    """Not for the outside: another user (a hairpin), and the node itself."""
    for i in range(4):
        capture.add(
            uplink6(user(i), dst=user6(user(i + 1))) / UDP(sport=51000, dport=5009) / payload(40)
        )
    capture.add(uplink6(1, dst=GATEWAY6) / ICMPv6EchoRequest(id=52, seq=1, data=payload(56)))


def shuffled(capture: Capture) -> None:
    """Users, protocols, sizes and marks at random, so that bursts are mixed."""
    pick = random.Random(20240301)
    for i in range(64):
        header = uplink6(pick.randint(1, USERS), dst=outside6(pick.randint(1, 254)))
        header.tc, header.fl = pick.choice(DSCPS) << 2, pick.randrange(2**20)
        header.hlim = pick.choice((2, 64, 128))
        sport, dport = pick.randint(1024, 65535), pick.choice((53, 80, 443, 5001, 60000))
        data = payload(pick.choice((12, 64, 64, 200, 512)), i)
        layer = pick.choice(
            (
                UDP(sport=sport, dport=dport) / data,
                TCP(sport=sport, dport=dport, flags="A", seq=i, ack=i) / data,
                ICMPv6EchoRequest(id=sport, seq=i, data=data),
            )
        )
        capture.add(header / layer)
