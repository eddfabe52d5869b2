"""What comes to a node in two IPsec tunnels, sealed by Scapy: packets of every length modulo
the alignment, replays, late ones, and each fault; the notes say what becomes of each."""

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import _ESPPlain
from scapy.packet import Packet, Raw

from .capture import Capture
from .esp_plan import NODE4, PEER4, SHORT_IN, to_node
from .plan import access, outside4, outside6, payload, user4, user6

TAKEN = "taken"
WINDOW = 64


def build() -> Capture:
    """Both tunnels, then the faults of the first."""
    capture = Capture()
    tunnels = to_node()
    for part in (lengths, order, congestion, inside, outside):
        part(capture, tunnels)
    capture.side_files["esp-tunnels.txt"] = capture.notes("what becomes of ESP packets")
    return capture


def inner4(length: int, **fields) -> Packet:
    """From user 1."""
    return IP(src=user4(1), dst=outside4(1), **fields) / UDP(sport=1000, dport=53) / payload(length)


def inner6(length: int, **fields) -> Packet:
    """From user 2."""
    return IPv6(src=user6(2), dst=outside6(1), **fields) / UDP(sport=1000, dport=53) / payload(length)


class Numbers:
    """The next sequence number of each tunnel."""

    next = {4096: 0, 4097: 0}

    @classmethod
    def take(cls, spi: int) -> int:
        """The next one."""
        cls.next[spi] += 1
        return cls.next[spi]


def seal(tunnels, spi: int, packet: Packet, number: int | None = None) -> Packet:
    """The packet in its tunnel; the vector is not the number, so that it is not taken for that."""
    number = number or Numbers.take(spi)
    vector = (number ^ 0x5A5A_0000_0000_0000).to_bytes(8, "big")
    return tunnels[spi].encrypt(packet, seq_num=number, iv=vector)


def lengths(capture: Capture, tunnels) -> None:
    """Every padding, small and large, both versions inside of each tunnel, other protocols."""
    Numbers.next = {4096: 0, 4097: 0}
    for spi in tunnels:
        for length in (0, 1, 2, 3, 4, 5, 100, 1379):
            capture.add(access() / seal(tunnels, spi, inner4(length)), TAKEN)
            capture.add(access() / seal(tunnels, spi, inner6(length)), TAKEN)
        ports = TCP(sport=1000, dport=443, flags="S")
        capture.add(access() / seal(tunnels, spi, IP(src=user4(1), dst=outside4(2)) / ports), TAKEN)
        echo = IP(src=user4(1), dst=outside4(2), tos=0xB8) / ICMP() / payload(12)
        capture.add(access() / seal(tunnels, spi, echo), TAKEN)
        capture.add_padded(access() / seal(tunnels, spi, inner4(0)), TAKEN)


def order(capture: Capture, tunnels) -> None:
    """Out of order, doubled, and beyond the window of 64."""
    for spi in tunnels:
        last = Numbers.next[spi] + 100
        Numbers.next[spi] = last
        capture.add(access() / seal(tunnels, spi, inner4(1), last), TAKEN)
        for number, fate in (
            (last, "esp_replayed"),
            (last - 5, TAKEN),
            (last - 5, "esp_replayed"),
            (last - WINDOW + 1, TAKEN),
            # An extended number that is left of the window can only be one ahead.
            (last - WINDOW, "esp_late" if spi == 4096 else "esp_bad_icv"),
            (1, "esp_late" if spi == 4096 else "esp_bad_icv"),
        ):
            capture.add(access() / seal(tunnels, spi, inner4(2), number), fate)


def congestion(capture: Capture, tunnels) -> None:
    """Every field inside and outside (RFC 6040 §4.2)."""
    for inner in range(4):
        for outer in range(4):
            frame = access() / seal(tunnels, 4096, inner4(9, tos=0x28 | inner))
            frame[IP].tos = outer
            del frame[IP].chksum
            fate = "esp_congestion" if (inner, outer) == (0, 3) else TAKEN
            capture.add(frame, fate)


def raw(tunnels, text: bytes, padding: bytes, next_header: int) -> Packet:
    """A packet of user 1's tunnel with any cleartext and padding."""
    number = Numbers.take(4096)
    tunnel = tunnels[4096]
    plain = _ESPPlain(spi=4096, seq=number, iv=number.to_bytes(8, "big"))
    plain.data, plain.padding, plain.padlen, plain.nh = text, padding, len(padding), next_header
    sealed = tunnel.crypt_algo.encrypt(tunnel, plain, SHORT_IN[:16], None, esn_en=False, esn=0)
    return access() / IP(src=PEER4, dst=NODE4) / sealed


def inside(capture: Capture, tunnels) -> None:
    """What only shows once a packet is open."""
    whole = bytes(inner4(2))
    assert len(whole) % 4 == 2
    capture.add(raw(tunnels, whole, b"", 4), TAKEN)
    capture.add(raw(tunnels, whole, bytes((1, 2, 3, 4)), 4), TAKEN)
    capture.add(raw(tunnels, whole + bytes(40), b"", 4), TAKEN)  # filled up (RFC 4303 §2.7)
    capture.add(raw(tunnels, whole, bytes((1, 2, 3, 3)), 4), "esp_padding")
    capture.add(raw(tunnels, bytes(66), b"", 59), "esp_dummy")
    capture.add(raw(tunnels, whole[20:], b"", 17), "esp_next_header")
    capture.add(raw(tunnels, whole, b"", 41), "esp_inner_malformed")
    capture.add(raw(tunnels, whole[:26], b"", 4), "esp_inner_malformed")
    damaged = whole[:10] + bytes((whole[10] ^ 1,)) + whole[11:]
    capture.add(raw(tunnels, damaged, b"", 4), "esp_inner_malformed")


def outside(capture: Capture, tunnels) -> None:
    """What shows before: other protocols, lengths, peers, check values, fragments."""
    good = bytes(access() / seal(tunnels, 4096, inner4(20)))
    for place in (42, 60, len(good) - 1):
        wrong = bytearray(good)
        wrong[place] ^= 0x10
        capture.add(bytes(wrong), "esp_bad_icv")
    capture.add(good, TAKEN)  # nothing of the wrong ones was believed
    header = IP(src=PEER4, dst=NODE4, proto=50)
    capture.add(access() / header / Raw((4096).to_bytes(4, "big") + bytes(30)), "esp_malformed")
    short = (4096).to_bytes(4, "big") + Numbers.take(4096).to_bytes(4, "big")
    capture.add(access() / header / Raw(short + bytes(8 + 5 + 16)), "esp_malformed")
    other = seal(tunnels, 4096, inner4(3))
    other[IP].src = "10.0.0.102"
    del other[IP].chksum
    capture.add(access() / other, "esp_wrong_peer")
    piece = IP(src=PEER4, dst=NODE4, proto=50, flags="MF")
    capture.add(access() / piece / Raw((4096).to_bytes(4, "big") + bytes(60)), "esp_fragment")
