"""Answers to who asks for a MAC address: ARP (RFC 826, 1027, 5227), neighbour discovery
(RFC 4861 section 7, RFC 4389)."""

import struct
from ipaddress import ip_address

from .checksum import ones_sum
from .dissect import ICMPV6, Frame
from .icmp import is_host, pseudo_header, summed

ARP_REQUEST = bytes.fromhex("0001 0800 06 04 0001")
SHORTEST_FRAME = 60
SOLICITATION, ADVERTISEMENT, SOURCE_MAC, TARGET_MAC = 135, 136, 1, 2
ALL_NODES = ip_address("ff02::1").packed
ROUTER, SOLICITED, OVERRIDE = 0x80, 0x40, 0x20


def is_station(mac: bytes) -> bool:
    """Whether it is one station's address."""
    return mac != bytes(6) and not mac[0] & 1


def may_ask(address: bytes) -> bool:
    """A host may, and who has no address yet."""
    asker = ip_address(address)
    return is_host(asker) or asker.is_unspecified


def arp_reply(frame: Frame, mac: bytes, port) -> bytes | None:
    """The frame that answers an ARP request."""
    packet = frame.octets[frame.network :]
    if frame.vlans or len(packet) < 28 or packet[:8] != ARP_REQUEST or not is_near(frame, mac):
        return None
    asker_mac, asker, target = packet[8:14], packet[14:18], packet[24:28]
    if not is_station(asker_mac) or not may_ask(asker) or not port.answers(target, asker):
        return None
    reply = ARP_REQUEST[:7] + b"\2" + mac + target + asker_mac + asker
    return (asker_mac + mac + b"\x08\x06" + reply).ljust(SHORTEST_FRAME, b"\0")


def is_near(frame: Frame, mac: bytes) -> bool:
    """Whether the frame is for this station or for a group."""
    return frame.octets[:6] == mac or bool(frame.octets[0] & 1)


def is_discovery(frame: Frame) -> bool:
    """ICMPv6 of types 133 to 137."""
    kind = frame.segment[0] if frame.segment else 0
    return (frame.version, frame.protocol) == (6, ICMPV6) and 133 <= kind <= 137


def advertisement(frame: Frame, mac: bytes, port) -> bytes | None:
    """The frame that answers a neighbour solicitation."""
    if frame.vlans or not is_near(frame, mac) or not is_valid_solicitation(frame):
        return None
    target, asker_mac = frame.segment[8:24], source_mac(frame) or frame.octets[6:12]
    if not is_station(asker_mac) or not may_ask(frame.source):
        return None
    if not port.answers(target, frame.source):
        return None
    is_own = port.is_own(target)
    flags, destination = ROUTER | (OVERRIDE if is_own else 0), ALL_NODES
    if ip_address(frame.source).is_unspecified:
        asker_mac = b"\x33\x33" + ALL_NODES[12:]
    else:
        flags, destination = flags | SOLICITED, frame.source
    message = struct.pack("!BBHBxxx", ADVERTISEMENT, 0, 0, flags) + target
    message += bytes((TARGET_MAC, 1)) + mac
    header = struct.pack("!IHBB", 6 << 28, len(message), ICMPV6, 255)
    header += (target if is_own else port.own(6)) + destination
    packet = header + summed(message, pseudo_header(header, len(message)))
    return asker_mac + mac + b"\x86\xdd" + packet


def is_valid_solicitation(frame: Frame) -> bool:
    """RFC 4861 section 7.1.1; RFC 6980 forbids fragments."""
    message = frame.segment
    if len(message) < 24 or message[:2] != bytes((SOLICITATION, 0)) or frame.hops != 255:
        return False
    whole = frame.source + frame.destination + struct.pack("!II", len(message), ICMPV6) + message
    if ones_sum(whole) != 0xFFFF or frame.transport != 40 or message[8] == 0xFF:
        return False
    options = message[24:]
    while options:
        if len(options) < 2 or options[1] == 0 or options[1] * 8 > len(options):
            return False
        options = options[options[1] * 8 :]
    if ip_address(frame.source).is_unspecified:
        solicited = ip_address("ff02::1:ff00:0").packed[:13] + message[21:24]
        return source_mac(frame) is None and frame.destination == solicited
    return True


def source_mac(frame: Frame) -> bytes | None:
    """The MAC address in the source link-layer address option."""
    options = frame.segment[24:]
    while len(options) >= 8:
        if options[0] == SOURCE_MAC:
            return options[2:8]
        options = options[options[1] * 8 :]
    return None
