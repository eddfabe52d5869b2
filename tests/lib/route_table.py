#!/usr/bin/env python3
"""A table of routes like the Internet's, and whether a router chooses as the kernel does.

    route_table.py make FOLDER          batches for ip(8), addresses, and captures to them
    route_table.py compare FOLDER       what came out of each port, next to what the kernel says

The same every time. In FOLDER: add4 and add6 are batches that fill a table, get4 and
get6 ask for the route of each address, in.pcap has a packet to each. compare wants
the answers in got4 and got6, and what left by next hop N in hopN.pcap.
"""

import re
import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))

from run import read_capture  # noqa: E402

HOPS = 8
PREFIXES_V4, PREFIXES_V6 = 500_000, 20_000
ADDRESSES_V4, ADDRESSES_V6 = 100_000, 10_000
# How many of a thousand prefixes have which length, as in the Internet's tables.
LENGTHS_V4 = {8: 1, 12: 1, 14: 2, 16: 14, 17: 8, 18: 14, 19: 26, 20: 46, 21: 54, 22: 112,
              23: 100, 24: 600, 25: 4, 26: 5, 27: 4, 28: 3, 29: 2, 30: 1, 32: 3}  # fmt: skip
LENGTHS_V6 = {28: 10, 29: 90, 32: 150, 36: 50, 40: 80, 44: 60, 46: 20, 48: 490, 56: 20, 64: 20, 128: 10}


def prefixes(random: Random, bits: int, count: int, lengths: dict[int, int]) -> list[tuple[int, int]]:
    """Addresses and lengths; half of them lie in a prefix that is there already."""
    found, order = set(), []
    drawn = iter(random.choices(list(lengths), list(lengths.values()), k=2 * count))
    firsts = [first for first in range(1, 224) if first not in (10, 127)]
    while len(order) < count:
        length = next(drawn)
        if bits == 32:
            address = random.choice(firsts) << 24 | random.getrandbits(24)
        else:
            address = 0x2 << 124 | random.getrandbits(20) << 96 | random.getrandbits(96)
        if order and random.random() < 0.5:
            outer, outer_length = random.choice(order)
            inside = (1 << (bits - outer_length)) - 1
            address = outer | address & inside
        address = address >> (bits - length) << (bits - length)
        if (address, length) not in found:
            found.add((address, length))
            order.append((address, length))
    return order


def addresses(random: Random, bits: int, count: int, table: list[tuple[int, int]]) -> list[int]:
    """Half of them in prefixes of the table, half anywhere; each is there once."""
    found = set()
    while len(found) < count:
        if random.random() < 0.5:
            prefix, length = random.choice(table)
            found.add(prefix | random.getrandbits(bits) & ((1 << (bits - length)) - 1))
        elif bits == 32:
            found.add(random.randrange(11 << 24, 127 << 24))
        else:
            found.add(0x2 << 124 | random.getrandbits(124))
    return sorted(found)


def route(random: Random, prefix: str, via: str) -> str:
    """A route to one of the next hops, or one that ends packets."""
    kind = random.random()
    if kind < 0.01:
        return f"route add blackhole {prefix}"
    if kind < 0.02:
        return f"route add unreachable {prefix}"
    return f"route add {prefix} via {via}{random.randrange(HOPS) + 1:x} dev core"


def make(folder: Path) -> None:
    """All files that the kernel and the router begin with."""
    random = Random(9)
    packets = []
    families = [
        ("4", 32, IPv4Address, PREFIXES_V4, ADDRESSES_V4, LENGTHS_V4, "10.255.0."),
        ("6", 128, IPv6Address, PREFIXES_V6, ADDRESSES_V6, LENGTHS_V6, "fd00::"),
    ]
    for name, bits, kind, count, asked, lengths, via in families:
        table = prefixes(random, bits, count, lengths)
        lines = [route(random, f"{kind(prefix)}/{length}", via) for prefix, length in table]
        lines.append(f"route add default via {via}1 dev core")
        (folder / f"add{name}").write_text("\n".join(lines) + "\n")
        found = [kind(address) for address in addresses(random, bits, asked, table)]
        (folder / f"get{name}").write_text("".join(f"route get {one}\n" for one in found))
        packets += [packet(one) for one in found]
    with (folder / "in.pcap").open("wb") as capture:
        capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(packets):
            capture.write(struct.pack("<IIII", number // 10**6, number % 10**6, len(frame), len(frame)))
            capture.write(frame)


def packet(to: IPv4Address | IPv6Address) -> bytes:
    """A frame without payload."""
    link = bytes.fromhex("020000000001020000000101")
    if to.version == 6:
        header = struct.pack("!IHBB", 6 << 28, 0, 59, 64) + IPv6Address("fd00:1::9").packed
        return link + b"\x86\xdd" + header + to.packed
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20, 0, 0, 64, 253, 0) + bytes([10, 254, 0, 9]) + to.packed
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return link + b"\x08\x00" + header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]


def compare(folder: Path) -> int:
    """Each address by its own next hop, and nothing of those that have none."""
    kernel = {}
    for name in ("got4", "got6"):
        for line in (folder / name).read_text().splitlines():
            said = re.match(r"(\S+) (?:from :: )?via (\S+) dev core", line)
            if said:
                kernel[ip_address(said[1])] = int(said[2][-1], 16)
    chosen = {}
    for hop in range(1, HOPS + 1):
        for one in read_capture(folder / f"hop{hop}.pcap"):
            is_v4 = one.frame[12:14] == b"\x08\x00"
            to = ip_address(one.frame[30:34] if is_v4 else one.frame[38:54])
            chosen[to] = hop
    asked = ADDRESSES_V4 + ADDRESSES_V6
    other = [one for one in kernel.keys() | chosen.keys() if kernel.get(one) != chosen.get(one)]
    print(f"{asked} addresses, {len(kernel)} with a next hop, {len(other)} chosen otherwise")
    for one in other[:10]:
        print(f"{one}: the kernel says {kernel.get(one)}, the router {chosen.get(one)}")
    enough = len(kernel) > asked * 9 // 10 and len(set(kernel.values())) == HOPS
    return 0 if enough and not other else 1


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    sys.exit(make(where) if what == "make" else compare(where))
