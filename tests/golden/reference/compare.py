"""What came out of a node, next to what should have."""

import sys
from pathlib import Path

from run import capture_difference, counter_differences, read_capture, read_json

from .node import Node

WORDS = ("drops", "local", "originated", "fragments")


def judge(node: Node, **files: str) -> None:
    """Ends a check; `files` are the outputs by port. The folder is the program's argument."""
    folder = Path(sys.argv[1])
    problems = []
    for port, name in files.items():
        difference = capture_difference(name, node.sent[port], read_capture(folder / name))
        problems += [difference] if difference else []
    problems += counters_that_differ(node, read_json(folder / "counters.json"))
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)


def counters_that_differ(node: Node, counters: dict) -> list[str]:
    """Packets and bytes of the ports, drops by reason, and what the node itself did."""
    dropped = {name: one["drops"] for name, one in counters["functions"].items() if one["drops"]}
    got = {word: counters[word] for word in WORDS} | {"functions": dropped, "ports": {}}
    expected = {
        "drops": {reason: count for reason, count in node.drops.items() if ": " not in reason},
        "local": node.local,
        "originated": node.originated,
        "fragments": node.fragments,
        "functions": {},
        "ports": {},
    }
    for reason, count in node.drops.items():
        function, colon, word = reason.partition(": ")
        if colon:
            expected["functions"].setdefault(function, {})[word] = count
    for port in node.ports:
        seen = counters["ports"][port.name]
        got["ports"][port.name] = [seen["rx_packets"], seen["tx_packets"], seen["tx_bytes"]]
        sent = node.sent[port.name]
        size = sum(len(packet.frame) for packet in sent)
        expected["ports"][port.name] = [node.received[port.name], len(sent), size]
    return counter_differences(expected, got)
