#!/usr/bin/python3
"""A PFCP user plane (3GPP TS 29.244) that carries nothing: it answers requests, and errs on
purpose. `end-to-end/smf.sh` checks by it what `weft smf` finds.

    answering_user_plane.py ADDRESS

Loses each 97th session request twice, refuses each 101st establishment (cause 75), leaves
the F-TEID out of each 103rd and repeats an F-TEID in each 107th; reports downlink data of each
tenth session that becomes idle. Ends with its standard input, and prints what it
did as JSON. Written with struct alone: neither Weft's codec nor a library's.
"""

import json
import select
import socket
import struct
import sys
import time

PORT = 8805
ACCEPTED, NO_CONTEXT, NO_RESOURCES = 1, 65, 75
BUFF = 0x04


def element(number: int, *parts: bytes) -> bytes:
    inside = b"".join(parts)
    return struct.pack("!HH", number, len(inside)) + inside


def message(number: int, sequence: int, seid: int | None, *parts: bytes) -> bytes:
    inside = sequence.to_bytes(3, "big") + b"\0" + b"".join(parts)
    if seid is not None:
        inside = struct.pack("!Q", seid) + inside
    return struct.pack("!BBH", 0x20 | (seid is not None), number, len(inside)) + inside


def elements(octets: bytes):
    while len(octets) >= 4:
        number, length = struct.unpack("!HH", octets[:4])
        yield number, octets[4:4 + length]
        octets = octets[4 + length:]


def first(octets: bytes, *path: int) -> bytes | None:
    """What stands at a path of element types."""
    for number, inside in elements(octets):
        if number == path[0]:
            found = inside if len(path) == 1 else first(inside, *path[1:])
            if found is not None:
                return found
    return None


class UserPlane:
    def __init__(self, address: str) -> None:
        self.address = socket.inet_aton(address)
        self.wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.wire.bind((address, PORT))
        self.sessions = {}  # by our SEID: that of the control plane, numbers of reports
        self.answers = {}  # by sequence number: the bytes, so that nothing is done twice
        self.number = self.teid = self.reported = 0
        self.peer = None  # who spoke last
        self.losses = {}  # by sequence number: how often it is still lost
        self.did = dict.fromkeys(
            ["lost", "refused", "withoutTunnel", "repeatedTunnel", "downlinkData", "established",
             "deleted", "modified", "queried", "endMarkers", "associated", "released"], 0)

    def run(self) -> None:
        while True:
            ready = select.select([self.wire, sys.stdin], [], [])[0]
            if sys.stdin in ready:
                print(json.dumps({**self.did, "left": len(self.sessions)}), flush=True)
                return
            datagram, self.peer = self.wire.recvfrom(65536)
            answer = self.answer(datagram)
            if answer:
                self.wire.sendto(answer, self.peer)

    def answer(self, datagram: bytes) -> bytes | None:
        number = datagram[1]
        at = 12 if datagram[0] & 1 else 4
        seid = struct.unpack("!Q", datagram[4:12])[0] if at == 12 else None
        sequence = int.from_bytes(datagram[at:at + 3], "big")
        if number == 57:
            return None  # an answer to a report of ours
        if number >= 50 and self.loses(sequence):
            return None
        if sequence not in self.answers:
            self.answers[sequence] = self.act(number, sequence, seid, datagram[at + 4:])
            if len(self.answers) > 10_000:
                self.answers.pop(next(iter(self.answers)))
        return self.answers[sequence]

    def loses(self, sequence: int) -> bool:
        if sequence % 97 == 0 and sequence not in self.losses:
            self.losses[sequence] = 2
        if self.losses.get(sequence, 0) == 0:
            return False
        self.losses[sequence] -= 1
        self.did["lost"] += 1
        return True

    def act(self, number: int, sequence: int, seid: int | None, body: bytes) -> bytes:
        node = element(60, b"\0", self.address)
        accepted = element(19, bytes([ACCEPTED]))
        recovery = element(96, struct.pack("!I", 3_900_000_000))
        if number == 1:
            return message(2, sequence, None, recovery)
        if number == 5:
            self.did["associated"] += 1
            return message(6, sequence, None, node, accepted, recovery, element(43, b"\x10\0"))
        if number == 9:
            self.did["released"] += 1
            return message(10, sequence, None, node, accepted)
        if number == 50:
            return self.establish(sequence, node, accepted, body)
        if seid not in self.sessions:
            return message(number + 1, sequence, 0, element(19, bytes([NO_CONTEXT])))
        session = self.sessions[seid]
        if number == 54:
            self.did["deleted"] += 1
            del self.sessions[seid]
            return message(55, sequence, session["remote"], accepted, self.usage(79, session))
        return self.modify(sequence, seid, session, accepted, body)

    def establish(self, sequence: int, node: bytes, accepted: bytes, body: bytes) -> bytes:
        self.number += 1
        remote = struct.unpack("!Q", first(body, 57)[1:9])[0]
        if self.number % 101 == 0:
            self.did["refused"] += 1
            return message(51, sequence, remote, node, element(19, bytes([NO_RESOURCES])))
        self.did["established"] += 1
        self.sessions[self.number] = {"remote": remote, "reports": 0}
        fseid = element(57, b"\2", struct.pack("!Q", self.number), self.address)
        if self.number % 103 == 0:
            self.did["withoutTunnel"] += 1
            return message(51, sequence, remote, node, accepted, fseid)
        others = self.number % 107 == 0 and [one["teid"] for one in self.sessions.values() if "teid" in one]
        if others:
            self.did["repeatedTunnel"] += 1
            teid = others[-1]
        else:
            self.teid += 1
            teid = self.sessions[self.number]["teid"] = self.teid
        fteid = element(21, b"\1", struct.pack("!I", teid), self.address)
        created = element(8, element(56, first(body, 1, 56)), fteid)
        return message(51, sequence, remote, node, accepted, fseid, created)

    def modify(self, sequence: int, seid: int, session: dict, accepted: bytes, body: bytes) -> bytes:
        action = first(body, 10, 44)
        if first(body, 10, 11, 49):
            self.did["endMarkers"] += 1
        if first(body, 77) is not None:
            self.did["queried"] += 1
            return message(53, sequence, session["remote"], accepted, self.usage(78, session))
        self.did["modified"] += 1
        if action and action[0] & BUFF and self.did["modified"] % 10 == 0:
            self.did["downlinkData"] += 1
            self.reported += 1
            report = element(83, element(56, b"\0\2"))
            self.wire.sendto(
                message(56, 1 << 23 | self.reported, session["remote"], element(39, b"\1"), report),
                self.peer)
        return message(53, sequence, session["remote"], accepted)

    def usage(self, number: int, session: dict) -> bytes:
        session["reports"] += 1
        return element(
            number, element(81, struct.pack("!I", 1)), element(104, struct.pack("!I", session["reports"])),
            element(63, b"\x80\0\0"), element(66, b"\7", struct.pack("!QQQ", 30, 10, 20)))


def main() -> None:
    user_plane = UserPlane(sys.argv[1])
    print(json.dumps({"ready": time.time()}), flush=True)
    user_plane.run()


main()
