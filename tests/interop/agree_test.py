#!/usr/bin/python3
"""Whether the two control planes say the same: both get the same commands, a user plane
that is none looks at what they send and answers both alike.

    agree_test.py [PROGRAM-OF-THE-ONE-IN-GO]

Without the program only the one on Scapy is looked at. Prints a line a check and a
closing line. agree.sh builds that program and starts this.
"""

import json
import os
import socket
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
PORT = 8805
GROUPS = {1, 2, 3, 4, 6, 7, 9, 10, 11, 13, 14, 15, 16, 17, 18, 77, 85, 86, 87}
# Their lengths are those of releases: octets of 0 at the end say nothing.
GROWN = {37, 38, 44, 89, 95}
NETWORK_INSTANCE = 22

RULES = {
    "createPdr": [
        {"id": 1, "precedence": 255, "removal": 0, "far": 1, "urr": [1], "qer": [1, 2],
         "pdi": {"source": "access", "fteid": {"choose": "v4v6", "chooseId": 7},
                 "instance": "access", "ue4": "10.45.0.1", "qfi": [9]}},
        {"id": 2, "precedence": 128, "far": 2, "urr": [1],
         "pdi": {"source": "core", "instance": "internet", "ue4": "10.45.0.1", "ue6": "2001:db8:45::/64",
                 "routes": ["192.168.7.0/24 192.168.7.1 1"],
                 "sdf": [{"flow": "permit out 17 from 198.51.100.0/24 5000-6000 to assigned", "id": 5}]}},
        {"id": 3, "precedence": 1, "removal": 1, "far": 1,
         "pdi": {"source": "access", "fteid": {"teid": 0x1234, "ipv6": "2001:db8::1"},
                 "ue6": "2001:db8:46::/56", "application": "video"}},
    ],
    "createFar": [
        {"id": 1, "apply": ["FORW"], "forward": {"destination": "core", "instance": "internet", "marking": 0xB8FC}},
        {"id": 2, "apply": ["BUFF", "NOCP"], "bar": 1},
        {"id": 3, "apply": ["FORW"], "forward": {"destination": "access", "policy": "chain",
                                                "header": {"teid": 0x6000, "ipv4": "10.0.0.1"}}},
        {"id": 4, "apply": ["DROP"]},
        {"id": 5, "apply": ["FORW"], "forward": {"destination": "core", "redirect": "http://portal.example/"}},
    ],
    "createQer": [
        {"id": 1, "gate": {"uplink": "open", "downlink": "closed"}, "mbr": {"uplink": 1000, "downlink": 1 << 33},
         "gbr": {"uplink": 10, "downlink": 20}, "qfi": 9, "correlation": 77},
        {"id": 2, "gate": {"uplink": "open", "downlink": "open"}},
    ],
    "createUrr": [
        {"id": 1, "method": ["VOLUM", "DURAT"], "triggers": ["PERIO", "VOLTH", "TIMTH", "START", "VOLQU"], "period": 10,
         "volumeThreshold": {"total": 1 << 40, "uplink": 1}, "volumeQuota": {"downlink": 2}, "timeThreshold": 60,
         "information": ["MNOP"], "linked": [2]},
        {"id": 2, "method": ["VOLUM"], "triggers": ["LIUSA"], "timeQuota": 9, "holdingTime": 8},
    ],
    "createBar": [{"id": 1, "delay": 2, "count": 100}],
    "inactivity": 30,
    "pdnType": 3,
}
CHANGES = {
    "updatePdr": [{"id": 1, "far": 3, "qer": [2]}],
    "updateFar": [{"id": 2, "apply": ["FORW"],
                   "forward": {"destination": "access", "header": {"teid": 0x7000, "ipv6": "2001:db8::2"},
                               "endMarker": True}}],
    "updateQer": [{"id": 1, "mbr": {"uplink": 5, "downlink": 6}}],
    "updateUrr": [{"id": 1, "triggers": ["VOLTH"], "volumeThreshold": {"total": 5}}],
    "updateBar": [{"id": 1, "count": 9}],
    "removePdr": [3], "removeFar": [4], "removeQer": [2], "removeUrr": [2], "removeBar": [1],
}
COMMANDS = [
    {"do": "associate", "recovery": 1700000000},
    {"do": "heartbeat"},
    {"do": "establish", "session": "ue", "rules": RULES},
    {"do": "modify", "session": "ue", "rules": CHANGES, "query": [1, 2]},
    {"do": "modify", "session": "ue", "queryAll": True},
    {"do": "delete", "session": "ue"},
    {"do": "release", "node": "smf.example"},
]


def element(number: int, *parts: bytes) -> bytes:
    inside = b"".join(parts)
    return struct.pack("!HH", number, len(inside)) + inside


def message(number: int, sequence: int, seid: int | None, *parts: bytes) -> bytes:
    inside = sequence.to_bytes(3, "big") + b"\0" + b"".join(parts)
    if seid is not None:
        inside = struct.pack("!Q", seid) + inside
    return struct.pack("!BBH", 0x20 | (seid is not None), number, len(inside)) + inside


CAUSE = element(19, b"\x01")
NODE = element(60, b"\0" + socket.inet_aton("127.0.0.3"))
RECOVERY = element(96, struct.pack("!I", 1700000000 + 2208988800))
USAGE = (
    element(81, struct.pack("!I", 1)), element(104, struct.pack("!I", 3)), element(63, b"\x82\x02\x20"),
    element(66, b"\x3f", struct.pack("!6Q", 60, 20, 40, 6, 2, 4)), element(67, struct.pack("!I", 12)),
)
ANSWERS = {
    1: (RECOVERY,),
    5: (NODE, CAUSE, RECOVERY, element(43, b"\x15\x0d\x40\x01")),
    50: (NODE, CAUSE, element(57, b"\x02", struct.pack("!Q", 0xABCD), socket.inet_aton("127.0.0.3")),
         element(8, element(56, b"\0\x01"), element(21, b"\x03", struct.pack("!I", 99),
                 socket.inet_aton("10.0.0.254"), socket.inet_pton(socket.AF_INET6, "2001:db8::fe")))),
    52: (CAUSE, element(78, *USAGE)),
    54: (CAUSE, element(79, *USAGE)),
    9: (NODE, CAUSE),
}
REPORT = message(56, 500, 1, element(39, b"\x01"), element(83, element(56, b"\0\x02")), element(80, *USAGE))


def parse(octets: bytes) -> list:
    """Elements as (type, content), groups as lists, in an order of ours."""
    found = []
    while octets:
        number, length = struct.unpack("!HH", octets[:4])
        inside, octets = octets[4:4 + length], octets[4 + length:]
        assert len(inside) == length, f"element {number} ends early"
        if number in GROWN:
            inside = inside.rstrip(b"\0")
        if number == NETWORK_INSTANCE and inside[0] == len(inside) - 1:
            inside = inside[1:]  # Scapy writes the labels of an APN, go-pfcp text; §8.2.4 permits both
        found.append((number, parse(inside) if number in GROUPS else inside.hex()))
    return sorted(found, key=repr)


class Speaker:
    """One of the control planes, and a user plane that is none opposite."""

    def __init__(self, program: list) -> None:
        self.wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.wire.bind(("127.0.0.3", PORT))
        self.wire.settimeout(30)
        self.process = subprocess.Popen(
            [*program, "127.0.0.2", "127.0.0.3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.event()

    def event(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def say(self, command: dict) -> None:
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def asks(self, command: dict) -> tuple:
        """What goes over the wire, and what the answer is told as."""
        self.say(command)
        datagram, peer = self.wire.recvfrom(65536)
        flags, number, length = struct.unpack("!BBH", datagram[:4])
        assert length == len(datagram) - 4, "wrong length"
        at = 12 if flags & 1 else 4
        seid = datagram[4:at].hex()
        sequence = int.from_bytes(datagram[at:at + 3], "big")
        self.wire.sendto(message(number + 1, sequence, 1 if flags & 1 else None, *ANSWERS[number]), peer)
        told = self.event()
        for key in ("ms", "sequence"):
            told.pop(key)
        return (flags, number, seid, parse(datagram[at + 4:])), told

    def reported(self) -> tuple:
        """What is told of a report, and the answer to it; the same to its repetition."""
        answers, told = [], []
        for _ in range(2):
            self.wire.sendto(REPORT, ("127.0.0.2", PORT))
            answers.append(self.wire.recv(65536).hex())
            told.append(self.event())
        return answers, told

    def sends_again(self) -> list:
        self.say({"do": "heartbeat"})
        sent = [self.wire.recv(65536) for _ in range(2)]
        return [sent[0] == sent[1], parse(sent[0][8:])]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.wire.close()


def run(program: list) -> dict:
    """By the name of a step, what this control plane said."""
    speaker = Speaker(program)
    said = {}
    for number, command in enumerate(COMMANDS):
        said[f"{number + 1}: {command['do']}"] = speaker.asks(command)
        if command["do"] == "establish":
            said["a report, twice"] = speaker.reported()
    said["a request without an answer"] = speaker.sends_again()
    speaker.close()
    return said


def main() -> int:
    scapy = run([f"{HERE}/scapy_control_plane.py"])
    passed = failed = skipped = 0
    expected = scapy["3: establish"][1]["created"] == [
        {"pdr": 1, "teid": 99, "ipv4": "10.0.0.254", "ipv6": "2001:db8::fe"}]
    if len(sys.argv) < 2:
        print("skip both say the same: the control plane in Go is not built")
        skipped = 1
        other = {}
    else:
        other = run([os.path.realpath(sys.argv[1])])
    for step, said in other.items():
        if said == scapy[step]:
            print(f"pass both say the same, {step}")
            passed += 1
        else:
            print(f"fail both say the same, {step}: go-pfcp {said}, Scapy {scapy[step]}")
            failed += 1
    print(f"{'pass' if expected else 'fail'} an F-TEID is read{'' if expected else ': ' + str(scapy)}")
    passed, failed = passed + expected, failed + (not expected)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


sys.exit(main())
