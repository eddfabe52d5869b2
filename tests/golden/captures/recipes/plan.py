"""The address plan that all captures follow.

    users --- access port [node] core port --- outside

Users are 10.0.0.1-20 and 2001:db8:0:N::/64 with N 1-20 (written in hex, as
addresses are); the outside is 198.51.100.0/24 and 2001:db8:ffff::/64.
"""

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

USERS = 20

ACCESS_MAC = "02:00:00:00:00:01"  # the node's port towards the users
CORE_MAC = "02:00:00:00:00:02"  # the node's port towards the outside
USERS_MAC = "02:00:00:00:01:01"  # what sends for the users
OUTSIDE_MAC = "02:00:00:00:02:01"  # the next router outside

GATEWAY4 = "10.0.0.254"  # the node's own address towards the users
GATEWAY6 = "2001:db8:0:ff::fe"


def user(i: int) -> int:
    """The i-th user in turn, counted from 1."""
    return 1 + i % USERS


def user4(n: int) -> str:
    """IPv4 address of user n."""
    return f"10.0.0.{n}"


def user6(n: int) -> str:
    """First IPv6 address of user n."""
    return f"2001:db8:0:{n:x}::1"


def outside4(n: int) -> str:
    """IPv4 address of outside host n."""
    return f"198.51.100.{n}"


def outside6(n: int) -> str:
    """IPv6 address of outside host n."""
    return f"2001:db8:ffff::{n:x}"


def access() -> Ether:
    """The Ethernet header of a frame that enters at the access port."""
    return Ether(src=USERS_MAC, dst=ACCESS_MAC)


def core() -> Ether:
    """The Ethernet header of a frame that enters at the core port."""
    return Ether(src=OUTSIDE_MAC, dst=CORE_MAC)


def uplink4(n: int, **fields) -> Packet:
    """Ethernet and IPv4 from user n; `fields` override those of the IPv4 header."""
    return access() / IP(**{"src": user4(n), "dst": outside4(n), "id": n, **fields})


def uplink6(n: int, **fields) -> Packet:
    """Ethernet and IPv6 from user n; `fields` override those of the IPv6 header."""
    return access() / IPv6(**{"src": user6(n), "dst": outside6(n), **fields})


def downlink4(n: int, **fields) -> Packet:
    """Ethernet and IPv4 towards user n."""
    return core() / IP(**{"src": outside4(n), "dst": user4(n), "id": n, **fields})


def downlink6(n: int, **fields) -> Packet:
    """Ethernet and IPv6 towards user n."""
    return core() / IPv6(**{"src": outside6(n), "dst": user6(n), **fields})


def payload(length: int, first: int = 0) -> bytes:
    """A counting pattern: a byte that was moved or lost shows in a diff."""
    return bytes((first + i) & 0xFF for i in range(length))


def octets(count: int) -> str:
    """The count with its noun, for notes."""
    return "1 octet" if count == 1 else f"{count} octets"
