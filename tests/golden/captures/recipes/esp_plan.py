"""The two IPsec tunnels of the ESP captures: security associations of both directions."""

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation

SALT = bytes.fromhex("f0f1f2f3")
# User, SPI towards the node, SPI from it, key of each, and whether numbers are extended.
SHORT_IN = bytes(range(16)) + SALT
SHORT_OUT = bytes(range(16, 32)) + SALT
LONG_IN = bytes(range(32)) + SALT
LONG_OUT = bytes(range(32, 64)) + SALT

PEER4, NODE4 = "10.0.0.101", "10.0.0.253"
PEER6, NODE6 = "2001:db8:0:ff::65", "2001:db8:0:ff::fd"


def association(spi: int, key: bytes, tunnel, extended: bool) -> SecurityAssociation:
    """As Scapy has it."""
    return SecurityAssociation(
        ESP, spi=spi, crypt_algo="AES-GCM", crypt_key=key, tunnel_header=tunnel, esn_en=extended
    )


def to_node() -> dict[int, SecurityAssociation]:
    """By SPI: user 1 over IPv4 with 128 bits, user 2 over IPv6 with 256 and extended numbers."""
    return {
        4096: association(4096, SHORT_IN, IP(src=PEER4, dst=NODE4), False),
        4097: association(4097, LONG_IN, IPv6(src=PEER6, dst=NODE6), True),
    }


def from_node() -> dict[int, SecurityAssociation]:
    """By SPI."""
    return {
        8192: association(8192, SHORT_OUT, IP(src=NODE4, dst=PEER4), False),
        8193: association(8193, LONG_OUT, IPv6(src=NODE6, dst=PEER6), True),
    }
