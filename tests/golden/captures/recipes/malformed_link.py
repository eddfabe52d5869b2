"""Faults of Ethernet, VLAN tags, LLC and ARP."""

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether

from .capture import Capture
from .plan import ACCESS_MAC, GATEWAY4, USERS_MAC, access, octets, outside4, payload, user4

BROADCAST = "ff:ff:ff:ff:ff:ff"
ETHERTYPE_ARP = 0x0806


def add(capture: Capture) -> None:
    """All of them."""
    for part in (
        runts,
        ethertypes,
        stations,
        length_fields,
        tags,
        arp_cut,
        arp_fields,
        arp_addresses,
    ):
        part(capture)


def datagram() -> bytes:
    """A well-formed datagram to put behind a faulty link header."""
    return bytes(
        IP(src=user4(1), dst=outside4(1), id=1) / UDP(sport=40000, dport=5001) / payload(32)
    )


def runts(capture: Capture) -> None:
    """Frames that end inside the Ethernet header or right behind it."""
    frame = bytes(access() / IP())
    for size in (1, 5, 6, 11, 12, 13):
        capture.add(frame[:size], f"Ethernet header cut after {octets(size)}")
    for ethertype, name in (
        (0x0800, "IPv4"),
        (0x86DD, "IPv6"),
        (ETHERTYPE_ARP, "ARP"),
        (0x8100, "VLAN"),
    ):
        header = access()
        header.type = ethertype
        capture.add(bytes(header), f"Ethernet header for {name} with nothing behind it")


def ethertypes(capture: Capture) -> None:
    """Ethertypes that are unknown, undefined, or somebody else's."""
    cases = (
        (0x0600, "first ethertype (XNS)"),
        (0x05FF, "neither a length nor an ethertype"),
        (0x05DD, "neither a length nor an ethertype"),
        (0x1234, "unknown ethertype"),
        (0xFFFF, "reserved ethertype"),
        (0x88CC, "LLDP ethertype"),
        (0x8808, "PAUSE frame to a unicast address"),
        (0x8847, "MPLS ethertype"),
        (0x8863, "PPPoE discovery ethertype"),
        (0x9100, "tag ethertype of the time before 802.1ad"),
    )
    for ethertype, what in cases:
        header = access()
        header.type = ethertype
        capture.add_padded(bytes(header) + payload(46), f"ethertype 0x{ethertype:04x}: {what}")
    for ethertype, what in (
        (0x86DD, "IPv4 packet behind the IPv6 ethertype"),
        (ETHERTYPE_ARP, "IPv4 packet behind the ARP ethertype"),
    ):
        header = access()
        header.type = ethertype
        capture.add(bytes(header) + datagram(), what)


def stations(capture: Capture) -> None:
    """Well-formed packets in frames not for the node, or that no station can have sent."""
    cases = (
        ("02:00:00:00:99:99", USERS_MAC, "destination MAC address of another station"),
        (BROADCAST, USERS_MAC, "unicast IP packet in a broadcast frame"),
        ("01:00:5e:00:00:01", USERS_MAC, "unicast IP packet in a multicast frame"),
        ("00:00:00:00:00:00", USERS_MAC, "destination MAC address zero"),
        (ACCESS_MAC, "01:00:5e:00:00:01", "source MAC address is multicast"),
        (ACCESS_MAC, BROADCAST, "source MAC address is broadcast"),
        (ACCESS_MAC, "00:00:00:00:00:00", "source MAC address zero"),
        (ACCESS_MAC, ACCESS_MAC, "source MAC address is the node's own"),
    )
    for destination, source, what in cases:
        capture.add(Ether(dst=destination, src=source, type=0x0800) / datagram(), what)


def length_fields(capture: Capture) -> None:
    """802.3 frames with a length instead of an ethertype."""
    bpdu = bytes.fromhex("424203") + bytes(35)
    snap = bytes.fromhex("aaaa030000000800") + datagram()
    cases = (
        (len(bpdu), bpdu, "LLC: spanning tree BPDU"),
        (len(snap), snap, "LLC and SNAP around an IPv4 packet"),
        (40, b"\xff\xff" + payload(38), "raw IPX"),
        (0, b"", "802.3 length 0"),
        (1, b"\xaa", "LLC of 1 octet"),
        (200, snap, "802.3 length beyond the frame"),
        (1500, bpdu, "802.3 length 1500 in a short frame"),
    )
    for length, data, what in cases:
        header = access()
        header.type = length
        capture.add_padded(bytes(header) + data, what)


def tags(capture: Capture) -> None:
    """VLAN tags cut, reserved, and stacked too deep."""
    frame = bytes(access() / Dot1Q(vlan=100, type=0x0800) / datagram())
    for size in (1, 2, 3, 4):
        capture.add(frame[: 14 + size], f"VLAN tag: frame ends {octets(size)} into it")
    capture.add(access() / Dot1Q(vlan=4095, type=0x0800) / datagram(), "VLAN id 4095 is reserved")
    for depth in (3, 8, 40):
        stack = bytes(Dot1Q(vlan=100, type=0x8100)) * (depth - 1) + bytes(
            Dot1Q(vlan=100, type=0x0800)
        )
        header = access()
        header.type = 0x8100
        capture.add(bytes(header) + stack + datagram(), f"{depth} VLAN tags")
    header = access()
    header.type = 0x8100
    capture.add_padded(
        bytes(header) + bytes(Dot1Q(vlan=100, type=0x8100)) * 12,
        "VLAN tags to the end of the frame",
    )
    length = Dot1Q(vlan=100, type=38)
    capture.add_padded(access() / length / bytes(38), "802.3 length behind a VLAN tag")


def request(**fields) -> Ether:
    """An ARP request of user 1 for its gateway, with some fields changed."""
    usual = {
        "hwsrc": USERS_MAC,
        "psrc": user4(1),
        "hwdst": "00:00:00:00:00:00",
        "pdst": GATEWAY4,
        "op": 1,
    }
    return Ether(src=USERS_MAC, dst=BROADCAST) / ARP(**{**usual, **fields})


def arp_cut(capture: Capture) -> None:
    """An ARP packet that ends at and inside each field."""
    frame = bytes(request())
    for size in (1, 2, 4, 5, 6, 7, 8, 13, 14, 17, 18, 23, 24, 27):
        capture.add(frame[: 14 + size], f"ARP cut after {size} of 28 octets")


def arp_fields(capture: Capture) -> None:
    """Each field of the fixed part wrong."""
    cases = (
        ({"hwtype": 0}, "ARP hardware type 0"),
        ({"hwtype": 6}, "ARP hardware type 6 (IEEE 802)"),
        ({"ptype": 0x86DD}, "ARP for IPv6"),
        ({"hwlen": 0}, "ARP hardware address length 0"),
        ({"hwlen": 255}, "ARP hardware address length 255"),
        ({"plen": 0}, "ARP protocol address length 0"),
        ({"plen": 16}, "ARP protocol address length 16"),
        ({"plen": 255}, "ARP protocol address length 255"),
        ({"op": 0}, "ARP operation 0"),
        ({"op": 3}, "RARP request"),
        ({"op": 65535}, "ARP operation 65535"),
    )
    plain = bytes(request())
    offsets = {"hwtype": (0, 2), "ptype": (2, 2), "hwlen": (4, 1), "plen": (5, 1), "op": (6, 2)}
    for fields, what in cases:
        ((name, value),) = fields.items()
        at, width = offsets[name]
        frame = bytearray(plain)
        frame[14 + at : 14 + at + width] = value.to_bytes(width, "big")
        capture.add_padded(frame, what)


def arp_addresses(capture: Capture) -> None:
    """Addresses that nobody may say of itself, and an answer that nobody asked for."""
    cases = (
        ({"psrc": GATEWAY4}, "ARP request claims the node's own IP address"),
        ({"psrc": "0.0.0.0"}, "ARP probe (RFC 5227): not a fault, but no sender to learn"),
        ({"psrc": "255.255.255.255"}, "ARP sender is the broadcast address"),
        ({"psrc": "224.0.0.1"}, "ARP sender is a multicast address"),
        ({"psrc": "127.0.0.1"}, "ARP sender is a loopback address"),
        ({"hwsrc": BROADCAST}, "ARP sender hardware address is broadcast"),
        ({"hwsrc": "01:00:5e:00:00:01"}, "ARP sender hardware address is multicast"),
        ({"hwsrc": "00:00:00:00:00:00"}, "ARP sender hardware address zero"),
        ({"hwsrc": "02:00:00:00:99:99"}, "ARP sender hardware address is not the frame's source"),
        ({"pdst": user4(1)}, "gratuitous ARP: not a fault"),
        ({"op": 2, "pdst": GATEWAY4}, "ARP reply that nobody asked for"),
    )
    for fields, what in cases:
        capture.add_padded(request(**fields), what)
