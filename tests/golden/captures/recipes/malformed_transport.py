"""Faults of UDP, TCP, ICMP, ICMPv6 and neighbour discovery."""

from scapy.layers.inet import ICMP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6PacketTooBig,
    in6_chksum,
)
from scapy.packet import Packet

from .capture import Capture
from .plan import GATEWAY6, USERS_MAC, octets, outside6, payload, uplink4, uplink6, user6

TCP_FIXED = 20  # octets


def add(capture: Capture) -> None:
    """All of them."""
    parts = (
        udp_lengths,
        udp_others,
        tcp_offsets,
        tcp_cut,
        tcp_options,
        tcp_others,
        icmp,
        icmp6,
        neighbours,
    )
    for part in parts:
        part(capture)
    snapped(capture)


def both(capture: Capture, n: int, layer: Packet, what: str) -> None:
    """The same fault over IPv4 and over IPv6."""
    capture.add_padded(uplink4(n) / layer.copy(), f"{what}, over IPv4")
    capture.add_padded(uplink6(n) / layer.copy(), f"{what}, over IPv6")


def udp_lengths(capture: Capture) -> None:
    """Below the header, below and beyond the packet."""
    for length in (0, 1, 7, 8, 39, 41, 1500, 65535):
        what = f"UDP length {length} in a packet that has 40 octets for it"
        both(capture, 11, UDP(sport=40000, dport=5001, len=length) / payload(32), what)


def udp_others(capture: Capture) -> None:
    """Checksums, ports, cut headers."""
    both(
        capture, 12, UDP(sport=40000, dport=5001, chksum=0x1234) / payload(32), "UDP checksum wrong"
    )
    both(
        capture,
        12,
        UDP(sport=40000, dport=5001, chksum=0xFFFF) / payload(32),
        "UDP checksum all ones, and wrong",
    )
    zero = UDP(sport=40000, dport=5001, chksum=0)
    capture.add(uplink6(12) / zero / payload(32), "UDP checksum 0 over IPv6 (RFC 8200 section 8.1)")
    both(capture, 12, UDP(sport=0, dport=5001) / payload(32), "UDP source port 0: not a fault")
    both(capture, 12, UDP(sport=40000, dport=0) / payload(32), "UDP destination port 0")
    header = bytes(UDP(sport=40000, dport=5001, len=8))
    for size in (1, 2, 4, 7):
        capture.add_padded(
            uplink4(12, proto=17) / header[:size], f"UDP header of {octets(size)}, over IPv4"
        )
        capture.add_padded(
            uplink6(12, nh=17) / header[:size], f"UDP header of {octets(size)}, over IPv6"
        )


def tcp_offsets(capture: Capture) -> None:
    """Data offset below 5 words, and beyond the packet."""
    for words in range(5):
        tcp = TCP(sport=40000, dport=80, flags="A", dataofs=words)
        both(capture, 13, tcp / payload(20), f"TCP data offset {words} words")
    both(
        capture,
        13,
        TCP(sport=40000, dport=80, flags="A", dataofs=15),
        "TCP data offset 15 words in a packet of 5",
    )
    both(
        capture,
        13,
        TCP(sport=40000, dport=80, flags="A", dataofs=6) / b"\1",
        "TCP data offset 6 words in a packet of 21 octets",
    )


def tcp_cut(capture: Capture) -> None:
    """The IP packet ends after each octet of the TCP header; its length says so."""
    header = bytes(TCP(sport=40000, dport=80, flags="S"))
    for size in range(1, TCP_FIXED):
        capture.add_padded(
            uplink4(14, proto=6) / header[:size], f"TCP header of {octets(size)}, over IPv4"
        )
    for size in (1, 4, 12, 13, 19):
        capture.add_padded(
            uplink6(14, nh=6) / header[:size], f"TCP header of {octets(size)}, over IPv6"
        )


def tcp_options(capture: Capture) -> None:
    """Option lengths that are too small and too large."""
    cases = (
        ("02000000", "option length 0"),
        ("02010000", "option length 1"),
        ("02ff0000", "option length 255"),
        ("02050000", "option ends beyond the header"),
        ("01010102", "option kind in the last octet, no length"),
        ("0203ff00", "maximum segment size of length 3"),
        ("030400ff", "window scale of length 4"),
        ("05030000", "selective acknowledgement of length 3"),
    )
    for digits, what in cases:
        both(capture, 15, tcp_with_options(bytes.fromhex(digits)), f"TCP {what}")


def tcp_with_options(raw: bytes) -> Packet:
    """A SYN whose data offset takes the raw octets behind it as options."""
    words = (TCP_FIXED + len(raw)) // 4
    return TCP(sport=40000, dport=80, flags="S", dataofs=words) / raw


def tcp_others(capture: Capture) -> None:
    """Checksum, flags that exclude each other, port 0."""
    both(
        capture,
        16,
        TCP(sport=40000, dport=80, flags="A", chksum=0x1234) / payload(20),
        "TCP checksum wrong",
    )
    both(
        capture, 16, TCP(sport=40000, dport=80, flags="A", chksum=0) / payload(20), "TCP checksum 0"
    )
    for flags, what in (
        ("", "no flags"),
        ("SF", "SYN and FIN"),
        ("SR", "SYN and RST"),
        ("FSRPAUEC", "all flags"),
    ):
        both(capture, 16, TCP(sport=40000, dport=80, flags=flags), f"TCP {what}")
    both(capture, 16, TCP(sport=0, dport=80, flags="S"), "TCP source port 0")
    both(
        capture,
        16,
        TCP(sport=40000, dport=80, flags="A", urgptr=9),
        "TCP urgent pointer without its flag: not a fault",
    )
    both(
        capture,
        16,
        TCP(sport=40000, dport=80, flags="UA", urgptr=65535),
        "TCP urgent pointer past the data",
    )


def icmp(capture: Capture) -> None:
    """ICMP cut, with a wrong checksum, of unknown types, and errors that quote too little."""
    echo = bytes(ICMP(type=8, id=1, seq=1))
    for size in (1, 3, 4, 7):
        capture.add_padded(uplink4(17, proto=1) / echo[:size], f"ICMP of {octets(size)}")
    capture.add(uplink4(17) / ICMP(type=8, chksum=0x1234) / payload(56), "ICMP checksum wrong")
    capture.add(uplink4(17) / ICMP(type=255, code=255) / payload(56), "ICMP type 255")
    quoted = bytes(uplink4(17).payload)
    for size in (0, 1, 19, 20):
        capture.add_padded(
            uplink4(17) / ICMP(type=3, code=1) / quoted[:size],
            f"ICMP error that quotes {octets(size)}",
        )
    nested = uplink4(17).payload / ICMP(type=3, code=1) / quoted
    capture.add(uplink4(17) / ICMP(type=11) / bytes(nested)[:56], "ICMP error about an ICMP error")
    capture.add(uplink4(17) / ICMP(type=5, gw="10.0.0.66") / quoted, "ICMP redirect from a user")


def icmp6(capture: Capture) -> None:
    """ICMPv6 cut, with a wrong checksum, of reserved types, and a senseless MTU."""
    echo = bytes(uplink6(18) / ICMPv6EchoRequest(id=1, seq=1))[54:]
    for size in (1, 3, 4, 7):
        capture.add_padded(uplink6(18, nh=58) / echo[:size], f"ICMPv6 of {octets(size)}")
    wrong = ICMPv6EchoRequest(id=1, seq=1, cksum=0x1234, data=payload(56))
    capture.add(uplink6(18) / wrong, "ICMPv6 checksum wrong")
    capture.add(uplink6(18) / ICMPv6EchoRequest(type=255, data=payload(8)), "ICMPv6 type 255")
    quoted = uplink6(18).payload
    capture.add(uplink6(18) / ICMPv6PacketTooBig(mtu=0) / quoted, "ICMPv6 packet too big, MTU 0")
    capture.add(uplink6(18) / ICMPv6PacketTooBig(mtu=1280), "ICMPv6 error that quotes nothing")


def neighbours(capture: Capture) -> None:
    """Neighbour discovery that RFC 4861 section 7.1 tells to discard."""
    source = ICMPv6NDOptSrcLLAddr(lladdr=USERS_MAC)
    solicitation = ICMPv6ND_NS(tgt=GATEWAY6)
    usual = {"dst": GATEWAY6, "hlim": 255}
    cases = (
        ({"hlim": 254}, solicitation / source, "solicitation from beyond the link (hop limit 254)"),
        ({}, ICMPv6ND_NS(tgt=GATEWAY6, code=1) / source, "solicitation with code 1"),
        ({}, ICMPv6ND_NS(tgt="ff02::1") / source, "solicitation for a multicast target"),
        ({}, ICMPv6ND_NS(tgt="::") / source, "solicitation for ::"),
        ({"src": "::"}, solicitation / source, "solicitation from :: with a link-layer address"),
        ({}, solicitation / bytes((1, 0)) / bytes(6), "solicitation, option length 0"),
        ({}, solicitation / bytes((1, 2)) / bytes(6), "solicitation, option past the end"),
        ({}, solicitation / bytes((1,)), "solicitation, option of 1 octet"),
        (
            {},
            solicitation / bytes((200, 1)) / bytes(6),
            "solicitation, unknown option: not a fault",
        ),
        ({}, ICMPv6ND_NA(tgt=GATEWAY6, S=0, O=1), "advertisement of the node's own address"),
        (
            {"dst": "ff02::1"},
            ICMPv6ND_NA(tgt=user6(19), S=1),
            "solicited advertisement to a multicast address",
        ),
        ({}, ICMPv6ND_RA(), "router advertisement from a user"),
    )
    for fields, message, what in cases:
        capture.add(uplink6(19, **{**usual, **fields}) / message, f"ND: {what}")
    link = uplink6(19, nh=58, **usual)
    for size in (4, 8, 20, 23):
        cut = bytes(link / solicitation)[54 : 54 + size]
        blank = cut[:2] + b"\0\0" + cut[4:]
        right = in6_chksum(58, link.payload, blank).to_bytes(2, "big")
        capture.add(
            link / (cut[:2] + right + cut[4:]),
            f"ND: solicitation of {octets(size)}, checksum right",
        )


def snapped(capture: Capture) -> None:
    """A record that the capturing program cut: the frame on the wire was whole."""
    frame = bytes(uplink4(20) / UDP(sport=40000, dport=5001) / payload(400))
    capture.add(frame[:96], "capture holds 96 octets of a frame of 442", wire_length=len(frame))
    ping = bytes(uplink6(20, dst=outside6(20)) / ICMPv6EchoRequest(data=payload(400)))
    capture.add(ping[:60], "capture holds 60 octets of a frame of 462", wire_length=len(ping))
