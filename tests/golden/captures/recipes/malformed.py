"""Wrong on purpose, layer by layer; every frame has one fault unless its note says more.

A header checksum is right wherever it is not itself the fault, so that a node
cannot drop a frame for the wrong reason and look right.
"""

from scapy.layers.inet import UDP

from . import malformed_ipv4, malformed_ipv6, malformed_link, malformed_transport
from .capture import Capture
from .plan import downlink4, payload, uplink4, uplink6


def build() -> Capture:
    """All layers between two well-formed datagrams; the notes become malformed.txt."""
    capture = Capture()
    well_formed(capture)
    for layer in (malformed_link, malformed_ipv4, malformed_ipv6, malformed_transport):
        layer.add(capture)
    well_formed(capture)
    capture.side_files["malformed.txt"] = capture.notes(
        "malformed.pcap: what is wrong with each frame"
    )
    return capture


def well_formed(capture: Capture) -> None:
    """What must come through before and after the rest."""
    udp = UDP(sport=40000, dport=5001)
    capture.add(uplink4(1) / udp / payload(32), "nothing: well-formed IPv4")
    capture.add(uplink6(1) / udp / payload(32), "nothing: well-formed IPv6")
    capture.add(
        downlink4(1) / udp / payload(32), "nothing: well-formed IPv4, addressed to the core port"
    )
