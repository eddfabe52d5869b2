#!/usr/bin/env python3
"""Runs the golden cases: captures in, captures and counters out, compared exactly.

    run.py [--bless] [--composition HOW] [CASE...]

A case is a folder beside this file, see README.md. $WEFT is the program, by
default target/release/weft. Exit code: 0 all passed, 1 not, 2 nothing could run.
With --composition every function is run that way, and the same must come out.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TSHARK_CLEAN = HERE.parent / "lib" / "tshark-clean.sh"
DEFAULT_WEFT = HERE.parents[1] / "target" / "release" / "weft"
TIMEOUT_S = 120


# A function in a configuration, in either style.
FUNCTION = re.compile(r"(\{|\n +)function: ")


def patient(function: re.Match[str]) -> str:
    """The function, whose process is not taken for a dead one on a machine that is busy."""
    before = function[1]
    return f"{before}process: {{heartbeat: 60000}}{', ' if before == '{' else before}function: "


class CaseError(Exception):
    """Why a case failed, in words for its author."""


# --- captures -----------------------------------------------------------------


@dataclass(frozen=True)
class Packet:
    """One record of a capture."""

    time_ns: int  # since 1970
    frame: bytes
    wire_length: int


def read_capture(path: Path) -> list[Packet]:
    """All packets of a pcap or pcapng file, of either byte order and any time resolution."""
    if not path.exists():
        raise CaseError(f"{path.name} was not written")
    data = path.read_bytes()
    try:
        return list(pcapng_packets(data) if data[:4] == b"\n\r\r\n" else pcap_packets(data))
    except (struct.error, KeyError, IndexError) as error:
        raise CaseError(f"{path.name} is not a whole pcap or pcapng file ({error!r})") from error


def pcap_packets(data: bytes):
    """The packets of a classic pcap file."""
    magics = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # nanoseconds in the unit of the times
    order = "<" if struct.unpack_from("<I", data)[0] in magics else ">"
    unit_ns = magics[struct.unpack_from(order + "I", data)[0]]
    at = 24
    while at < len(data):
        seconds, fraction, length, wire_length = struct.unpack_from(order + "IIII", data, at)
        (frame,) = struct.unpack_from(f"{length}s", data, at + 16)
        yield Packet(seconds * 10**9 + fraction * unit_ns, frame, wire_length)
        at += 16 + length


def pcapng_packets(data: bytes):
    """The packets of a pcapng file; all of them must bear a time."""
    section, interface, simple_packet, enhanced_packet = 0x0A0D0D0A, 1, 3, 6
    at, order, ticks_per_s = 0, "<", []
    while at < len(data):
        (kind,) = struct.unpack_from(order + "I", data, at)
        if kind == section:
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            ticks_per_s = []
        (length,) = struct.unpack_from(order + "I", data, at + 4)
        (body,) = struct.unpack_from(f"{length - 12}s", data, at + 8)
        if kind == interface:
            ticks_per_s.append(resolution(body[8:], order))
        elif kind == enhanced_packet:
            number, high, low, size, wire_length = struct.unpack_from(order + "IIIII", body)
            (frame,) = struct.unpack_from(f"{size}s", body, 20)
            time_ns = (high << 32 | low) * 10**9 // ticks_per_s[number]
            yield Packet(time_ns, frame, wire_length)
        elif kind == simple_packet:
            raise KeyError("a simple packet block has no time")
        at += length


def resolution(options: bytes, order: str) -> int:
    """Ticks per second of a pcapng interface: option if_tsresol, else microseconds."""
    end_of_options, if_tsresol = 0, 9
    at = 0
    while at < len(options):
        code, length = struct.unpack_from(order + "HH", options, at)
        if code == if_tsresol:
            value = options[at + 4]
            return 2 ** (value & 0x7F) if value & 0x80 else 10**value
        if code == end_of_options:
            break
        at += 4 + (length + 3) // 4 * 4
    return 10**6


# --- differences --------------------------------------------------------------


def capture_difference(name: str, expected: list[Packet], got: list[Packet]) -> str | None:
    """The first packet that differs, as an author wants to see it."""
    for number, (old, new) in enumerate(zip(expected, got), 1):
        if old != new:
            return f"{name}: packet {number} differs\n{packet_difference(old, new)}"
    if len(expected) != len(got):
        number = min(len(expected), len(got))
        longer, what = (expected, "missing") if len(expected) > len(got) else (got, "too many")
        first = "\n".join(f"  {line}" for line in hexdump(longer[number].frame))
        counts = f"{len(got)} packets, expected {len(expected)}"
        return f"{name}: {counts}; the first that is {what} is packet {number + 1}:\n{first}"
    return None


def packet_difference(old: Packet, new: Packet) -> str:
    """Time, lengths and octets, each only when it differs; - is expected, + what came."""
    lines = []
    if old.time_ns != new.time_ns:
        lines += [f"- time {seconds(old.time_ns)}", f"+ time {seconds(new.time_ns)}"]
    if old.wire_length != new.wire_length:
        lines += [f"- length {old.wire_length}", f"+ length {new.wire_length}"]
    if old.frame != new.frame:
        lines += frame_difference(old.frame, new.frame)
    return "\n".join(f"  {line}" for line in lines)


def frame_difference(old: bytes, new: bytes) -> list[str]:
    """Both frames line by line, as a diff shows them."""
    pairs = zip(old, new)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))
    lines = [f"first at octet {at} (0x{at:04x})"]
    before, after = hexdump(old), hexdump(new)
    for i in range(max(len(before), len(after))):
        a, b = before[i : i + 1], after[i : i + 1]
        if a == b:
            lines += [f"  {line}" for line in a]
        else:
            lines += [f"- {line}" for line in a] + [f"+ {line}" for line in b]
    return lines


def hexdump(frame: bytes) -> list[str]:
    """Sixteen octets a line."""
    return [f"{at:04x}  {frame[at:at + 16].hex(' ')}" for at in range(0, len(frame), 16)]


def seconds(time_ns: int) -> str:
    """A time in seconds with all its digits."""
    return f"{time_ns // 10**9}.{time_ns % 10**9:09}"


def counter_differences(old, new, path: str = "") -> list[str]:
    """One line for each value that differs, named by its path."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for key in sorted(old.keys() | new.keys())
            for line in counter_differences(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line
            for i, (a, b) in enumerate(zip(old, new))
            for line in counter_differences(a, b, f"{path}[{i}]")
        ]
    # 1, 1.0 and true are equal in Python, but not the same counter.
    if json.dumps(old) == json.dumps(new):
        return []
    return [f"  {path}: expected {json.dumps(old)}, got {json.dumps(new)}"]


# --- accounts -----------------------------------------------------------------


def unaccounted(counters: dict) -> list[str]:
    """Every packet that came in or was made was sent, dropped, or is the node's own."""
    ports = counters["ports"].values()
    functions = counters["functions"].values()
    came = {
        "received": sum(port["rx_packets"] for port in ports),
        "originated": counters["originated"],
        "emitted": counters["emitted"],
        "fragments": counters["fragments"],
    }
    went = {
        "sent": sum(port["tx_packets"] for port in ports),
        "dropped": sum(counters["drops"].values()),
        "dropped by functions": sum(sum(one["drops"].values()) for one in functions),
        "local": counters["local"],
    }
    problems = []
    if sum(came.values()) != sum(went.values()):
        sides = [
            " + ".join(f"{count} {what}" for what, count in side.items()) for side in (came, went)
        ]
        problems.append(f"packets are unaccounted for: {sides[0]} are not {sides[1]}")
    for name, port in counters["ports"].items():
        lost = port["rx_missed"] + port["rx_errors"]
        problems += [f"port {name} lost {lost} packets"] if lost else []
    return problems


# --- a case -------------------------------------------------------------------


class Case:
    """One folder: node.yaml, command, expected/."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.expected = folder / "expected"
        self.arguments: list[str] = []
        self.outputs: list[str] = []
        self.unasked = ""
        words = iter(shlex.split((folder / "command").read_text(), comments=True))
        for word in words:
            self.arguments.append(word)
            if word == "--out":
                port, _, name = next(words, "").partition("=")
                if not name or "/" in name:
                    raise CaseError("command: --out wants PORT=NAME, a name without a folder")
                self.outputs.append(name)
                self.arguments.append(f"{port}={{output}}/{name}")
        if not self.outputs:
            raise CaseError("command: no --out, so there is nothing to compare")

    def compose(self, composition: str | None, output: Path) -> str:
        """The configuration whose functions are run that way."""
        if not composition:
            return "node.yaml"
        text = (self.folder / "node.yaml").read_text()
        node = output / "node.yaml"
        text = text.replace("\nmetadata:", f"\ncomposition: {composition}\nmetadata:", 1)
        if composition == "process":
            text = re.sub(FUNCTION, patient, text)
        node.write_text(text)
        return str(node)

    def replay(self, weft: Path, output: Path, node: str = "node.yaml") -> None:
        """Runs the program; captures and counters.json arrive in `output`."""
        arguments = [word.replace("{output}", str(output)) for word in self.arguments]
        counters = ["--counters", str(output / "counters.json")]
        command = [str(weft), "replay", node, *arguments, *counters]
        try:
            run = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise CaseError(f"weft replay did not end within {TIMEOUT_S} s") from error
        if run.returncode != 0:
            tail = "\n".join(f"  {line}" for line in run.stderr.splitlines()[-12:])
            raise CaseError(f"weft replay ended with {run.returncode}\n{tail}")

    def composed(self, weft: Path, output: Path, how: str) -> list[str]:
        """What differs where functions are run otherwise instead of called."""
        text = (self.folder / "node.yaml").read_text()
        if "\ncomposition:" in text or "\nfunctions:" not in text:
            return []
        node = output / "node.yaml"
        node.write_text(text.replace("\nmetadata:", f"\ncomposition: {how}\nmetadata:", 1))
        self.replay(weft, output, str(node))
        return [f"{how}: {problem}" for problem in self.compare(output)]

    def compare(self, output: Path) -> list[str]:
        """What differs. Counters come first: they say more than the bytes do."""
        problems = []
        old, new = read_json(self.expected / "counters.json"), read_json(output / "counters.json")
        lines = counter_differences(old, new)
        if lines:
            problems.append("counters differ\n" + "\n".join(lines))
        problems += [
            f"expected/{file.name} is not among the --out"
            for file in sorted(self.expected.iterdir())
            if file.suffix != ".bad" and file.name not in (*self.outputs, "counters.json")
        ]
        for name in self.outputs:
            old, new = read_capture(self.expected / name), read_capture(output / name)
            difference = capture_difference(name, old, new)
            problems += [difference] if difference else []
        return problems

    def check(self, output: Path) -> list[str]:
        """What the case's own check finds; it is given the folder of the outputs."""
        if not (self.folder / "check").exists():
            return []
        environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [str((self.folder / "check").absolute()), str(output)]
        run = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True
        )
        return [] if run.returncode == 0 else ["its check finds fault\n" + run.stdout + run.stderr]

    def bless(self, output: Path) -> None:
        """What came is from now on what is expected; lists of bad frames stay."""
        if self.expected.is_symlink():
            raise CaseError("what it expects is another case's: bless that one")
        self.expected.mkdir(exist_ok=True)
        for stale in self.expected.iterdir():
            if stale.suffix != ".bad":
                stale.unlink()
        for name in self.outputs:
            read_capture(output / name)
            shutil.copyfile(output / name, self.expected / name)
        counters = json.dumps(read_json(output / "counters.json"), indent=2, sort_keys=True)
        (self.expected / "counters.json").write_text(counters + "\n")

    def tshark(self, output: Path) -> list[str]:
        """What tshark calls bad in the outputs; `unasked` says why it could not be asked."""
        problems = []
        for name in self.outputs:
            listed = self.expected / f"{name}.bad"
            exceptions = ["--except", str(listed)] if listed.exists() else []
            command = [str(TSHARK_CLEAN), *exceptions, str(output / name)]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode == 1:
                problems.append("tshark finds fault\n" + run.stdout.replace(f"{output}/", "  "))
            elif run.returncode != 0:
                self.unasked = run.stderr.strip()
        return problems


def read_json(path: Path):
    """The parsed file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise CaseError(f"{path.name} was not written") from error
    except ValueError as error:
        raise CaseError(f"{path.name}: {error}") from error


# --- the run ------------------------------------------------------------------


def run_case(folder: Path, weft: Path, bless: bool, composition: str | None = None) -> str:
    """Raises CaseError when it fails; returns why tshark could not be asked, if so."""
    case = Case(folder)
    if not bless and not case.expected.is_dir():
        raise CaseError("has no expected/ yet: look at what comes out, then --bless it")
    with tempfile.TemporaryDirectory(prefix="weft-golden-") as name:
        output = Path(name)
        case.replay(weft, output, case.compose(composition, output))
        problems = [] if bless else case.compare(output)
        problems += unaccounted(read_json(output / "counters.json"))
        # With a composition the bytes are to be those that are judged without it.
        if not composition:
            problems += case.check(output) + case.tshark(output)
        if not bless and not composition:
            for how in ["fused", "thread"]:
                with tempfile.TemporaryDirectory(prefix=f"weft-golden-{how}-") as composed:
                    problems += case.composed(weft, Path(composed), how)
        if problems:
            raise CaseError("\n".join(problem.rstrip() for problem in problems))
        if bless:
            case.bless(output)
    return case.unasked


def run_all(folders: list[Path], weft: Path, bless: bool, composition: str | None = None) -> int:
    """One line for each case, and the closing line; the number of failures."""
    passed = failed = skipped = 0
    # A case waits for other programs, and its time is virtual: one for each core.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(run_case, folder, weft, bless, composition) for folder in folders]
        for folder, run in zip(folders, runs):
            try:
                unasked = run.result()
            except CaseError as error:
                failed += 1
                print(f"fail {folder.name}: {error}")
                continue
            passed += 1
            print(f"pass {folder.name}{' (blessed)' if bless else ''}", flush=True)
            if unasked:
                skipped += 1
                print(f"skip {folder.name}, tshark: {unasked}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed


def stop(why: str) -> None:
    """Ends with exit code 2."""
    print(f"run.py: {why}", file=sys.stderr)
    sys.exit(2)


def main() -> int:
    """See the top."""
    parser = argparse.ArgumentParser(description="Runs the golden cases.")
    parser.add_argument("--bless", action="store_true", help="take what comes as expected")
    parser.add_argument("--composition", help="run every function that way")
    parser.add_argument("--cases", type=Path, default=HERE, help="folder of the cases")
    parser.add_argument("case", nargs="*", help="only these")
    arguments = parser.parse_args()
    weft = Path(os.environ.get("WEFT") or DEFAULT_WEFT).absolute()
    if not os.access(weft, os.X_OK):
        stop(f"{weft} is not there: build it (cargo build --release) or set WEFT")
    if arguments.bless and arguments.composition:
        stop("what is expected does not depend on the composition: --bless without it")
    root = arguments.cases.absolute()
    folders = [root / name for name in arguments.case]
    folders = folders or sorted(command.parent for command in root.glob("*/command"))
    if not folders:
        stop(f"no case under {root}")
    for folder in folders:
        if not (folder / "command").exists():
            stop(f"no case {folder.name} under {root}")
    return 1 if run_all(folders, weft, arguments.bless, arguments.composition) else 0


if __name__ == "__main__":
    sys.exit(main())
