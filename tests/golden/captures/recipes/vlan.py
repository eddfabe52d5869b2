"""Users behind VLAN tags: one tag, priority tags, and 802.1ad double tags.

VLAN 100 and 200 are two networks whose users have the same addresses.
"""

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q
from scapy.packet import Packet

from .capture import Capture
from .plan import GATEWAY4, USERS_MAC, access, outside4, outside6, payload, user, user4, user6

VLANS = (1, 100, 200, 300, 2048, 4094)


def build() -> Capture:
    """All parts, one after another."""
    capture = Capture()
    parts = (
        untagged,
        each_vlan,
        same_users_twice,
        priority_tags,
        marks,
        double_tags,
        small_and_large,
        arp,
    )
    for part in parts:
        part(capture)
    return capture


def udp4(n: int, size: int = 48, sport: int = 40000) -> Packet:
    """A datagram of user n, without its Ethernet header."""
    return IP(src=user4(n), dst=outside4(n), id=n) / UDP(sport=sport, dport=5001) / payload(size, n)


def udp6(n: int, size: int = 48) -> Packet:
    """An IPv6 datagram of user n, without its Ethernet header."""
    return IPv6(src=user6(n), dst=outside6(n)) / UDP(sport=40000, dport=5001) / payload(size, n)


def untagged(capture: Capture) -> None:
    """Frames without a tag, to tell them from VLAN 1 and from priority tags."""
    capture.add(access() / udp4(1))
    capture.add(access() / udp6(1))


def each_vlan(capture: Capture) -> None:
    """IPv4, IPv6, TCP and ICMP in each VLAN."""
    for i, vlan in enumerate(VLANS):
        n, tag = user(i), access() / Dot1Q(vlan=vlan)
        capture.add(tag / udp4(n))
        capture.add(tag / udp6(n))
        tcp = TCP(sport=41000, dport=443, flags="S", seq=i, options=[("MSS", 1456)])
        capture.add_padded(tag / IP(src=user4(n), dst=outside4(n), id=i) / tcp)
        capture.add(
            tag / IP(src=user4(n), dst=outside4(n), id=i) / ICMP(id=42, seq=i) / payload(56)
        )
        echo = ICMPv6EchoRequest(id=42, seq=i, data=payload(56))
        capture.add(tag / IPv6(src=user6(n), dst=outside6(n)) / echo)


def same_users_twice(capture: Capture) -> None:
    """The same addresses and ports in VLAN 100 and 200, in turn."""
    for i in range(20):
        for vlan in (100, 200):
            capture.add(access() / Dot1Q(vlan=vlan) / udp4(user(i), 64 if vlan == 100 else 96))


def priority_tags(capture: Capture) -> None:
    """VLAN id 0 carries a priority only: the frame is in no VLAN (802.1Q section 6.9)."""
    for priority in range(8):
        capture.add(access() / Dot1Q(vlan=0, prio=priority) / udp4(1 + priority))
    capture.add(access() / Dot1Q(vlan=0, prio=5) / udp6(5))


def marks(capture: Capture) -> None:
    """Each priority, with and without the drop eligible indicator."""
    for priority in range(8):
        for drop_eligible in (0, 1):
            tag = Dot1Q(vlan=100, prio=priority, id=drop_eligible)
            capture.add(access() / tag / udp4(1 + priority))


def double_tags(capture: Capture) -> None:
    """Service tag outside, customer tag inside; and two customer tags, as some switches send."""
    for i, (service, customer) in enumerate(
        ((500, 100), (500, 200), (501, 100), (4094, 4094), (500, 0))
    ):
        tags = access() / Dot1AD(vlan=service, prio=i) / Dot1Q(vlan=customer, prio=7 - i)
        capture.add(tags / udp4(user(i)))
        capture.add(tags / udp6(user(i)))
    capture.add(access() / Dot1AD(vlan=500) / udp4(1))
    capture.add(access() / Dot1Q(vlan=500) / Dot1Q(vlan=100) / udp4(1))


def small_and_large(capture: Capture) -> None:
    """Padding after a tag, and full packets: 1518 octets with one tag, 1522 with two."""
    one, two = access() / Dot1Q(vlan=100), access() / Dot1AD(vlan=500) / Dot1Q(vlan=100)
    for tags in (one, two):
        for size in (0, 1, 14, 1472):
            capture.add_padded(tags / udp4(3, size))
        capture.add(tags / udp6(3, 1452))


def arp(capture: Capture) -> None:
    """Users ask for their gateway in three VLANs and without a tag."""
    request = ARP(hwsrc=USERS_MAC, psrc=user4(1), pdst=GATEWAY4)
    for tag in (None, Dot1Q(vlan=100), Dot1Q(vlan=200), Dot1Q(vlan=0, prio=7)):
        header = access()
        header.dst = "ff:ff:ff:ff:ff:ff"
        capture.add_padded((header / tag if tag else header) / request.copy())
