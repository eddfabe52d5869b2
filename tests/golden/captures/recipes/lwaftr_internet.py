"""What the IPv4 Internet sends to softwires: RFC 7596 sections 6.2 and 8.1, with its faults."""

from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.packet import Packet

from .capture import Capture
from .lwaftr_plan import GROUPED, QUARTER, SHARED, SOFTWIRES, WHOLE, address, ipv4, port
from .nat_plan import at, damaged, query
from .plan import downlink4, downlink6, outside4, payload

ICMPV4 = 1


def build() -> Capture:
    """All parts, one after another, behind what the softwires send."""
    capture = Capture()
    at(capture, 1)
    for part in (softwires, absent, sizes, hops, queries, errors, others, fragments):
        part(capture)
    return capture


def to(n: int, **fields) -> Packet:
    """Ethernet and IPv4 to the address of user n."""
    return downlink4(9, dst=address(n), **fields)


def softwires(capture: Capture) -> None:
    """Every softwire at the edges of its port sets."""
    for n, (_, ports) in SOFTWIRES.items():
        for i, number in enumerate(ports):
            capture.add(to(n) / UDP(sport=53, dport=number) / payload(20 + i, n))
            capture.add(to(n, tos=0x28 | i % 4) / TCP(sport=443, dport=number, flags="SA"))
    capture.add(to(1, options=[IPOption_Router_Alert()]) / UDP(dport=port(1)) / payload(9))
    capture.add(to(2) / UDP(sport=53, dport=port(2), chksum=0) / payload(24))
    capture.add_padded(to(3) / UDP(sport=53, dport=port(3)))


def absent(capture: Capture) -> None:
    """Addresses and ports that no softwire has."""
    for destination, number in (
        (GROUPED, 64),  # in front of all groups
        (GROUPED, (1 << 14) + 128),
        (GROUPED, (3 << 14) + 16383),
        ("192.0.2.3", 9),
        ("192.0.2.130", 9),
        ("203.0.113.1", 9),
    ):
        capture.add(downlink4(9, dst=destination) / UDP(sport=53, dport=number) / payload(20))
    capture.add(downlink4(9, dst="192.0.2.3") / ICMP(type=3, code=1) / bytes(40))


def sizes(capture: Capture) -> None:
    """Around what a softwire takes, with and without Don't Fragment."""
    for length in (1360, 1361, 1400, 1500):
        for flags in ("", "DF"):
            header = to(1 + length % 4, flags=flags, id=length)
            ports = UDP(sport=53, dport=port(1 + length % 4))
            capture.add(header / ports / payload(length - 28))


def hops(capture: Capture) -> None:
    """Time to live: 1 goes no further."""
    for ttl in (1, 2, 255):
        capture.add(to(1, ttl=ttl) / UDP(sport=53, dport=port(1)) / payload(20))


def queries(capture: Capture) -> None:
    """Echoes by identifiers of softwires; other queries, and other identifiers."""
    for n in (1, 2, 5, 7):
        for kind in (0, 8, 14):
            capture.add(to(n, proto=ICMPV4) / query(kind, port(n), 1, 24))
    capture.add(downlink4(9, dst=GROUPED, proto=ICMPV4) / query(8, 7, 1, 24))


def errors(capture: Capture) -> None:
    """About what softwires have sent: each protocol, as 28 octets and whole; and faults."""
    kinds = (ICMP(type=11), ICMP(type=3, code=4, nexthopmtu=1280), ICMP(type=12))
    for i, n in enumerate((1, 2, 3, 5, 7)):
        sent = IP(src=address(n), dst=outside4(3), ttl=1)
        for layer in (
            UDP(sport=port(n), dport=53) / payload(20),
            TCP(sport=port(n), dport=443, flags="S"),
            ICMP(type=8, id=port(n), seq=1),
        ):
            whole = ipv4(sent / layer)
            capture.add(to(n) / kinds[i % 3] / (whole if i % 2 else whole[:28]))
    sent = IP(src=SHARED, dst=outside4(3)) / UDP(sport=QUARTER, dport=53) / payload(20)
    error = to(2) / ICMP(type=11)
    whole = ipv4(sent)
    capture.add(damaged(error / whole, 14 + 20 + 4))
    capture.add(error / damaged(whole, 8))
    capture.add(error / whole[:20])
    capture.add(error / ipv4(IP(src=WHOLE, dst=outside4(3)) / UDP(sport=QUARTER, dport=53)))
    capture.add(error / ipv4(IP(src=GROUPED, dst=outside4(3)) / UDP(sport=9)))
    capture.add(error / ipv4(IP(src=SHARED, dst=outside4(3), proto=17, frag=20) / bytes(40)))
    capture.add(to(2) / ICMP(type=5) / whole)


def others(capture: Capture) -> None:
    """Protocols without ports, and native IPv6."""
    for n in (1, 7):
        capture.add(to(n) / GRE() / payload(20))
    capture.add(downlink6(3) / UDP(sport=9, dport=9) / payload(20))


def fragments(capture: Capture) -> None:
    """In order, the first one late, and long ones that are cut again in the softwire."""
    for identification, order, size in ((1, (0, 1, 2), 160), (2, (1, 0, 2), 160), (3, (0, 1), 1448)):
        datagram = to(2) / UDP(sport=53, dport=port(2)) / payload(size * len(order) - 12)
        data = ipv4(datagram.payload)[20:]
        for i in order:
            more = "MF" if i < len(order) - 1 else ""
            header = to(2, id=identification, proto=17, frag=i * size // 8, flags=more)
            capture.add(header / data[i * size : (i + 1) * size])
