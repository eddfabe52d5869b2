"""Users inside of a translator: what they send out, to each other, and errors."""

from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.packet import Packet

from .capture import Capture
from .fragments import datagram, piece4
from .nat_plan import AGAIN, BLOCK, LAST, OUT, PUBLIC4, at, block, damaged, query
from .plan import outside4, payload, uplink4, uplink6, user4


def build() -> Capture:
    """All parts, in the order of their times."""
    capture = Capture()
    for when, parts in (
        (OUT, (full_block, connections, queries, fragments, others)),
        (AGAIN, (hairpins, errors, closing)),
        (LAST, (afresh,)),
    ):
        at(capture, when)
        for part in parts:
            part(capture)
    return capture


def udp4(n: int, port: int, size: int = 24, **fields) -> Packet:
    """A datagram of user n."""
    return uplink4(n, **fields) / UDP(sport=port, dport=5001) / payload(size, n)


def full_block(capture: Capture) -> None:
    """User 1: as many inside ports as it has public ones, one more, and one to another host."""
    for i in range(BLOCK + 1):
        capture.add(udp4(1, 40000 + i))
    for host, port in ((9, 5001), (1, 53), (200, 1)):
        capture.add(uplink4(1, dst=outside4(host)) / UDP(sport=40003, dport=port) / payload(9))
    capture.add(uplink4(1) / TCP(sport=40000, dport=443, flags="S", seq=1))


def connections(capture: Capture) -> None:
    """Users 2 and 3: TCP, options, a datagram without checksum, sizes of both parities."""
    for n in (2, 3):
        for i in range(4):
            capture.add(uplink4(n) / TCP(sport=50000 + i, dport=443, flags="S", seq=100, window=n))
        capture.add(uplink4(n, options=[IPOption_Router_Alert()]) / UDP(sport=40000, dport=5001))
        capture.add(uplink4(n) / UDP(sport=40001, dport=5001, chksum=0) / payload(24))
        capture.add(udp4(n, 40002, 25))
        # One inside port in two protocols, and all bits of a checksum.
        capture.add(uplink4(n) / TCP(sport=40002, dport=80, flags="S") / payload(1))
        capture.add(udp4(n, 40000, 1400, dst=outside4(7)))


def queries(capture: Capture) -> None:
    """The same identifier from two users; each kind of query that is told apart by one."""
    for n in (2, 3):
        for i, (kind, size) in enumerate(((8, 56), (8, 57), (13, 12), (15, 0), (17, 4))):
            capture.add(uplink4(n, proto=1) / query(kind, 7 + i // 2, i, size))


def fragments(capture: Capture) -> None:
    """User 4: a later fragment without a mapping, then in order, and with the last one first."""
    data = datagram(uplink4(4), 600)
    pieces = [piece4(4, 0x700, data, i, i + 200, i == 400) for i in (0, 200, 400)]
    for piece in (pieces[2], *pieces, *reversed(pieces)):
        capture.add(piece)


def others(capture: Capture) -> None:
    """What is not translated: another protocol, other messages of ICMP, IPv6."""
    capture.add(uplink4(4) / GRE() / payload(24))
    capture.add(uplink4(4) / ICMP(type=5, code=1, gw="10.0.0.9") / bytes(IP() / UDP())[:28])
    capture.add(uplink4(4, dst="224.0.0.5") / ICMP(type=9) / payload(8))
    capture.add(uplink6(4) / UDP(sport=40000, dport=5001) / payload(24))


def hairpins(capture: Capture) -> None:
    """User 3 to each public port of user 1, one that no user has, and an echo."""
    for port in block(1):
        capture.add(uplink4(3, dst=PUBLIC4) / UDP(sport=40009, dport=port) / payload(24))
    capture.add(uplink4(3, dst="192.0.2.1") / UDP(sport=40009, dport=1024) / payload(24))
    for port in block(2):
        capture.add(uplink4(4, dst=PUBLIC4) / ICMP(type=8, id=port) / payload(24))


def errors(capture: Capture) -> None:
    """About datagrams that came in: whole, as 28 octets, and what is wrong with some."""
    came = IP(src=outside4(9), dst=user4(1), id=77) / UDP(sport=5001, dport=40003) / payload(24)
    whole = bytes(IP(bytes(came)))
    for error in (ICMP(type=3, code=3), ICMP(type=11, code=1), ICMP(type=12, ptr=20)):
        for quoted in (whole, whole[:28]):
            capture.add(uplink4(1, dst=outside4(9)) / error / quoted)
    error = uplink4(1, dst=outside4(9)) / ICMP(type=3, code=3)
    capture.add(damaged(error / whole, 14 + 20 + 4))
    capture.add(error / damaged(came, 8))
    # Of another user, of no user, and without ports.
    capture.add(uplink4(2, dst=outside4(9)) / ICMP(type=3, code=3) / whole)
    stranger = IP(src=outside4(9), dst=user4(1)) / UDP(sport=5001, dport=9) / payload(24)
    capture.add(error / stranger)
    capture.add(error / bytes(IP(src=outside4(9), dst=user4(1), frag=20, proto=17) / whole))
    capture.add(error / (IP(src=outside4(9), dst=user4(1)) / GRE()))


def closing(capture: Capture) -> None:
    """User 3 ends two of its connections."""
    capture.add(uplink4(3) / TCP(sport=50000, dport=443, flags="FA", seq=101, ack=1))
    capture.add(uplink4(3) / TCP(sport=50001, dport=443, flags="R", seq=101))


def afresh(capture: Capture) -> None:
    """User 1 has lost its block, user 2 has not."""
    for i in range(3):
        capture.add(udp4(1, 40000 + i))
        capture.add(udp4(2, 40000 + i))
