"""What the two captures for a border function of lightweight 4over6 share: who has what.

192.0.2.1 is shared by users 1 to 4 with ports from 0, 16384, ... on; 192.0.2.2 by users 5 and 6,
whose ports are in 3 groups of 64 each; user 7 has 192.0.2.129 alone.
"""

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

from .plan import access, user6

AFTR = "2001:db8:aaaa::1"
SHARED, GROUPED, WHOLE = "192.0.2.1", "192.0.2.2", "192.0.2.129"
QUARTER = 16384

# User: IPv4 address, and some of its ports: the first, the last, and between.
SOFTWIRES = {n: (SHARED, ((n - 1) * QUARTER, n * QUARTER - 1, n * QUARTER - 99)) for n in range(1, 5)}
SOFTWIRES |= {
    n: (GROUPED, tuple((group << 14) + (n - 5) * 64 + i for group in (1, 2, 3) for i in (0, 63)))
    for n in (5, 6)
}
SOFTWIRES[7] = (WHOLE, (0, 1023, 65535))


def address(n: int) -> str:
    """The IPv4 address of user n."""
    return SOFTWIRES[n][0]


def port(n: int) -> int:
    """A port of user n."""
    return SOFTWIRES[n][1][2]


def tunnel(n: int, inner: bytes | Packet, **fields) -> Packet:
    """IPv4 in the softwire of user n; `fields` are of the IPv6 header."""
    return access() / IPv6(**{"src": user6(n), "dst": AFTR, "nh": 4, **fields}) / bytes(inner)


def ipv4(packet: Packet) -> bytes:
    """An IPv4 packet with all that Scapy works out."""
    return bytes(IP(bytes(packet)))


def up4(n: int, destination: str, **fields) -> IP:
    """An IPv4 header of user n."""
    return IP(**{"src": address(n), "dst": destination, "id": n, **fields})


def datagram(n: int) -> UDP:
    """The UDP header of a packet of user n."""
    return UDP(sport=port(n), dport=5001)
