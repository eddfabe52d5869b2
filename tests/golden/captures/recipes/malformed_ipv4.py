"""Faults of the IPv4 header (RFC 791, RFC 1812 section 5.3)."""

from scapy.layers.inet import IP, UDP
from scapy.packet import Packet
from scapy.utils import checksum

from .capture import Capture
from .plan import GATEWAY4, octets, outside4, payload, uplink4, user4

HEADER = 20  # octets


def add(capture: Capture) -> None:
    """All of them."""
    for part in (
        versions,
        header_lengths,
        total_lengths,
        checksums,
        cut,
        options,
        addresses,
        other_fields,
    ):
        part(capture)


def udp(size: int = 32) -> Packet:
    """What the faulty header carries."""
    return UDP(sport=40000, dport=5001) / payload(size)


def versions(capture: Capture) -> None:
    """Every version but 4."""
    for version in (0, 1, 3, 5, 6, 7, 15):
        capture.add(uplink4(1, version=version) / udp(), f"IPv4 version {version}")


def header_lengths(capture: Capture) -> None:
    """IHL below 5, and beyond the packet."""
    for words in range(5):
        capture.add(uplink4(2, ihl=words) / udp(), f"IPv4 header length {words} words")
    capture.add(
        uplink4(2, ihl=15, len=HEADER + 8) / UDP(sport=40000, dport=5001, len=8),
        "IPv4 header length 15 words, total length 28",
    )
    capture.add(uplink4(2, ihl=15) / udp(8), "IPv4 header length 15 words, packet of 36 octets")
    swallowed = uplink4(2, ihl=6, chksum=0) / udp()
    swallowed[IP].chksum = checksum(bytes(swallowed)[14 : 14 + HEADER + 4])
    capture.add(swallowed, "IPv4 header length 6 words takes in half of the UDP header")


def total_lengths(capture: Capture) -> None:
    """Below the header, below and beyond what is there."""
    for length in (0, 1, 19):
        capture.add(uplink4(3, len=length) / udp(), f"IPv4 total length {length}")
    capture.add(uplink4(3, len=HEADER) / udp(), "IPv4 total length ends before the UDP header")
    capture.add(uplink4(3, len=HEADER + 7) / udp(), "IPv4 total length ends inside the UDP header")
    capture.add(
        uplink4(3, len=HEADER + 8 + 31) / udp(32), "IPv4 total length 1 octet below the UDP length"
    )
    capture.add(
        uplink4(3, len=HEADER + 8 + 33) / udp(32), "IPv4 total length 1 octet beyond the frame"
    )
    for length in (1500, 65535):
        capture.add(uplink4(3, len=length) / udp(), f"IPv4 total length {length} beyond the frame")


def checksums(capture: Capture) -> None:
    """Off by one, its complement, zero and all ones."""
    right = IP(bytes(uplink4(4) / udp())[14:]).chksum
    cases = (
        (right + 1, "off by one"),
        (right ^ 0xFFFF, "inverted"),
        (0, "zero"),
        (0xFFFF, "all ones"),
    )
    for wrong, what in cases:
        capture.add(uplink4(4, chksum=wrong & 0xFFFF) / udp(), f"IPv4 header checksum {what}")


def cut(capture: Capture) -> None:
    """The frame ends after each octet of the IPv4 and the UDP header."""
    frame = bytes(uplink4(5) / udp())
    for size in range(1, HEADER + 8):
        capture.add(
            frame[: 14 + size], f"IPv4 with UDP, frame cut {octets(size)} into the IPv4 packet"
        )
    capture.add(frame[:-1], "IPv4 with UDP, last octet missing")


def options(capture: Capture) -> None:
    """Option lengths that are too small, too large, and pointers that point nowhere."""
    cases = (
        ("0700 0000", "option length 0"),
        ("0701 0000", "option length 1"),
        ("0702 0000", "record route without a pointer"),
        ("07ff 0400", "option length 255"),
        ("0101 0107", "option type in the last octet, no length"),
        ("0705 0400", "option ends beyond the header"),
        ("0707 0000 0000 0001", "record route pointer 0"),
        ("0707 ff00 0000 0001", "record route pointer 255"),
        ("8907 0800 c633 6401", "strict source route, used up: not a fault"),
        ("8307 05c6 3364 0101", "loose source route pointer not on an address"),
        ("4404 0500", "timestamp option full"),
        ("4405 0500 0000 0000", "timestamp option of length 5"),
        ("9403 0000", "router alert of length 3"),
        ("0000 0007", "octets behind the end of options"),
        ("9404 0000 9404 0000", "router alert twice"),
    )
    for digits, what in cases:
        raw = bytes.fromhex(digits.replace(" ", ""))
        raw += bytes(-len(raw) % 4)
        capture.add(with_options(raw), f"IPv4 {what}")


def with_options(raw: bytes) -> Packet:
    """A header with `raw` as its options area; lengths and checksum fit it."""
    data = bytes(uplink4(6) / udp())[14 + HEADER :]
    length = HEADER + len(raw) + len(data)
    header = uplink4(6, ihl=(HEADER + len(raw)) // 4, len=length, proto=17, chksum=0)
    header[IP].chksum = checksum(bytes(header)[14:] + raw)
    return header / (raw + data)


def addresses(capture: Capture) -> None:
    """Addresses that no unicast packet may bear (RFC 1812 section 5.3.7), and spoofed ones."""
    sources = (
        ("0.0.0.0", "unspecified"),
        ("127.0.0.1", "loopback"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("10.9.9.9", "no user's (spoofed)"),
        (outside4(1), "an outside host's (spoofed)"),
        (GATEWAY4, "the node's own"),
    )
    for address, what in sources:
        capture.add(uplink4(7, src=address) / udp(), f"IPv4 source {address}: {what}")
    destinations = (
        ("0.0.0.0", "unspecified"),
        ("127.0.0.1", "loopback"),
        ("224.0.0.5", "link-local multicast"),
        ("239.1.1.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        (user4(7), "the sender itself"),
    )
    for address, what in destinations:
        capture.add(uplink4(7, dst=address) / udp(), f"IPv4 destination {address}: {what}")


def other_fields(capture: Capture) -> None:
    """TTL 0, the reserved flag, protocols without a header behind them."""
    capture.add(uplink4(8, ttl=0) / udp(), "IPv4 TTL 0")
    capture.add(uplink4(8, flags="evil") / udp(), "IPv4 reserved flag set (RFC 3514)")
    capture.add(uplink4(8, proto=0) / payload(20), "IPv4 protocol 0")
    capture.add(uplink4(8, proto=255) / payload(20), "IPv4 protocol 255")
    for protocol, name in ((17, "UDP"), (6, "TCP"), (1, "ICMP")):
        capture.add_padded(
            uplink4(8, proto=protocol), f"IPv4 protocol {name}, nothing behind the header"
        )
    inner = IP(src=user4(8), dst=outside4(8), id=8)
    capture.add(
        uplink4(8, proto=4) / inner / udp(), "IPv4 in IPv4: not a fault, but not unpacked either"
    )
