#!/usr/bin/python3
"""Writes the input captures of the golden tests; the same bytes every time.

    make.py            writes them beside this file
    make.py --check    makes them anew elsewhere and compares

Debian's Python by its path: Debian's python3-scapy is a module of that one.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from recipes import (
    bursts,
    downlink_mix,
    esp_plain,
    esp_tunnels,
    fragments,
    gtpu,
    iphc_flows,
    iphc_link,
    ipv4_mix,
    ipv6_mix,
    lwaftr_internet,
    lwaftr_softwires,
    malformed,
    nat_inside,
    nat_outside,
    neighbours,
    vlan,
)

HERE = Path(__file__).resolve().parent
RECIPES = {
    "ipv4-mix": ipv4_mix,
    "ipv6-mix": ipv6_mix,
    "vlan": vlan,
    "fragments": fragments,
    "malformed": malformed,
    "downlink-mix": downlink_mix,
    "bursts": bursts,
    "neighbours": neighbours,
    "gtpu": gtpu,
    "esp-tunnels": esp_tunnels,
    "esp-plain": esp_plain,
    "iphc-flows": iphc_flows,
    "iphc-link": iphc_link,
    "lwaftr-softwires": lwaftr_softwires,
    "lwaftr-internet": lwaftr_internet,
    "nat-inside": nat_inside,
    "nat-outside": nat_outside,
}


def write_all(folder: Path) -> None:
    """Writes every capture and its side files."""
    for name, recipe in RECIPES.items():
        recipe.build().write(folder, name)


def differences(fresh: Path, committed: Path) -> list[str]:
    """One line for each file of `fresh` that `committed` lacks or has with other content."""
    lines = []
    for file in sorted(fresh.iterdir()):
        other = committed / file.name
        if not other.exists():
            lines.append(f"{file.name}: not committed")
        elif other.read_bytes() != file.read_bytes():
            lines.append(f"{file.name}: differs from what make.py writes")
    return lines


def main() -> int:
    """Exit code 1 when --check finds a difference."""
    arguments = argparse.ArgumentParser(
        description="Writes the input captures of the golden tests."
    )
    arguments.add_argument("--check", action="store_true", help="compare instead of writing")
    if not arguments.parse_args().check:
        write_all(HERE)
        return 0
    with tempfile.TemporaryDirectory(prefix="weft-captures-") as fresh:
        write_all(Path(fresh))
        lines = differences(Path(fresh), HERE)
    for line in lines:
        print(f"make.py: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
