"""Flows for a compressor of IP headers (RFC 2507): each kind of header, and each change of one.

A note says how a frame is to go over the link: `full`, `compressed`, `delta`, `whole` or
`regular`, and why.
"""

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
    RouterAlert,
)
from scapy.packet import Packet, Raw

from .capture import Capture
from .plan import access, outside4, outside6, payload, user4, user6

# Compressed packets between full headers double (RFC 2507 §3.3.1).
SLOW_START = ["full"] + ["compressed"] + ["full"] + ["compressed"] * 2 + ["full"]

Flow = list[tuple[Packet, str]]


def build() -> Capture:
    """All flows, their packets in turn."""
    capture = Capture()
    flows = [*datagrams(1), *datagrams(2), segments(1), routed_segments(1), untouched(1)]
    while any(flows):
        for flow in flows:
            if flow:
                packet, note = flow.pop(0)
                capture.add_padded(access() / packet, note)
    capture.side_files["iphc-flows.txt"] = capture.notes("iphc-flows.pcap: how each frame goes")
    return capture


def datagrams(n: int) -> list[Flow]:
    """Flows other than TCP of user n."""
    udp = UDP(sport=5004, dport=5004)
    options = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0\0")])
    flows = {
        "UDP": lambda i: ipv4(n, i * 7919) / udp / voice(i),
        "UDP without checksum": lambda i: ipv4(n, i) / UDP(sport=9, dport=n, chksum=0) / voice(i),
        "UDP over IPv6": lambda i: ipv6(n) / udp / voice(i),
        "options of IPv6": lambda i: ipv6(n) / options / IPv6ExtHdrDestOpt() / udp / voice(i),
        "options of IPv4 in IPv6": lambda i: (
            ipv6(n) / ipv4(n, i, b"\1\1\1\0") / UDP(sport=2, dport=2) / voice(i)
        ),
        "IPv4 in IPv6": lambda i: ipv6(n) / ipv4(n, i * 31) / UDP(sport=6, dport=7) / voice(i),
        "IPv6 in IPv4": lambda i: ipv4(n, i, proto=41) / ipv6(n) / UDP(sport=8, dport=7) / voice(i),
        "echo": lambda i: ipv4(n, i) / ICMP(id=n, seq=i) / voice(i),
        "options whose data changes": lambda i: ipv6(n) / alert(i) / udp / voice(i),
        "fragments of IPv6": lambda i: ipv6(n) / fragment(i) / voice(i),
        "fragments of IPv4 in IPv6": lambda i: (
            ipv6(n) / ipv4(n, i * 31, flags="MF", frag=i, proto=17) / voice(i)
        ),
        "authentication": lambda i: (
            ipv4(n, i, proto=51) / authentication(n, i) / UDP(sport=9, dport=8, chksum=0) / voice(i)
        ),
        "a security payload": lambda i: ipv6(n, nh=50) / security(n, i) / voice(i),
    }
    kinds = list(enumerate(SLOW_START))
    made = [[(packet(i), f"{kind} {name}") for i, kind in kinds] for name, packet in flows.items()]
    other = [(ipv4(n, i, ttl=9 + i // 2) / UDP(sport=1, dport=1) / voice(i), i) for i in range(4)]
    fates = ["full", "compressed", "regular", "regular"]
    # A generation must last for a while, so that 64 of them do (MIN_WRAP).
    made.append([(packet, f"{fates[i]} a TTL that changes") for packet, i in other])
    return made


def alert(i: int) -> IPv6ExtHdrHopByHop:
    """Options of which one has data."""
    return IPv6ExtHdrHopByHop(options=[RouterAlert(value=i)])


def fragment(i: int) -> IPv6ExtHdrFragment:
    """The middle of some datagram."""
    return IPv6ExtHdrFragment(nh=17, offset=8 + 5 * i, m=1, id=70000 + i)


def authentication(n: int, i: int) -> Raw:
    """An authentication header in front of UDP, its data 16 octets (RFC 2507 §7.9)."""
    return Raw(bytes([17, 4, 0, 0, 0, 0, 0, n]) + bytes([i, 0x5A, 0xA5, 255 - i]) * 4)


def security(n: int, i: int) -> Raw:
    """SPI and sequence number of a security payload."""
    return Raw(bytes([0, 0, 1, n, 0, 0, 0, i]))


def segments(n: int) -> Flow:
    """A connection of user n."""
    state = {"seq": 1000, "ack": 5000, "window": 800, "id": 65530, "tos": 2, "ttl": 64, "stamp": 1}
    flow = []

    def send(note: str, size: int = 1000, flags: str = "A", options: int = 1, **changes) -> None:
        state.update(changes)
        stamps = [("NOP", None), ("NOP", None), ("Timestamp", (state["stamp"], 7))]
        ip = ipv4(n, state["id"], tos=state["tos"], ttl=state["ttl"])
        tcp = TCP(sport=40000, dport=443, seq=state["seq"], ack=state["ack"], flags=flags)
        tcp.window, tcp.options = state["window"], stamps * options
        tcp.urgptr = 77 if "U" in flags else 0
        flow.append((ip / tcp / payload(size), note))
        state["seq"] += size + ("S" in flags or "F" in flags)
        state["id"] = (state["id"] + 1) % 65536

    send("regular the connection opens", 0, "S")
    send("full the first segment")
    for _ in range(4):
        send("delta the sequence number by the data before")
    send("delta a window that shrinks", window=700)
    send("delta push", flags="PA")
    send("delta an acknowledgment", ack=5100)
    send("delta another size", 50)
    send("delta an identification that jumps", id=9)
    send("delta urgent", flags="UA")
    send("full the urgent pointer is no more")
    send("delta time stamps", stamp=2)
    send("delta congestion experienced", tos=3)
    send("delta no more of it", tos=2)
    send("delta the window was reduced", flags="CA")
    send("delta an echo of congestion", flags="EA")
    send("delta without data", 0)
    send("delta and an acknowledgment alone", 0, ack=6000)
    send("full a retransmission", seq=state["seq"] - 500)
    send("delta behind it")
    send("whole other options", options=0)
    send("delta behind them", options=0)
    send("full another TTL", options=0, ttl=63)
    send("full once more, should it be lost", options=0)
    send("delta behind both", options=0)
    for _ in range(14):
        send("delta until the headers are settled", options=0)
    send("whole an acknowledgment that the window shrinks by", 0, options=0, ack=6050, window=650)
    send("whole once more, and an identification alone changed", options=0)
    send("whole once more", options=0)
    send("delta the next", options=0)
    send("whole the end", flags="FA", options=0)
    send("regular a reset", 0, "R", options=0)
    return flow


def routed_segments(n: int) -> Flow:
    """Segments behind a routing header, which tells where they go in the end."""
    flow = []
    for i in range(6):
        way = IPv6ExtHdrRouting(type=0, segleft=1, addresses=[outside6(9)])
        tcp = TCP(sport=40001, dport=443, seq=i * 300, ack=1, flags="A")
        kind = "delta" if i else "full"
        flow.append((ipv6(n) / way / tcp / payload(300), f"{kind} behind a routing header"))
    return flow


def untouched(n: int) -> Flow:
    """What no compressor can help."""
    udp = UDP(sport=3, dport=4)
    return [
        # Most of these headers would be sent whole.
        (ipv4(n, 5, b"\1\1\1\0") / UDP(sport=2, dport=3) / voice(1), "regular options of IPv4"),
        (ipv4(n, 1, flags="MF", proto=17) / bytes(udp / payload(32)), "regular a fragment"),
        (ipv4(n, 1, frag=4, proto=17) / payload(32), "regular its end"),
        (ipv4(n, 2) / TCP(sport=5, dport=6, chksum=1) / payload(9), "regular a wrong checksum"),
        (ipv4(n, 3) / UDP(sport=3, dport=4) / payload(1472), "regular no room for PPPoE"),
    ]


def voice(i: int) -> Raw:
    """Twenty milliseconds of it."""
    return Raw(payload(40, i))


def ipv4(n: int, identification: int, options: bytes = b"", **fields) -> IP:
    """From user n; options as octets."""
    header = IP(src=user4(n), dst=outside4(n), id=identification % 65536, **fields)
    if options:
        header.options, header.ihl = [Raw(options)], 5 + len(options) // 4
    return header


def ipv6(n: int, **fields) -> IPv6:
    """From user n."""
    return IPv6(src=user6(n), dst=outside6(n), fl=n, **fields)
