"""The outside of a translator: tries every public port of the users, in every way."""

from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.packet import Packet

from .capture import Capture
from .fragments import transport
from .nat_plan import BACK, LAST, LATE, PUBLIC4, at, block, damaged, query
from .plan import downlink4, downlink6, outside4, payload

USERS = (1, 2, 3, 4)


def build() -> Capture:
    """All parts, in the order of their times."""
    capture = Capture()
    for when, parts in (
        (BACK, (datagrams, connections, queries, fragments, errors, faults)),
        (LATE, (datagrams, queries)),
        (LAST, (datagrams, connections)),
    ):
        at(capture, when)
        for part in parts:
            part(capture)
    return capture


def to_public(host: int, **fields) -> Packet:
    """Ethernet and IPv4 from an outside host to the public address."""
    return downlink4(1, src=outside4(host), dst=PUBLIC4, id=host, **fields)


def datagrams(capture: Capture) -> None:
    """To every port, from a host to which no user has sent; below and behind the blocks."""
    for n in USERS:
        for port in block(n):
            capture.add(to_public(66) / UDP(sport=9, dport=port) / payload(port % 30))
    for port in (80, 1023, block(9)[0], 65535):
        capture.add(to_public(66) / UDP(sport=9, dport=port) / payload(24))
    for port in block(1)[:4]:
        header = to_public(1, options=[IPOption_Router_Alert()])
        capture.add(header / UDP(sport=5001, dport=port, chksum=0) / payload(24))


def connections(capture: Capture) -> None:
    """Answers to the connections of users 1 and 2, and to all but one in two of user 3."""
    for n in (1, 2, 3):
        for port in block(n)[:: 2 if n == 3 else 1]:
            flags = TCP(sport=443, dport=port, flags="SA", seq=1, ack=101)
            capture.add(to_public(n) / flags)
    for port in block(4):
        capture.add(to_public(4) / TCP(sport=443, dport=port, flags="S") / payload(2))


def queries(capture: Capture) -> None:
    """Replies, and a request, with every identifier."""
    for n in (2, 3):
        for identifier in block(n):
            for kind in (0, 14, 8):
                capture.add(to_public(n, proto=1) / query(kind, identifier, 1, 20))


def fragments(capture: Capture) -> None:
    """To every port of user 1: a later fragment before its first, in order, and another's."""
    for port in block(1)[:6]:
        header = to_public(8)
        data = transport(UDP(sport=9, dport=port) / payload(392), header)
        pieces = [
            downlink4(1, src=outside4(8), dst=PUBLIC4, id=port, proto=17, frag=i // 8, flags=flags)
            / data[i : i + 200]
            for i, flags in ((0, "MF"), (200, ""))
        ]
        for piece in (pieces[1], *pieces):
            capture.add(piece)
        other = pieces[1].copy()
        other["IP"].id, other["IP"].chksum = port + 100, None
        capture.add(other)


def errors(capture: Capture) -> None:
    """About what the users have sent: UDP, TCP and echo requests, from routers on the way."""
    kinds = (ICMP(type=11), ICMP(type=3, code=4, nexthopmtu=1280), ICMP(type=3, code=1))
    for i, port in enumerate((*block(1), *block(2))):
        sent = IP(src=PUBLIC4, dst=outside4(1), id=port, ttl=1)
        for layer in (
            UDP(sport=port, dport=5001) / payload(24),
            TCP(sport=port, dport=443, flags="S"),
            ICMP(type=8, id=port, seq=1) / payload(8),
        ):
            whole = bytes(IP(bytes(sent / layer)))
            quoted = whole if i % 2 else whole[:28]
            capture.add(to_public(250 + i % 3) / kinds[i % 3] / quoted)


def faults(capture: Capture) -> None:
    """Errors that nothing follows from, protocols and addresses that are not translated."""
    port = block(1)[0]
    sent = IP(src=PUBLIC4, dst=outside4(1), id=port) / UDP(sport=port, dport=5001) / payload(24)
    error = to_public(250) / ICMP(type=11)
    capture.add(damaged(error / sent, 14 + 20 + 4))
    capture.add(error / damaged(sent, 8))
    capture.add(error / bytes(sent)[:19])
    capture.add(error / bytes(sent)[:20])
    capture.add(error / bytes(IP(src=PUBLIC4, dst=outside4(1), frag=20, proto=17) / bytes(32)))
    capture.add(error / bytes(IP(src=PUBLIC4, dst=outside4(1)) / GRE()))
    capture.add(to_public(7) / GRE() / payload(24))
    capture.add(to_public(7) / ICMP(type=5) / bytes(sent)[:28])
    capture.add(downlink4(2) / UDP(sport=9, dport=9) / payload(24))
    capture.add(downlink6(2) / UDP(sport=9, dport=9) / payload(24))
