"""Faults of the IPv6 header and of extension header chains (RFC 8200)."""

import struct

from scapy.layers.inet import TCP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, Jumbo, PadN
from scapy.packet import Packet

from .capture import Capture
from .malformed_ipv4 import udp
from .plan import GATEWAY6, octets, outside6, payload, uplink4, uplink6, user6

HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60
UDP_PROTOCOL, NO_NEXT_HEADER = 17, 59


def add(capture: Capture) -> None:
    """All of them."""
    parts = (
        versions,
        payload_lengths,
        jumbo,
        cut,
        cut_chain,
        chains,
        options,
        routing,
        other_headers,
        addresses,
    )
    for part in parts:
        part(capture)


def versions(capture: Capture) -> None:
    """Every version but 6, and IPv6 behind the IPv4 ethertype."""
    for version in (0, 4, 5, 7, 15):
        capture.add(uplink6(1, version=version) / udp(), f"IPv6 version {version}")
    header = uplink4(1)
    header.remove_payload()
    header.type = 0x0800
    capture.add(
        header / bytes(IPv6(src=user6(1), dst=outside6(1)) / udp()),
        "IPv6 packet behind the IPv4 ethertype",
    )
    capture.add(uplink6(1, hlim=0) / udp(), "IPv6 hop limit 0")


def payload_lengths(capture: Capture) -> None:
    """0 with a next header, below and beyond what is there."""
    capture.add(uplink6(2, plen=0) / udp(), "IPv6 payload length 0 with UDP behind it")
    capture.add(
        uplink6(2, plen=0, nh=HOP_BY_HOP) / IPv6ExtHdrHopByHop() / udp(),
        "IPv6 payload length 0 with hop-by-hop options but no jumbo payload",
    )
    capture.add(uplink6(2, plen=7) / udp(), "IPv6 payload length ends inside the UDP header")
    capture.add(uplink6(2, plen=39) / udp(32), "IPv6 payload length 1 octet below the UDP length")
    capture.add(uplink6(2, plen=41) / udp(32), "IPv6 payload length 1 octet beyond the frame")
    capture.add(uplink6(2, plen=65535) / udp(), "IPv6 payload length 65535 beyond the frame")


def jumbo(capture: Capture) -> None:
    """Jumbo payload options (RFC 2675 section 3)."""
    cases = (
        (0, 70_000, "beyond the frame"),
        (0, 0xFFFFFFFF, "4 GiB"),
        (0, 48, "below 65536"),
        (0, 0, "zero"),
        (48, 70_000, "with a payload length as well"),
    )
    for length, jumbo_length, what in cases:
        extension = IPv6ExtHdrHopByHop(options=[Jumbo(jumboplen=jumbo_length)])
        capture.add(uplink6(3, plen=length) / extension / udp(), f"IPv6 jumbo payload: {what}")


def cut(capture: Capture) -> None:
    """The frame ends after each octet of the IPv6 and the UDP header."""
    frame = bytes(uplink6(4) / udp())
    for size in range(1, 48):
        capture.add(
            frame[: 14 + size], f"IPv6 with UDP, frame cut {octets(size)} into the IPv6 packet"
        )
    capture.add(frame[:-1], "IPv6 with UDP, last octet missing")


def cut_chain(capture: Capture) -> None:
    """The frame ends after each octet of two extension headers; the lengths claim the whole."""
    chain = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]) / IPv6ExtHdrDestOpt(
        options=[PadN(optdata=b"\0" * 12)]
    )
    frame = bytes(uplink6(5) / chain / udp())
    for size in range(24):
        capture.add(frame[: 54 + size], f"IPv6 extension headers cut after {size} of 24 octets")


def extension(next_header: int, length: int, body: bytes) -> bytes:
    """A raw extension header: next header, length field, body."""
    return bytes((next_header, length)) + body


def pad(count: int) -> bytes:
    """A PadN option of `count` octets in all."""
    return bytes((1, count - 2)) + bytes(count - 2)


def raw6(n: int, first: int, rest: bytes) -> Packet:
    """An IPv6 header with `first` as next header; payload length fits `rest`."""
    return uplink6(n, nh=first, plen=len(rest)) / rest


def datagram6(n: int) -> bytes:
    """UDP of user n with a right checksum."""
    return bytes(uplink6(n) / udp())[54:]


def chains(capture: Capture) -> None:
    """Chains past the end, too long, and out of order."""
    data = datagram6(6)
    end = extension(UDP_PROTOCOL, 255, pad(6))
    capture.add(
        raw6(6, DESTINATION, end + data), "IPv6 destination options end 2 kB past the packet"
    )
    end = extension(UDP_PROTOCOL, len(data) // 8 + 1, pad(6))
    capture.add(
        raw6(6, DESTINATION, end + data), "IPv6 destination options end 8 octets past the packet"
    )
    end = extension(UDP_PROTOCOL, len(data) // 8, pad(6))
    capture.add(raw6(6, DESTINATION, end + data), "IPv6 destination options swallow the UDP header")
    capture.add(
        raw6(6, DESTINATION, extension(UDP_PROTOCOL, 0, pad(6))),
        "IPv6 chain ends where UDP should begin",
    )
    capture.add(
        raw6(6, DESTINATION, extension(DESTINATION, 0, pad(6))),
        "IPv6 chain ends where an extension header should begin",
    )
    for count in (16, 40, 150):
        links = extension(DESTINATION, 0, pad(6)) * (count - 1) + extension(UDP_PROTOCOL, 0, pad(6))
        capture.add(
            raw6(6, DESTINATION, links + data), f"IPv6 chain of {count} destination options headers"
        )
    links = extension(HOP_BY_HOP, 0, pad(6)) * 39 + extension(UDP_PROTOCOL, 0, pad(6))
    capture.add(raw6(6, HOP_BY_HOP, links + data), "IPv6 chain of 40 hop-by-hop headers")
    links = extension(HOP_BY_HOP, 0, pad(6)) + extension(UDP_PROTOCOL, 0, pad(6))
    capture.add(
        raw6(6, DESTINATION, links + data), "IPv6 hop-by-hop header behind destination options"
    )
    capture.add(raw6(6, HOP_BY_HOP, links + data), "IPv6 hop-by-hop header twice")
    fragments = struct.pack("!BBHI", FRAGMENT, 0, 0, 1) + struct.pack(
        "!BBHI", UDP_PROTOCOL, 0, 0, 2
    )
    capture.add(raw6(6, FRAGMENT, fragments + data), "IPv6 fragment header twice")


def options(capture: Capture) -> None:
    """Faulty options, and unknown ones of each class of action (RFC 8200 section 4.2)."""
    cases = (
        ("01ff00000000", "PadN ends past the header"),
        ("010500000000", "PadN ends 1 octet past the header"),
        ("00000000001e", "option type in the last octet, no length"),
        ("1e0400000000", "unknown option, to be skipped: not a fault"),
        ("5e0400000000", "unknown option, discard"),
        ("9e0400000000", "unknown option, discard and tell the sender"),
        ("de0400000000", "unknown option, discard and tell the sender unless multicast"),
    )
    data = datagram6(7)
    misplaced = extension(UDP_PROTOCOL, 0, bytes.fromhex("c20400011170")) + data
    capture.add(
        raw6(7, DESTINATION, misplaced),
        "IPv6 destination options: jumbo payload, which is hop-by-hop",
    )
    for digits, what in cases:
        body = bytes.fromhex(digits)
        capture.add(
            raw6(7, DESTINATION, extension(UDP_PROTOCOL, 0, body) + data),
            f"IPv6 destination options: {what}",
        )
        capture.add(
            raw6(7, HOP_BY_HOP, extension(UDP_PROTOCOL, 0, body) + data),
            f"IPv6 hop-by-hop options: {what}",
        )


def routing(capture: Capture) -> None:
    """Routing headers whose numbers do not fit, and types that are deprecated or unknown."""
    data, hop = datagram6(8), bytes.fromhex("20010db8ffff00000000000000000007")
    cases = (
        (2, 0, 1, hop, "type 0 with segments left (RFC 5095)"),
        (2, 0, 5, hop, "type 0, segments left beyond its addresses"),
        (1, 0, 0, bytes(8), "type 0 of odd length"),
        (2, 2, 1, hop, "type 2 (RFC 6275) with an address that is not the user's"),
        (2, 200, 1, hop, "unknown type with segments left"),
        (2, 200, 0, hop, "unknown type, no segments left: not a fault"),
        (4, 4, 3, hop * 2, "segment routing, segments left beyond last entry (RFC 8754)"),
        (255, 4, 1, hop, "segment routing, length past the packet"),
    )
    for length, kind, left, addresses_, what in cases:
        fixed = bytes((UDP_PROTOCOL, length, kind, left)) + bytes(4)
        capture.add(raw6(8, ROUTING, fixed + addresses_ + data), f"IPv6 routing header {what}")


def other_headers(capture: Capture) -> None:
    """Fragment and authentication headers cut or wrong; nothing or nonsense as next header."""
    data = datagram6(9)
    fragment = struct.pack("!BBHI", UDP_PROTOCOL, 0, 0, 9)
    for size in (1, 4, 7):
        capture.add(raw6(9, FRAGMENT, fragment[:size]), f"IPv6 fragment header of {octets(size)}")
    capture.add(
        raw6(9, FRAGMENT, struct.pack("!BBHI", UDP_PROTOCOL, 255, 6, 9) + data),
        "IPv6 fragment header with reserved bits set",
    )
    capture.add(
        raw6(9, AUTHENTICATION, bytes((UDP_PROTOCOL, 0)) + bytes(6) + data),
        "IPv6 authentication header of length 0",
    )
    capture.add(
        raw6(9, AUTHENTICATION, bytes((UDP_PROTOCOL, 255)) + bytes(22) + data),
        "IPv6 authentication header past the packet",
    )
    capture.add(
        raw6(9, NO_NEXT_HEADER, payload(16)),
        "IPv6 no next header, with octets behind it: not a fault",
    )
    capture.add(raw6(9, 255, payload(16)), "IPv6 next header 255")
    capture.add(raw6(9, 1, payload(16)), "IPv6 with ICMP of IPv4")
    for protocol, name in (
        (UDP_PROTOCOL, "UDP"),
        (6, "TCP"),
        (58, "ICMPv6"),
        (FRAGMENT, "a fragment header"),
    ):
        capture.add(raw6(9, protocol, b""), f"IPv6 with {name}, payload length 0 and nothing there")
    inner = uplink4(9).payload / TCP(flags="S")
    capture.add(raw6(9, 4, bytes(inner)), "IPv4 in IPv6: not a fault, but not unpacked either")


def addresses(capture: Capture) -> None:
    """Addresses that no forwarded packet may bear (RFC 4291), and spoofed ones."""
    sources = (
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("ff02::1", "multicast"),
        ("fe80::1", "link-local"),
        ("::ffff:10.0.0.1", "IPv4-mapped"),
        ("2001:db8:0:63::1", "no user's (spoofed)"),
        (outside6(1), "an outside host's (spoofed)"),
        (GATEWAY6, "the node's own"),
    )
    for address, what in sources:
        capture.add(uplink6(10, src=address) / udp(), f"IPv6 source {address}: {what}")
    destinations = (
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("ff02::1", "link-local multicast"),
        ("ff0e::1", "multicast"),
        ("ff00::1", "multicast of the reserved scope"),
        ("fe80::2", "link-local"),
        ("::ffff:198.51.100.1", "IPv4-mapped"),
        (user6(10), "the sender itself"),
    )
    for address, what in destinations:
        capture.add(uplink6(10, dst=address) / udp(), f"IPv6 destination {address}: {what}")
