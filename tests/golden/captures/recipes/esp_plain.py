"""What the outside sends to users whose packets go into IPsec tunnels."""

from scapy.layers.inet import ICMP, TCP, UDP

from .capture import Capture
from .plan import downlink4, downlink6, payload

SENT = "sent"


def build() -> Capture:
    """Every padding, sizes around what a tunnel takes, classes, and hops that are used up."""
    capture = Capture()
    ports = UDP(sport=53, dport=1000)
    for length in (0, 1, 2, 3, 4, 5, 200, 1370):
        capture.add(downlink4(1) / ports / payload(length), SENT)
        capture.add(downlink6(2) / ports / payload(length), SENT)
    for tos in range(0, 256, 37):
        capture.add(downlink4(1, tos=tos) / TCP(sport=443, flags="SA"), SENT)
        capture.add(downlink6(2, tc=tos) / TCP(sport=443, flags="SA"), SENT)
    capture.add_padded(downlink4(1) / ICMP() / payload(3), SENT)
    capture.add(downlink4(1, ttl=1) / ports, "esp_ttl_exceeded")
    capture.add(downlink6(2, hlim=1) / ports, "esp_ttl_exceeded")
    # 1500 - 20 - 16 - 16 is 1448, less a trailer of 2; over IPv6 20 octets less.
    for length, fate in ((1446, SENT), (1447, "esp_too_big")):
        capture.add(downlink4(1, flags="DF") / ports / payload(length - 28), fate)
    for length, fate in ((1426, SENT), (1427, "esp_too_big")):
        capture.add(downlink6(2) / ports / payload(length - 48), fate)
    capture.side_files["esp-plain.txt"] = capture.notes("what becomes of packets for tunnels")
    return capture
