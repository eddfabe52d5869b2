#!/usr/bin/env python3
"""Checks run.py with a stand-in for weft that copies input to output, or spoils it."""

import os
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
CAPTURES = HERE / "captures"

# Copies the n-th --in to the n-th --out, then does what node.yaml says.
STAND_IN = """\
    #!{python}
    import json, pathlib, sys
    words = sys.argv[1:]
    assert words[:2] == ["replay", "node.yaml"], words
    spoil = pathlib.Path("node.yaml").read_text()
    files = {{"--in": [], "--out": [], "--counters": []}}
    for flag, value in zip(words[2::2], words[3::2]):
        files[flag].append(value.partition("=")[2] or value)
    counters = {{"drops": {{"ttl_exceeded": 3}}, "ports": [{{"name": "access", "packets": 1}}]}}
    for source, target in zip(files["--in"], files["--out"]):
        data = bytearray(pathlib.Path(source).read_bytes())
        exec(spoil)
        pathlib.Path(target).write_bytes(data)
    pathlib.Path(files["--counters"][0]).write_text(json.dumps(counters))
"""
SECOND_PACKET = 24 + 16 + 60  # ipv4-mix.pcap begins with a frame of 60 octets


class GoldenRun(unittest.TestCase):
    """Each test makes one case, blesses it, changes something, and runs it again."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.weft = self.root / "weft"
        self.weft.write_text(textwrap.dedent(STAND_IN).format(python=sys.executable))
        self.weft.chmod(0o755)
        self.case = self.root / "cases" / "copy"
        self.case.mkdir(parents=True)
        command = f"--in access={CAPTURES}/ipv4-mix.pcap # as it is\n--out core=core.pcap\n"
        (self.case / "command").write_text(command)
        self.spoil("")

    def spoil(self, statement: str) -> None:
        """What the stand-in does to `data` and `counters` of each output."""
        (self.case / "node.yaml").write_text(statement)

    def run_py(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(HERE / "run.py"), "--cases", str(self.case.parent)]
        environment = {**os.environ, "WEFT": str(self.weft)}
        return subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True
        )

    def fails(self, *words: str) -> None:
        """It ran, failed, and said each of `words`."""
        run = self.run_py()
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        for word in words:
            self.assertIn(word, run.stdout)
        self.assertTrue(run.stdout.endswith("0 passed, 1 failed, 0 skipped\n"), run.stdout)

    def bless(self) -> None:
        run = self.run_py("--bless")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_blessed_case_passes(self):
        self.bless()
        run = self.run_py()
        self.assertEqual(run.stdout, "pass copy\n1 passed, 0 failed, 0 skipped\n")
        self.assertEqual(run.returncode, 0)

    def test_unblessed_case_fails(self):
        self.fails("no expected/ yet")

    def test_changed_octet(self):
        self.bless()
        self.spoil(f"data[{SECOND_PACKET} + 16 + 20] ^= 1")
        self.fails(
            "packet 2 differs", "first at octet 20 (0x0014)", "- 0010  ", "tshark finds fault"
        )

    def test_changed_time(self):
        self.bless()
        self.spoil(f"data[{SECOND_PACKET} + 4] += 1")
        self.fails("packet 2 differs", "- time 1700000000.000100000", "+ time 1700000000.000101000")

    def test_missing_packet(self):
        self.bless()
        self.spoil("del data[24 : 24 + 16 + 60]")
        self.fails("packet 1 differs")

    def test_missing_last_packets(self):
        self.bless()
        self.spoil(f"del data[{SECOND_PACKET}:]")
        self.fails("core.pcap: 1 packets, expected 252", "missing is packet 2")

    def test_cut_capture(self):
        self.bless()
        self.spoil("del data[-1:]")
        self.fails("fail copy: ")

    def test_changed_counter(self):
        self.bless()
        self.spoil("counters['drops']['ttl_exceeded'] = 4; counters['ports'][0]['packets'] = 1.0")
        self.fails("drops.ttl_exceeded: expected 3, got 4", "ports[0].packets: expected 1, got 1.0")

    def test_new_counter(self):
        self.bless()
        self.spoil("counters['drops']['no_rule'] = 0")
        self.fails("drops.no_rule: expected null, got 0")

    def test_expected_capture_without_output(self):
        self.bless()
        (self.case / "expected" / "access.pcap").write_bytes(b"")
        self.fails("expected/access.pcap is not among the --out")

    def test_failing_program(self):
        self.bless()
        self.spoil("sys.exit('node.yaml:1:1: no such port')")
        self.fails("weft replay ended with 1\n", "no such port")

    def test_bad_checksum_is_not_blessed(self):
        self.spoil("data[24 + 16 + 24] ^= 1")
        run = self.run_py("--bless")
        self.assertEqual(run.returncode, 1)
        self.assertIn("core.pcap: frame 1: ", run.stdout)
        self.assertFalse((self.case / "expected").exists())

    def test_listed_bad_checksum(self):
        self.spoil("data[24 + 16 + 24] ^= 1")
        (self.case / "expected").mkdir()
        (self.case / "expected" / "core.pcap.bad").write_text("1 # spoilt\n")
        self.bless()
        self.assertEqual(self.run_py().returncode, 0)

    def test_nothing_to_run(self):
        for arguments in (("nonsense",), ("--cases", str(self.root / "weft"))):
            run = self.run_py(*arguments)
            self.assertEqual(run.returncode, 2)
            self.assertIn("run.py: no case", run.stderr)

    def test_pcapng_in_both_byte_orders(self):
        self.bless()
        for order in "<>":
            self.spoil(f"data[:] = bytes.fromhex('{self.as_pcapng(order).hex()}')")
            run = self.run_py()
            self.assertEqual(run.returncode, 0, run.stdout)

    def as_pcapng(self, order: str) -> bytes:
        """ipv4-mix.pcap with a nanosecond interface behind one of microseconds."""

        def block(kind, body):
            body += bytes(-len(body) % 4)
            size = struct.pack(order + "I", len(body) + 12)
            return struct.pack(order + "I", kind) + size + body + size

        data = (CAPTURES / "ipv4-mix.pcap").read_bytes()
        section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
        interface = struct.pack(order + "HHI", 1, 0, 0)
        nanoseconds = struct.pack(order + "HHB3xHH", 9, 1, 9, 0, 0)
        out = block(0x0A0D0D0A, section) + block(1, interface) + block(1, interface + nanoseconds)
        at = 24
        while at < len(data):
            seconds, micros, size, wire = struct.unpack_from("<IIII", data, at)
            time = (seconds * 10**6 + micros) * 1000
            header = struct.pack(order + "IIIII", 1, time >> 32, time & 0xFFFFFFFF, size, wire)
            out += block(6, header + data[at + 16 : at + 16 + size])
            at += 16 + size
        return out


if __name__ == "__main__":
    unittest.main()
