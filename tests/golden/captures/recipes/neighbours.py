"""A node between neighbours whose MAC addresses it has to find, and what they say of themselves.

Users and outside hosts have a MAC address each, that ends in their number.
"""

from scapy.layers.inet import UDP
from scapy.layers.inet6 import (
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
)
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

from .capture import Capture
from .plan import (
    ACCESS_MAC,
    CORE_MAC,
    GATEWAY4,
    GATEWAY6,
    downlink4,
    downlink6,
    outside4,
    outside6,
    payload,
    uplink4,
    uplink6,
    user4,
    user6,
)

CORE4, CORE6 = outside4(254), outside6(254)  # the node's own addresses towards the outside
BROADCAST = "ff:ff:ff:ff:ff:ff"
FAR = "203.0.113.9"  # beyond the outside's subnet


def build() -> Capture:
    """One question after another, ten milliseconds apart."""
    capture = Capture()
    parts = (
        answered,
        learned_from_a_question,
        known_or_not_needed,
        moved,
        unanswered,
        answered6,
        learned_from_a_question6,
        towards_users,
    )
    for part in parts:
        part(capture)
    return capture


def user_mac(n: int) -> str:
    """MAC address of user n."""
    return f"02:00:00:00:01:{n:02x}"


def outside_mac(n: int) -> str:
    """MAC address of outside host n."""
    return f"02:00:00:00:02:{n:02x}"


def at(capture: Capture, milliseconds: int, *packets: Packet) -> None:
    """Adds packets from that time on."""
    capture.now_us = 1000 * milliseconds
    for packet in packets:
        capture.add_padded(packet)


def datagrams(header: Packet, first: int, count: int = 1) -> list[Packet]:
    """UDP that is told apart by its source port."""
    ports = range(first, first + count)
    return [header / UDP(sport=port, dport=5001) / payload(32) for port in ports]


def arp_reply(mac: str, address: str, node_mac: str, node_address: str) -> Packet:
    """ARP: the address is at this MAC address."""
    reply = ARP(op=2, hwsrc=mac, psrc=address, hwdst=node_mac, pdst=node_address)
    return Ether(src=mac, dst=node_mac) / reply


def advertisement(mac: str, address: str, node_mac: str, node_address: str) -> Packet:
    """ND: the same."""
    header = Ether(src=mac, dst=node_mac) / IPv6(src=address, dst=node_address, hlim=255)
    return header / ICMPv6ND_NA(tgt=address, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=mac)


def answered(capture: Capture) -> None:
    """Three packets wait for the answer and leave in order; the next one does not wait."""
    at(capture, 0, *datagrams(uplink4(1), 1, 3))
    at(capture, 10, arp_reply(outside_mac(1), outside4(1), CORE_MAC, CORE4))
    at(capture, 11, *datagrams(uplink4(1), 4))


def learned_from_a_question(capture: Capture) -> None:
    """In place of the answer the host asks for the node itself (RFC 826)."""
    at(capture, 20, *datagrams(uplink4(2), 5))
    question = ARP(hwsrc=outside_mac(2), psrc=outside4(2), pdst=CORE4)
    at(capture, 30, Ether(src=outside_mac(2), dst=BROADCAST) / question)


def known_or_not_needed(capture: Capture) -> None:
    """Beyond the subnet the gateway is the next hop, and the gateway is configured."""
    at(capture, 40, *datagrams(uplink4(1, dst=FAR), 6))


def moved(capture: Capture) -> None:
    """A host says of itself that it has another MAC address now."""
    at(capture, 50, arp_reply(outside_mac(0x99), outside4(1), CORE_MAC, CORE4))
    at(capture, 51, *datagrams(uplink4(1), 7))


def unanswered(capture: Capture) -> None:
    """Nobody answers: both senders are told in the end."""
    at(capture, 60, *datagrams(uplink4(3), 8, 2), *datagrams(uplink6(3), 10))


def answered6(capture: Capture) -> None:
    """As with IPv4."""
    at(capture, 70, *datagrams(uplink6(1), 11, 2))
    at(capture, 80, advertisement(outside_mac(1), outside6(1), CORE_MAC, CORE6))
    at(capture, 81, *datagrams(uplink6(1), 13))


def learned_from_a_question6(capture: Capture) -> None:
    """The host asks for the node's address, at the address's group."""
    at(capture, 90, *datagrams(uplink6(2), 14))
    header = Ether(src=outside_mac(2), dst="33:33:ff:00:00:fe")
    header /= IPv6(src=outside6(2), dst="ff02::1:ff00:fe", hlim=255)
    source = ICMPv6NDOptSrcLLAddr(lladdr=outside_mac(2))
    at(capture, 100, header / ICMPv6ND_NS(tgt=CORE6) / source)


def towards_users(capture: Capture) -> None:
    """Both families at the other port."""
    at(capture, 110, *datagrams(downlink4(4), 15), *datagrams(downlink6(4), 16))
    at(capture, 120, arp_reply(user_mac(4), user4(4), ACCESS_MAC, GATEWAY4))
    at(capture, 121, advertisement(user_mac(4), user6(4), ACCESS_MAC, GATEWAY6))
