"""From the outside to the users, with answers, errors, strangers and oversize."""

import random

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    PadN,
)

from .capture import Capture
from .ipv4_mix import DSCPS
from .plan import USERS, downlink4, downlink6, outside4, outside6, payload, user, user4, user6

FRAME_SIZES = (60, 61, 64, 128, 256, 590, 1024, 1280, 1500, 1514)
HEADERS_UDP = 14 + 20 + 8  # octets


def build() -> Capture:
    """All parts, one after another, users in turn."""
    capture = Capture()
    parts = (
        every_user,
        frame_sizes,
        marks,
        time_to_live,
        options_and_extensions,
        tcp_conversation,
        icmp_errors,
        unknown_users,
        large_packets,
        shuffled,
    )
    for part in parts:
        part(capture)
    return capture


def every_user(capture: Capture) -> None:
    """One datagram and one echo request for each user, in both families."""
    for n in range(1, USERS + 1):
        udp, echo = UDP(sport=5001, dport=40000 + n), ICMP(type=8, id=40, seq=n)
        capture.add(downlink4(n) / udp / payload(32, n))
        capture.add(downlink6(n) / udp / payload(32, n))
        capture.add(downlink4(n) / echo / payload(56))
        capture.add(downlink6(n) / ICMPv6EchoRequest(id=40, seq=n, data=payload(56)))


def frame_sizes(capture: Capture) -> None:
    """UDP in each frame size."""
    for i, size in enumerate(FRAME_SIZES):
        udp = UDP(sport=5001, dport=41000 + i)
        capture.add(downlink4(user(i)) / udp / payload(size - HEADERS_UDP, i))


def marks(capture: Capture) -> None:
    """Each usual code point, each ECN field in turn."""
    for i, dscp in enumerate(DSCPS):
        udp, mark = UDP(sport=5003, dport=43000), dscp << 2 | i % 4
        capture.add(downlink4(user(i), tos=mark) / udp / payload(32, dscp))
        capture.add(downlink6(user(i), tc=mark, fl=0x54321) / udp / payload(32, dscp))


def time_to_live(capture: Capture) -> None:
    """TTL and hop limit 1 must not be forwarded, 2 leaves as 1."""
    for i, limit in enumerate((1, 2, 64, 255)):
        udp = UDP(sport=33434 + i, dport=44000)
        capture.add(downlink4(user(i), ttl=limit) / udp / payload(32))
        capture.add(downlink6(user(i), hlim=limit) / udp / payload(32))


def options_and_extensions(capture: Capture) -> None:
    """IPv4 options, an IPv6 extension header, and a datagram without checksum."""
    options, extension = [IPOption_Router_Alert()], IPv6ExtHdrDestOpt(
        options=[PadN(optdata=b"\0" * 4)]
    )
    udp = UDP(sport=5005, dport=46000)
    capture.add(downlink4(1, options=options) / udp / payload(64))
    capture.add(downlink6(1) / extension / udp / payload(64))
    capture.add(downlink4(2) / UDP(sport=5006, dport=47000, chksum=0) / payload(24))


def tcp_conversation(capture: Capture) -> None:
    """The server's half of the conversations that ipv4-mix and ipv6-mix hold."""
    stamp = [("NOP", None), ("NOP", None), ("Timestamp", (2000, 1000))]
    syn = [
        ("MSS", 1460),
        ("SAckOK", b""),
        ("Timestamp", (2000, 1000)),
        ("NOP", None),
        ("WScale", 7),
    ]
    for header in (downlink4(1), downlink4(2), downlink6(1)):
        ports = {"sport": 443, "dport": 49000}
        capture.add(header / TCP(**ports, flags="SA", seq=5000, ack=101, options=syn))
        capture.add(header / TCP(**ports, flags="A", seq=5001, ack=618, options=stamp))
        capture.add(
            header / TCP(**ports, flags="PA", seq=5001, ack=618, options=stamp) / payload(1400)
        )
        capture.add(header / TCP(**ports, flags="FA", seq=6401, ack=619, options=stamp))


def icmp_errors(capture: Capture) -> None:
    """Errors about what the users sent; the quoted header is the user's own (RFC 792, RFC 4443)."""
    errors4 = (ICMP(type=3, code=1), ICMP(type=3, code=4, nexthopmtu=1400), ICMP(type=11, code=0))
    errors6 = (ICMPv6DestUnreach(code=1), ICMPv6PacketTooBig(mtu=1280), ICMPv6TimeExceeded())
    udp = UDP(sport=40000, dport=5001)
    for i, (error4, error6) in enumerate(zip(errors4, errors6)):
        n = user(i)
        sent4 = IP(src=user4(n), dst=outside4(n), id=n) / udp / payload(16)
        sent6 = IPv6(src=user6(n), dst=outside6(n)) / udp / payload(16)
        capture.add(downlink4(n, src=outside4(253)) / error4 / bytes(sent4)[:28])
        capture.add(downlink6(n, src=outside6(253)) / error6 / sent6)
    capture.add(downlink6(1) / ICMPv6EchoReply(id=50, seq=1, data=payload(56)))


def unknown_users(capture: Capture) -> None:
    """Addresses of no user: beside the users' range, far from it, another prefix."""
    udp = UDP(sport=5001, dport=40000)
    for address in ("10.0.0.0", user4(USERS + 1), "10.0.0.253", "10.9.9.9", "203.0.113.1"):
        capture.add(downlink4(1, dst=address) / udp / payload(32))
    for address in (user6(0), user6(USERS + 1), "2001:db8:1:1::1", "2001:db8:9::9"):
        capture.add(downlink6(1, dst=address) / udp / payload(32))


def large_packets(capture: Capture) -> None:
    """Above 1500 octets and around it, with and without Don't Fragment, for the MTU of a port."""
    udp = UDP(sport=5001, dport=40000)
    for size in (1400, 1401, 1500, 1501, 2000):
        for flags in ("", "DF"):
            capture.add(downlink4(1, flags=flags) / udp / payload(size - 28))
        capture.add(downlink6(1) / udp / payload(size - 48))


def shuffled(capture: Capture) -> None:
    """Both families, users and sizes at random, so that bursts are mixed."""
    pick = random.Random(20240302)
    for i in range(96):
        n, size = pick.randint(1, USERS), pick.choice((26, 64, 64, 200, 512))
        header = pick.choice((downlink4, downlink6))(n)
        ports = {"sport": pick.choice((53, 80, 443, 5001)), "dport": pick.randint(1024, 65535)}
        layer = pick.choice((UDP(**ports), TCP(**ports, flags="A", seq=i, ack=i)))
        capture.add_padded(header / layer / payload(size, i))
