"""What comes over a link with compressed headers (RFC 2507): every form, put together here
octet by octet, and every fault.

A note says what becomes of a frame: `inside` and the packet that it stands for, or `drop` and
the reason.
"""

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop, RouterAlert
from scapy.packet import Packet, Raw

from .capture import Capture
from .plan import core, outside4, outside6, payload, user4, user6

IPV4, FULL, DELTA, OTHER, WHOLE, STATE = 0x0021, 0x0061, 0x0063, 0x0065, 0x2063, 0x2065
SESSION = 1  # that of user 1
FLOWS = 512  # context identifiers other than TCP's, in node.yaml


def build() -> Capture:
    """All parts, one after another."""
    capture = Capture()
    for part in (plain, datagrams, wide, special, segments, lost, malformed, flood):
        part(capture)
    title = "iphc-link.pcap: what becomes of each frame"
    capture.side_files["iphc-link.txt"] = capture.notes(title)
    return capture


def send(capture: Capture, protocol: int, octets: bytes, fate: Packet | str) -> None:
    """Adds a frame of the session; `fate` is the packet it stands for, or a reason."""
    length = len(octets) + 2
    head = bytes([0x11, 0]) + number(SESSION) + number(length) + number(protocol)
    note = f"drop {fate}" if isinstance(fate, str) else f"inside {bytes(fate).hex()}"
    link = core()
    link.type = 0x8864
    capture.add_padded(bytes(link) + head + octets, note)


def number(value: int) -> bytes:
    """Of 16 bits."""
    return (value % 65536).to_bytes(2, "big")


def delta(value: int) -> bytes:
    """A difference (RFC 1144 §3.2.3)."""
    value %= 65536
    return bytes([value]) if 0 < value < 256 else b"\0" + number(value)


def fields(packet: Packet, first: int, second: int) -> bytes:
    """The packet with other octets in its two outermost length fields (§5.3.2)."""
    octets = bytearray(bytes(packet))
    outer = 2 if octets[0] >> 4 == 4 else 4
    octets[outer : outer + 2] = number(first)
    if UDP in packet:
        at = len(octets) - len(packet[UDP]) + 4
        octets[at : at + 2] = number(second)
    return bytes(octets)


def datagram(i: int, size: int = 20, version: int = 4) -> Packet:
    """To user 1."""
    udp = UDP(sport=5004, dport=6000) / payload(size, i)
    if version == 4:
        return IP(src=outside4(1), dst=user4(1), id=i * 257 % 65536) / udp
    return IPv6(src=outside6(1), dst=user6(1)) / IPv6ExtHdrHopByHop() / udp


def checksum(packet: Packet) -> bytes:
    """Of UDP or TCP."""
    at = 6 if UDP in packet else 16
    return bytes(packet[UDP if UDP in packet else TCP])[at : at + 2]


def compressed(packet: Packet, generation: int) -> bytes:
    """What stands behind the context identifier of a datagram (§6 c)."""
    identification = number(packet.id) if IP in packet else b""
    return bytes([generation]) + identification + checksum(packet) + packet[UDP].payload.load


def plain(capture: Capture) -> None:
    """Headers that were left alone."""
    send(capture, IPV4, bytes(datagram(1)), IP(bytes(datagram(1))))


def datagrams(capture: Capture) -> None:
    """Generations of a flow over each IP."""
    for version, cid in ((4, 3), (6, 4)):
        send(capture, OTHER, bytes([cid]) + compressed(datagram(1, 20, version), 5),
             "iphc_unknown_context")
        first = datagram(2, 30, version)
        send(capture, FULL, fields(first, 5 << 8 | cid, 0), first)
        for i in (3, 4):
            packet = datagram(i, 5 * i, version)
            send(capture, OTHER, bytes([cid]) + compressed(packet, 5), packet)
        send(capture, OTHER, bytes([cid]) + compressed(datagram(5, 20, version), 6),
             "iphc_stale_generation")
        send(capture, FULL, fields(first, 6 << 8 | cid, 0), first)
        packet = datagram(6, 20, version)
        send(capture, OTHER, bytes([cid]) + compressed(packet, 6), packet)


def wide(capture: Capture) -> None:
    """Context identifiers of 16 bits."""
    first, packet = datagram(7), datagram(8)
    send(capture, FULL, fields(first, 0x8000 | 9 << 8, 300), first)
    body = compressed(packet, 0x80 | 9)
    send(capture, OTHER, bytes([300 >> 8, body[0], 300 & 0xFF]) + body[1:], packet)


def special(capture: Capture) -> None:
    """Headers and extension headers that are sent as they are (§7.3 to §7.13)."""
    options(capture)
    extensions(capture)
    # A fragment in a tunnel: its header is sent whole, the outer one not at all.
    for i in (1, 2):
        inner = IP(src=outside4(1), dst=user4(1), id=i, flags="MF", frag=i, proto=17) / payload(16)
        packet = IPv6(src=outside6(1), dst=user6(1), nh=4) / inner
        if i == 1:
            octets = bytearray(bytes(packet))
            octets[4:6], octets[42:44] = number(9 << 8 | 30), bytes(2)
            send(capture, FULL, bytes(octets), packet)
        else:
            send(capture, OTHER, bytes([30, 9]) + bytes(inner), packet)


def options(capture: Capture) -> None:
    """Options of IPv4. Those that come may be more than those of the context (§7.13 b)."""
    for i, words in enumerate((1, 2, 1), 3):
        packet = with_options(i, words)
        head = 20 + 4 * words
        if i == 3:
            octets = bytearray(bytes(packet))
            octets[2:4], octets[head + 4 : head + 6] = number(5 << 8 | 20), bytes(2)
            send(capture, FULL, bytes(octets), packet)
        else:
            octets = bytes(packet)
            send(capture, OTHER, bytes([20, 5]) + octets[:head] + octets[head + 6 :], packet)
    # A context with options is none for a header without them, nor for a fragment.
    octets = bytearray(bytes(with_options(6, 1)))
    for place, value in ((0, 0x45), (6, 0x20)):
        other = octets.copy()
        other[place] = value
        send(capture, OTHER, bytes([20, 5]) + other[:24] + other[30:], "iphc_malformed")


def with_options(i: int, words: int) -> Packet:
    """To user 1, with so many words of options."""
    header = IP(src=outside4(1), dst=user4(1), id=i, ihl=5 + words)
    header.options = [Raw(bytes([1] * 4 * words))]
    return header / UDP(sport=5004, dport=6001) / payload(20, i)


def extensions(capture: Capture) -> None:
    """Extension headers of two packets, and which octets of the second's are sent."""
    udp = UDP(sport=5004, dport=6002)
    cases = [
        # A fragment header, which ends the chain (§7.6).
        (44, "1100000900000abc", "1100003100000abd", (2, 8), Raw(b"U" * 20)),
        # A security payload: the SPI is all that is compressed (§7.10).
        (50, "0000007700000001", "0000007700000002", (4, 8), Raw(b"f" * 20)),
        # Options: a router alert and padding (§7.3).
        (0, "1100050200000100", "1100050200010100", (4, 6), udp / payload(20)),
    ]
    for cid, (kind, first, second, (begin, end), data) in enumerate(cases, 21):
        for octets in (first, second):
            middle = bytes.fromhex(octets)
            ip = IPv6(src=outside6(1), dst=user6(1), nh=kind)
            if kind == 0:
                extension = IPv6ExtHdrHopByHop(options=[RouterAlert(value=middle[5])])
                packet, behind = ip / extension / data, udp_behind(ip / extension / data)
            else:
                packet, behind = ip / Raw(middle) / data, bytes(data)
            if octets == first:
                send(capture, FULL, fields(packet, 7 << 8 | cid, 0), packet)
            else:
                send(capture, OTHER, bytes([cid, 7]) + middle[begin:end] + behind, packet)
    authenticated(capture)


def udp_behind(packet: Packet) -> bytes:
    """What of UDP is sent: its checksum, and the data."""
    return bytes(packet[UDP])[6:]


def authenticated(capture: Capture) -> None:
    """An authentication header over IPv4 (§7.9), in front of TCP: so IPv4 is no unit with
    TCP, and its identification is RANDOM (§6 a)."""
    tcp = TCP(sport=443, dport=50001, seq=5000, ack=9, flags="A")
    for i in (1, 2):
        tcp.seq = 5000 + 20 * (i - 1)
        sealed = bytes((IP(src=outside4(1), dst=user4(1)) / tcp / payload(20, i))[TCP])
        middle = bytes([6, 4, 0, 0, 0, 0, 0, 0x77]) + bytes([i]) * 16
        packet = IP(src=outside4(1), dst=user4(1), id=i * 300, proto=51) / Raw(middle + sealed)
        if i == 1:
            send(capture, FULL, fields(packet, 9, 0), packet)
        else:
            # The sequence number by the data before: S, A, W and U.
            changes = number(i * 300) + middle[8:]
            octets = bytes([9, 0x0F]) + sealed[16:18] + changes + sealed[20:]
            send(capture, DELTA, octets, packet)


def segment(sequence: int, i: int, size: int = 100, **changes) -> Packet:
    """To user 1."""
    ip = {"id": i, "tos": changes.pop("tos", 0)}
    values = {"sport": 443, "dport": 50000, "seq": sequence, "ack": 9, "flags": "A"} | changes
    return IP(src=outside4(1), dst=user4(1), **ip) / TCP(**values) / payload(size, i)


def tcp(cid: int, flags: int, packet: Packet, changes: bytes = b"") -> bytes:
    """COMPRESSED_TCP (§6 a)."""
    return bytes([cid, flags]) + checksum(packet) + changes + bytes(packet[TCP].payload)


def segments(capture: Capture) -> None:
    """Each bit of COMPRESSED_TCP, R O I P S A W U."""
    first = segment(1000, 1)
    send(capture, FULL, fields(first, 7, 0), first)
    cases = [
        (0x0F, segment(1100, 2), b""),
        (0x1F, segment(1200, 3, flags="PA"), b""),
        (0x0B, segment(1300, 4, ack=109), b""),
        (0x08, segment(1390, 5, ack=109), delta(90)),
        (0x0C, segment(1490, 6, ack=409), delta(300) + delta(100)),
        (0x2F, segment(1590, 1000, ack=409), delta(994)),
        (0x0A, segment(1690, 1001, ack=409, window=8000), delta(8000 - 8192) + delta(100)),
        (0x09, segment(1790, 1002, ack=409, window=8000, flags="UA", urgptr=500),
         delta(500) + delta(100)),
        # The R octet leaves the context as it was: the next one has none.
        (0x8F, segment(1890, 1003, ack=409, window=8000, tos=3, flags="CEA", urgptr=500), b"\x0f"),
        (0x0F, segment(1990, 1004, ack=409, window=8000, urgptr=500), b""),
    ]
    for flags, packet, changes in cases:
        send(capture, DELTA, tcp(7, flags, packet, changes), packet)
    # Behind a FIN in a full header, ACK is inferred to be 1 and FIN to be 0 (§7.12.1).
    first = segment(7000, 1100, ack=409, window=8000, flags="F", dport=50002)
    send(capture, FULL, fields(first, 6, 0), first)
    packet = segment(7100, 1101, ack=409, window=8000, dport=50002)
    send(capture, DELTA, tcp(6, 0x0F, packet), packet)


def lost(capture: Capture) -> None:
    """A segment that does not come: what follows is dropped until TCP comes whole."""
    behind = {"ack": 409, "window": 8000, "urgptr": 500}
    send(capture, DELTA, tcp(7, 0x08, segment(2250, 1006, **behind), delta(80)), "iphc_damaged")
    send(capture, DELTA, tcp(7, 0x0F, segment(2350, 1007, **behind)), "iphc_damaged")
    packet = segment(2450, 1008, **behind)
    send(capture, WHOLE, bytes([7]) + number(1008) + bytes(packet[TCP])[4:], packet)
    packet = segment(2550, 1009, **behind)
    send(capture, DELTA, tcp(7, 0x0F, packet), packet)
    send(capture, DELTA, tcp(8, 0x0F, packet), "iphc_unknown_context")
    # Ten milliseconds later one request is for all that were lost meanwhile.
    capture.now_us += 10_000
    send(capture, DELTA, tcp(9, 0x0F, packet), "iphc_damaged")
    # It was asked for.
    send(capture, STATE, bytes([3, 1, 5]), "iphc_request")


def malformed(capture: Capture) -> None:
    """What has no form."""
    whole = segment(2650, 1010, ack=409, window=8000, urgptr=500)
    send(capture, DELTA, tcp(7, 0x6F, whole)[:4], "iphc_malformed")
    send(capture, WHOLE, bytes([7]) + number(1010) + bytes(whole[TCP])[4:12], "iphc_malformed")
    send(capture, WHOLE, bytes([7]), "iphc_malformed")
    send(capture, OTHER, bytes([3]), "iphc_malformed")
    send(capture, OTHER, bytes([3, 6, 1]), "iphc_malformed")
    send(capture, FULL, fields(datagram(9), 3, 0)[:24], "iphc_malformed")
    send(capture, FULL, b"", "iphc_malformed")
    send(capture, STATE, bytes([3, 9, 5]), "iphc_malformed")
    send(capture, 0x0067, bytes(20), "iphc_malformed")
    other = datagram(9)
    octets = bytearray(fields(other, 3, 0))
    octets[10] ^= 1
    send(capture, FULL, bytes(octets), "iphc_damaged")
    # The contexts are as they were.
    packet = datagram(10)
    send(capture, OTHER, bytes([3]) + compressed(packet, 6), packet)


def flood(capture: Capture) -> None:
    """More contexts than there may be: those beyond are delivered and not kept."""
    for cid in range(FLOWS - 10, FLOWS + 10):
        packet = datagram(cid)
        send(capture, FULL, fields(packet, 0x8000 | 1 << 8, cid), packet)
    for cid in (FLOWS - 1, FLOWS):
        packet = datagram(11)
        body = compressed(packet, 0x80 | 1)
        octets = bytes([cid >> 8, body[0], cid & 0xFF]) + body[1:]
        send(capture, OTHER, octets, packet if cid < FLOWS else "iphc_unknown_context")
