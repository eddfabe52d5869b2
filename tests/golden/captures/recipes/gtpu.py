"""GTP-U (TS 29.281) from a base station: every header combination, both IP versions outside
and inside, what the node itself answers, and what it must not let through.

A note says what becomes of a frame: `inside` and the IP packet that leaves the tunnel with one
hop less, `answer`, `nothing`, or `drop` and the reason.
"""

from scapy.contrib.gtp import GTP_U_Header, GTPEchoRequest, GTPPDUSessionContainer
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw

from .capture import Capture
from .plan import USERS, access, outside4, outside6, payload, user, user4, user6

STATION4, NODE4 = "192.0.2.10", "192.0.2.1"
STATION6, NODE6 = "2001:db8:e::10", "2001:db8:e::1"
FIRST_TEID = 0x1000
PORT = 2152


def teid(n: int) -> int:
    """The TEID of user n."""
    return FIRST_TEID + n - 1


def build() -> Capture:
    """All parts, one after another."""
    capture = Capture()
    for part in (headers, packets, paths, unknown, spoofed, malformed):
        part(capture)
    capture.side_files["gtpu.txt"] = capture.notes("gtpu.pcap: what becomes of each frame at a UPF")
    return capture


def outer(version: int, source_port: int = PORT) -> Packet:
    """From the base station to the node, up to UDP."""
    udp = UDP(sport=source_port, dport=PORT)
    if version == 4:
        return access() / IP(src=STATION4, dst=NODE4) / udp
    return access() / IPv6(src=STATION6, dst=NODE6) / udp


def inner(version: int, n: int, size: int = 48, hops: int = 64) -> Packet:
    """A datagram of user n."""
    data = UDP(sport=40000, dport=5001) / payload(size, n)
    if version == 4:
        return IP(src=user4(n), dst=outside4(n), id=n, ttl=hops) / data
    return IPv6(src=user6(n), dst=outside6(n), hlim=hops) / data


def forwarded(packet: Packet) -> str:
    """The note of a packet that leaves its tunnel."""
    after = packet.copy()
    if IP in after:
        after[IP].ttl -= 1
    else:
        after[IPv6].hlim -= 1
    return f"inside {bytes(after).hex()}"


def g_pdu(tunnel: int, optional: bytes, flags: int, packet: Packet | bytes, kind: int = 255) -> Raw:
    """A message octet by octet: `optional` is all between TEID and packet."""
    body = optional + bytes(packet)
    head = bytes([0x30 | flags, kind]) + len(body).to_bytes(2, "big") + tunnel.to_bytes(4, "big")
    return Raw(head + body)


# Flags, and the octets between TEID and packet.
COMBINATIONS = (
    (0x00, ""),
    (0x02, "0102 00 00"),  # sequence number
    (0x01, "0000 07 00"),  # N-PDU number
    (0x03, "0102 07 00"),
    (0x02, "0102 00 85"),  # a next type that means nothing without its flag
    (0x04, "0000 00 00"),  # no extension header in spite of the flag
    (0x04, "0000 00 85 01 10 05 00"),  # PDU session container, uplink
    (0x06, "0102 00 c0 01 beef 00"),  # PDCP number
    (0x07, "0102 07 20 01 0700 85 01 1009 00"),  # service class, container
    (0x04, "0000 00 84 02 000000000100 82 02 030201000000 00"),  # RAN container, long PDCP number
    (0x04, "0000 00 3f 01 aabb 7f 01 ccdd 00"),  # unknown, and no receiver must know them
    (0x08, ""),  # the spare bit
)


def headers(capture: Capture) -> None:
    """Every combination of optional parts, of both versions outside and inside."""
    i = 0
    for flags, octets in COMBINATIONS:
        for outside in (4, 6):
            for inside in (4, 6):
                n, i = user(i), i + 1
                packet = inner(inside, n)
                message = g_pdu(teid(n), bytes.fromhex(octets), flags, packet)
                capture.add(outer(outside) / message, forwarded(packet))


def packets(capture: Capture) -> None:
    """Scapy's own GTP-U; sizes and protocols inside; source ports outside."""
    for n in range(1, USERS + 1):
        packet = inner(4, n, size=64 * n)
        header = GTP_U_Header(teid=teid(n)) / GTPPDUSessionContainer(type=1, QFI=n)
        capture.add(outer(4, source_port=49152 + n) / header / packet, forwarded(packet))
    for size in (0, 1, 1000, 1400):
        packet = inner(6, 3, size=size)
        capture.add_padded(outer(4) / g_pdu(teid(3), b"", 0, packet), forwarded(packet))
    tcp = IP(src=user4(5), dst=outside4(5), id=5) / TCP(sport=41000, dport=443, flags="S")
    capture.add(outer(6) / g_pdu(teid(5), b"", 0, tcp), forwarded(tcp))
    last = g_pdu(teid(6), b"", 0, inner(4, 6, hops=1))
    capture.add(outer(4) / last, "drop ttl_exceeded")


def paths(capture: Capture) -> None:
    """Echo Requests from two ports, and an End Marker."""
    for version in (4, 6):
        for source_port in (PORT, 50000):
            echo = GTP_U_Header(teid=0, S=1, seq=source_port & 0xFF) / GTPEchoRequest()
            capture.add(outer(version, source_port) / echo, "answer")
    capture.add(outer(4) / g_pdu(teid(1), b"", 0, b"", kind=254), "drop end_marker")
    # An Echo Response, an Error Indication and an unknown type are not answered.
    for kind, octets in ((2, "0e00"), (26, "1000001000 850004 c000020a"), (99, "")):
        body = bytes.fromhex("00010000" + octets)
        capture.add(outer(4) / g_pdu(0, body, 0x02, b"", kind=kind), "nothing")


def unknown(capture: Capture) -> None:
    """TEIDs of no tunnel, and an extension header that all must know."""
    for version in (4, 6):
        message = g_pdu(0xDEAD0000 + version, b"", 0, inner(4, 1))
        capture.add(outer(version, 50001) / message, "drop unknown_teid")
    capture.add(outer(4) / g_pdu(0, b"", 0, inner(4, 1)), "drop unknown_teid")
    for kind, reason in (("c1", "gtpu_extension_unknown"), ("bf", "unknown_extension")):
        octets = bytes.fromhex(f"0000 00 {kind} 01 aabb 00")
        message = g_pdu(teid(2), octets, 0x04, inner(4, 2))
        capture.add(outer(4) / message, f"drop {reason}")


def spoofed(capture: Capture) -> None:
    """Addresses of another user, and of the node itself, tunnels in tunnels among them."""
    for version in (4, 6):
        message = g_pdu(teid(2), b"", 0, inner(version, 3))
        capture.add(outer(4) / message, "drop spoofed_address")
    nested = IP(src=user4(2), dst=NODE4) / UDP(sport=PORT, dport=PORT)
    nested /= g_pdu(teid(3), b"", 0, inner(4, 3))
    capture.add(outer(4) / g_pdu(teid(2), b"", 0, nested), "drop tunnelled_to_us")
    loopback = IP(src=user4(2), dst="127.0.0.1") / UDP()
    capture.add(outer(4) / g_pdu(teid(2), b"", 0, loopback), "drop martian")


def malformed(capture: Capture) -> None:
    """A message cut off at every octet of its header; versions; extension chains; no packet."""
    whole = bytes(g_pdu(teid(4), bytes.fromhex("0000008501100500"), 0x04, inner(4, 4)))
    bad = [whole[:end] for end in range(17)]
    bad += [bytes([0x50]) + whole[1:], bytes([0x24]) + whole[1:]]
    bad.append(whole[:2] + b"\xff\xff" + whole[4:])
    bad.append(bytes(g_pdu(teid(4), bytes.fromhex("00000085 00100500"), 0x04, inner(4, 4))))
    bad.append(bytes(g_pdu(teid(4), bytes.fromhex("00000085 01200500"), 0x04, inner(4, 4))))
    chain = bytes.fromhex("00000020" + "01000020" * 20 + "01000000")
    bad.append(bytes(g_pdu(teid(4), chain, 0x04, inner(4, 4))))
    for message in bad:
        capture.add(outer(4) / Raw(message), "drop gtpu_malformed")
    for inside in (b"", b"\x75" + bytes(40)):
        capture.add(outer(4) / g_pdu(teid(4), b"", 0, inside), "drop gtpu_payload_unknown")
    short = bytes(inner(4, 4))[:-1]
    capture.add(outer(4) / g_pdu(teid(4), b"", 0, short), "drop ipv4_malformed")
