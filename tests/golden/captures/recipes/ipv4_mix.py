"""IPv4 from the users to the outside: well-formed, and as varied as RFC 791 allows."""

import random

from scapy.layers.inet import (
    ICMP,
    IP,
    TCP,
    UDP,
    IPOption,
    IPOption_EOL,
    IPOption_LSRR,
    IPOption_NOP,
    IPOption_Router_Alert,
    IPOption_RR,
    IPOption_Timestamp,
)
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP, SCTPChunkAbort
from scapy.packet import Packet

from .capture import Capture
from .plan import GATEWAY4, outside4, payload, uplink4, user, user4

FRAME_SIZES = (60, 61, 63, 64, 65, 127, 128, 256, 511, 590, 1024, 1279, 1280, 1499, 1500, 1514)
HEADERS_UDP = 14 + 20 + 8  # octets
HEADERS_TCP = 14 + 20 + 20
DSCPS = (0, 8, 10, 12, 14, 18, 26, 34, 38, 40, 44, 46, 48, 56, 63)
TCP_SYN_OPTIONS = [
    ("MSS", 1460),
    ("SAckOK", b""),
    ("Timestamp", (1000, 0)),
    ("NOP", None),
    ("WScale", 7),
]


def build() -> Capture:
    """All parts, one after another, users in turn."""
    capture = Capture()
    parts = (
        frame_sizes,
        short_with_padding,
        dscp_and_ecn,
        time_to_live,
        identification_and_flags,
        ip_options,
        udp_checksums,
        header_checksum_edges,
        tcp_conversation,
        tcp_options,
        icmp_messages,
        other_protocols,
        user_to_user_and_node,
        shuffled,
    )
    for part in parts:
        part(capture)
    return capture


def frame_sizes(capture: Capture) -> None:
    """UDP in each frame size, TCP in every second one."""
    for i, size in enumerate(FRAME_SIZES):
        udp = UDP(sport=40000 + i, dport=5001)
        capture.add(uplink4(user(i)) / udp / payload(size - HEADERS_UDP, i))
    for i, size in enumerate(FRAME_SIZES[::2]):
        tcp = TCP(sport=41000 + i, dport=8080, flags="A", seq=1000 * i, ack=1)
        capture.add(uplink4(user(i)) / tcp / payload(size - HEADERS_TCP, i))


def short_with_padding(capture: Capture) -> None:
    """IP packets that end before their frame does: 0 to 17 octets of UDP payload."""
    for i in range(18):
        capture.add_padded(uplink4(user(i)) / UDP(sport=42000, dport=5002) / payload(i, 1))


def dscp_and_ecn(capture: Capture) -> None:
    """Each usual code point, with each ECN field in turn."""
    for i, dscp in enumerate(DSCPS):
        header = uplink4(user(i), tos=dscp << 2 | i % 4)
        capture.add(header / UDP(sport=43000, dport=5003) / payload(32, dscp))


def time_to_live(capture: Capture) -> None:
    """TTL 1 must not be forwarded, 2 leaves as 1."""
    for i, ttl in enumerate((1, 2, 3, 63, 64, 127, 128, 254, 255)):
        header = uplink4(user(i), ttl=ttl)
        capture.add(header / UDP(sport=44000, dport=33434 + i) / payload(32))
        capture.add_padded(header / TCP(sport=44000, dport=80, flags="S", seq=i))
        capture.add(header / ICMP(type=8, id=44, seq=i) / payload(56))


def identification_and_flags(capture: Capture) -> None:
    """Identification 0 and 65535, with and without Don't Fragment."""
    for i, (identification, flags) in enumerate(((0, ""), (0, "DF"), (65535, ""), (65535, "DF"))):
        header = uplink4(user(i), id=identification, flags=flags)
        capture.add(header / UDP(sport=45000, dport=5004) / payload(100))


def ip_options(capture: Capture) -> None:
    """Headers of 24 to 60 octets (RFC 791 section 3.1, RFC 2113)."""
    cases = (
        [IPOption_NOP(), IPOption_NOP(), IPOption_NOP(), IPOption_EOL()],
        [IPOption_Router_Alert()],
        [IPOption_RR(routers=["0.0.0.0"] * 3)],
        [IPOption_RR(routers=["0.0.0.0"] * 9)],
        [IPOption_LSRR(pointer=4, routers=[outside4(77)])],
        [IPOption_Timestamp(flg=0, timestamp=0)],
        [IPOption(copy_flag=1, optclass=2, option=30, value=payload(10))],  # RFC 4727
    )
    for i, options in enumerate(cases):
        header = uplink4(user(i), options=options)
        capture.add(header / UDP(sport=46000 + i, dport=5005) / payload(64))
        capture.add(
            header / TCP(sport=46000 + i, dport=443, flags="PA", seq=1, ack=1) / payload(64)
        )


def udp_checksums(capture: Capture) -> None:
    """Absent (0), and one whose sum is 0 and is therefore sent as 0xffff (RFC 768)."""
    for i in range(4):
        capture.add(uplink4(user(i)) / UDP(sport=47000, dport=5006, chksum=0) / payload(24, i))
    for i in range(4):
        capture.add(zero_sum_udp(uplink4(user(i)), 47001, payload(24, i)))


def zero_sum_udp(header: Packet, sport: int, data: bytes) -> Packet:
    """A datagram whose last word makes its checksum come out as 0."""
    draft = header / UDP(sport=sport, dport=5007) / (data + b"\0\0")
    checksum = Ether(bytes(draft))[UDP].chksum
    return header / UDP(sport=sport, dport=5007) / (data + checksum.to_bytes(2, "big"))


def header_checksum_edges(capture: Capture) -> None:
    """IPv4 header checksums 0x0000, 0x0001, 0x00ff, 0x0100, 0xfeff, 0xfffe before the hop.

    RFC 1624 section 3: an incremental update that takes the other zero goes wrong here.
    """
    for i, wanted in enumerate((0x0000, 0x0001, 0x00FF, 0x0100, 0xFEFF, 0xFFFE)):
        header = uplink4(user(i), id=0)
        draft = header / UDP(sport=48000, dport=5008) / payload(20)
        checksum = Ether(bytes(draft))[IP].chksum
        # The sum of the header grows by what its complement has to shrink.
        header[IP].id = (checksum - wanted) % 0xFFFF
        capture.add(header / UDP(sport=48000, dport=5008) / payload(20))


def tcp_conversation(capture: Capture) -> None:
    """The user's half of three conversations: SYN, data, FIN, and a reset."""
    for i in range(3):
        header, sport, isn = uplink4(user(i)), 49000 + i, 0xFFFFFF00 + i
        stamp = [("NOP", None), ("NOP", None), ("Timestamp", (1001, 2000))]

        def segment(flags, seq, data=b"", options=()):
            tcp = TCP(sport=sport, dport=443, flags=flags, seq=seq % 2**32, window=502)
            tcp.ack, tcp.options = (0 if flags == "S" else 5001), list(options)
            capture.add_padded(header / tcp / data)

        segment("S", isn, options=TCP_SYN_OPTIONS)
        segment("A", isn + 1, options=stamp)
        segment("PA", isn + 1, payload(517, i), stamp)
        segment("PA", isn + 518, payload(1200, i), stamp)
        segment("FA" if i < 2 else "R", isn + 1718, options=stamp)


def tcp_options(capture: Capture) -> None:
    """The longest header, selective acknowledgements, urgent data, all ECN flags."""
    most = [("NOP", None)] * 4 + [("SAck", tuple(range(1, 9)))] + [("NOP", None)] * 2
    cases = (
        TCP(flags="A", options=most),
        TCP(flags="A", options=[("NOP", None)] * 2 + [("SAck", (100, 200))]),
        TCP(flags="UPA", urgptr=5),
        TCP(flags="SEC", options=TCP_SYN_OPTIONS),
        TCP(flags="S", options=[("MSS", 536), ("EOL", None)]),
        TCP(flags="A", window=0),
    )
    for i, tcp in enumerate(cases):
        tcp.sport, tcp.dport, tcp.seq = 50000 + i, 80, 7
        capture.add(uplink4(user(i)) / tcp / (b"" if "S" in str(tcp.flags) else payload(40)))


def icmp_messages(capture: Capture) -> None:
    """Echo in three sizes, and the errors that a host sends (RFC 792, RFC 1191)."""
    for i, size in enumerate((0, 56, 1472)):
        capture.add_padded(uplink4(user(i)) / ICMP(type=8, id=50, seq=i) / payload(size))
        capture.add_padded(uplink4(user(i)) / ICMP(type=0, id=50, seq=i) / payload(size))
    for i, icmp in enumerate(
        (ICMP(type=3, code=3), ICMP(type=3, code=4, nexthopmtu=1400), ICMP(type=11))
    ):
        n = user(i)
        offending = (
            IP(src=outside4(n), dst=user4(n), id=9) / UDP(sport=5001, dport=40000) / payload(16)
        )
        capture.add(uplink4(n) / icmp / bytes(offending)[:28])
    capture.add(uplink4(1) / ICMP(type=13, id=51, seq=1, ts_ori=1000, ts_rx=0, ts_tx=0))


def other_protocols(capture: Capture) -> None:
    """Protocols that the node forwards without looking inside: GRE, ESP, SCTP, experiments."""
    gre = bytes.fromhex("00000800") + bytes(
        IP(src="192.0.2.1", dst="192.0.2.2", id=1) / UDP() / b"in"
    )
    esp = bytes.fromhex("0000010000000001") + payload(40)
    sctp = bytes(SCTP(sport=50000, dport=5000, tag=1) / SCTPChunkAbort())
    for i, (protocol, data) in enumerate(((47, gre), (50, esp), (132, sctp), (253, payload(30)))):
        capture.add(uplink4(user(i), proto=protocol) / data)


def user_to_user_and_node(capture: Capture) -> None:
    """Not for the outside: another user (a hairpin), and the node itself."""
    for i in range(4):
        capture.add(
            uplink4(user(i), dst=user4(user(i + 1))) / UDP(sport=51000, dport=5009) / payload(40)
        )
    capture.add(uplink4(1, dst=GATEWAY4) / ICMP(type=8, id=52, seq=1) / payload(56))


def shuffled(capture: Capture) -> None:
    """Users, protocols, sizes and marks at random, so that bursts are mixed."""
    pick = random.Random(20240229)
    for i in range(96):
        n, size = pick.randint(1, 20), pick.choice((26, 64, 64, 200, 512))
        header = uplink4(n, dst=outside4(pick.randint(1, 254)), id=pick.randrange(65536))
        header.tos, header.ttl = pick.choice(DSCPS) << 2, pick.choice((2, 64, 128))
        sport, dport = pick.randint(1024, 65535), pick.choice((53, 80, 443, 5001, 60000))
        layer = pick.choice(
            (
                UDP(sport=sport, dport=dport),
                TCP(sport=sport, dport=dport, flags="A", seq=i, ack=i),
                ICMP(type=8, id=sport, seq=i),
            )
        )
        capture.add_padded(header / layer / payload(size, i))
