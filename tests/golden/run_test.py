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
    port = {{"rx_packets": 0, "tx_packets": 0, "rx_missed": 0, "rx_errors": 0}}
    ports = {{"access": {{**port, "rx_packets": 252}}, "core": {{**port, "tx_packets": 249}}}}
    own = {{"local": 0, "originated": 0, "emitted": 0, "fragments": 0}}
    counters = {{"ports": ports, "functions": {{}}, "drops": {{"ttl_exceeded": 3}}, **own}}
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
        self.spoil("counters['drops']['ttl_exceeded'] = 4; counters['emitted'] = 1.0")
        self.fails("drops.ttl_exceeded: expected 3, got 4", "emitted: expected 0, got 1.0")

    def test_new_counter(self):
        self.bless()
        self.spoil("counters['drops']['no_rule'] = 0")
        self.fails("drops.no_rule: expected null, got 0")

    def refuses_to_bless(self, *words: str) -> None:
        """It said each of `words` and left nothing behind."""
        run = self.run_py("--bless")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        for word in words:
            self.assertIn(word, run.stdout)
        self.assertFalse((self.case / "expected").exists())

    def test_packets_must_be_accounted_for(self):
        self.spoil("counters['local'] = 1")
        self.refuses_to_bless("unaccounted for: 252 received", "249 sent + 3 dropped", "1 local")
        self.spoil("counters['originated'] = 1; counters['functions']['a'] = {'drops': {'b': 1}}")
        self.bless()

    def test_no_port_may_lose_packets(self):
        self.spoil("counters['ports']['core']['rx_missed'] = 2")
        self.refuses_to_bless("port core lost 2 packets")

    def test_check_of_the_case(self):
        check = self.case / "check"
        check.write_text("#!/bin/sh\ntest -s $1/core.pcap && echo red is green && exit 1\n")
        check.chmod(0o755)
        self.refuses_to_bless("its check finds fault", "red is green")
        check.write_text("#!/bin/sh\ntest -s $1/core.pcap\n")
        self.bless()

    def test_expected_of_another_case(self):
        self.bless()
        expected, other = self.case / "expected", self.root / "other"
        expected.rename(other)
        expected.symlink_to(other)
        self.assertEqual(self.run_py().returncode, 0)
        run = self.run_py("--bless")
        self.assertEqual(run.returncode, 1)
        self.assertIn("another case's", run.stdout)

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
        self.refuses_to_bless("core.pcap: frame 1: ")

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


def main() -> int:
    """Runs the tests and closes with the line that all tests close with."""
    result = unittest.main(exit=False).result
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
