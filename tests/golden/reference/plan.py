"""The address plan of the captures (captures/recipes/plan.py), as the checks of cases need it."""

from ipaddress import ip_address, ip_network

from .node import Port

USERS = range(1, 21)


def access(**other) -> Port:
    """The routed port towards the users."""
    return Port("access", mac="02:00:00:00:00:01", next_hop="02:00:00:00:01:01", **other)


def core(**other) -> Port:
    """The routed port towards the outside."""
    return Port("core", mac="02:00:00:00:00:02", next_hop="02:00:00:00:02:01", **other)


def user(address: bytes) -> int | None:
    """The number of the user with the address; None where it is no user's."""
    if address[:3] == bytes((10, 0, 0)) and len(address) == 4:
        number = address[3]
    elif address[:6] == bytes.fromhex("20010db80000"):
        number = int.from_bytes(address[6:8], "big")
    else:
        return None
    return number if number in USERS else None


def is_in(address: bytes, prefix: str) -> bool:
    """Whether the prefix holds the address."""
    return ip_address(address) in ip_network(prefix)


def moved(address: bytes, *translations: tuple[str, str]) -> bytes:
    """The address with its first bits replaced, by the first (from, to) whose `from` holds it."""
    for before, after in translations:
        if is_in(address, before):
            host = int.from_bytes(address, "big") & int(ip_network(before).hostmask)
            network = int(ip_network(after).network_address)
            return (network | host).to_bytes(len(address), "big")
    return address
