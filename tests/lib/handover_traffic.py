#!/usr/bin/env python3
"""Traffic of users that move: a server sends numbered packets to each user, the user
reflects each one to the station that it received it from (a frame for a frame, by the
link that it came by), and the server takes them back.

    handover_traffic.py SERVER-NS UE-NS USERS PACKETS-PER-SECOND STOP-FILE
    handover_traffic.py SERVER-NS UE-NS USERS PACKETS-PER-SECOND -

With STOP-FILE: sends until that exists, waits until all is back or nothing came for 10 s,
and prints one line of JSON: packets sent, at the user, at the server; doubled and out of
order at either; delays there and back in microseconds. Exit code 1 unless each packet came
once and in order at both.

With `-`: each line on standard input asks whether traffic flows. When a packet of every
user that was sent since has come back, or after 60 s, a line of JSON says how it went since
the line before, by user: sent, lost on the way there and in all, when the first and the last
of these were sent, doubled, out of order, and whether it flows. What comes after it was counted as lost counts as out of order. Ends with
its standard input."""

import ctypes
import json
import os
import select
import socket
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
PORT = 5000
FIRST = struct.unpack("!I", socket.inet_aton("10.45.0.1"))[0]
ETH_P_IP = 0x0800
SO_RCVBUFFORCE = 33
ROOM = 16 << 20
QUIET = 10.0
PATIENCE = 60.0


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def make_room(receiver):
    """Lets packets wait for this program, which may not run for a while."""
    try:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM)
    except PermissionError:  # in a user namespace
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)


class Arrivals:
    """What came of one user's packets at one place."""

    def __init__(self):
        self.first = 0  # of the packets that are not accounted for yet
        self.last = -1
        self.seen, self.missing = set(), set()
        self.came = self.doubled = self.disordered = 0

    def arrive(self, number):
        if number in self.seen or number < self.first and number not in self.missing:
            self.doubled += 1
            return
        self.came += 1
        if number < self.last or number < self.first:
            self.disordered += 1
        self.last = max(self.last, number)
        if number < self.first:
            self.missing.discard(number)
        else:
            self.seen.add(number)

    def account(self, until):
        """Those below `until` that have not come, in order; they are accounted for now."""
        lost = sorted(set(range(self.first, until)) - self.seen)
        self.missing.update(lost)
        self.seen = {number for number in self.seen if number >= until}
        self.first = until
        return lost


class Traffic:
    def __init__(self, server_ns, ue_ns, users, rate):
        enter(ue_ns)
        # One for both links: what came first is read first.
        self.radio = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        enter(server_ns)
        self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.bind(("", PORT))
        for one in (self.radio, self.server):
            make_room(one)
            one.setblocking(False)
        self.addresses = [(socket.inet_ntoa(struct.pack("!I", FIRST + user)), PORT) for user in range(users)]
        self.at_ue = [Arrivals() for _ in range(users)]
        self.at_server = [Arrivals() for _ in range(users)]
        self.numbers = [0] * users
        self.sent = 0
        self.delays = []
        self.times = []  # at which packets were sent, of all users in turn
        self.gap = 1.0 / rate
        self.due = self.last = time.monotonic()

    def send(self):
        """Sends the next packet, if it is due."""
        now = time.monotonic()
        if now < self.due:
            return
        # Late is late: the rate is made up for by 16 packets at most.
        self.due = max(self.due + self.gap, now - 16 * self.gap)
        user = self.sent % len(self.numbers)
        head = struct.pack("!IQQ", user, self.numbers[user], time.monotonic_ns())
        try:
            self.server.sendto(head.ljust(64, b"."), self.addresses[user])
        except BlockingIOError:  # packets wait for a gateway that does not answer
            return
        self.numbers[user] += 1
        self.sent += 1
        self.times.append(time.time())

    def take(self, longest, beside=()):
        """Waits until something comes or is due, and takes what has come; those of
        `beside` that can be read."""
        wait = max(0.0, min(longest, self.due - time.monotonic()))
        ready, _, _ = select.select([self.radio, self.server, *beside], [], [], wait)
        if self.radio in ready:
            self.reflect()
        if self.server in ready:
            self.receive()
        return [one for one in ready if one in beside]

    def receive(self):
        while True:
            try:
                data, _ = self.server.recvfrom(2048)
            except BlockingIOError:
                return
            self.last = time.monotonic()
            user, number, then = struct.unpack_from("!IQQ", data)
            self.at_server[user].arrive(number)
            self.delays.append((time.monotonic_ns() - then) // 1000)

    def reflect(self):
        """Gives back what came, by the link that it came by."""
        while True:
            try:
                frame, address = self.radio.recvfrom(2048)
            except BlockingIOError:
                return
            if address[2] == socket.PACKET_OUTGOING or frame[23:24] != b"\x11":
                continue
            self.last = time.monotonic()
            length = (frame[14] & 15) * 4
            udp = 14 + length
            user, number = struct.unpack_from("!IQ", frame, udp + 8)
            self.at_ue[user].arrive(number)
            back = bytearray(frame)
            back[0:6], back[6:12] = frame[6:12], frame[0:6]
            back[26:30], back[30:34] = frame[30:34], frame[26:30]
            back[udp : udp + 4] = frame[udp + 2 : udp + 4] + frame[udp : udp + 2]
            back[22] = 64
            # A checksum in UDP over IPv4 may be absent (RFC 768); that of the header not.
            back[udp + 6 : udp + 8] = b"\0\0"
            back[24:26] = b"\0\0"
            total = sum(struct.unpack_from(f"!{length // 2}H", back, 14))
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            struct.pack_into("!H", back, 24, ~total & 0xFFFF)
            self.radio.sendto(back, (address[0], ETH_P_IP))

    def flows(self, user, since):
        return self.at_server[user].last >= since

    def account(self, since):
        """How it went for each user, up to the last packet that has come back if that is
        one of those that were sent since, and up to these otherwise."""
        said = []
        for user, number in enumerate(since):
            there, back = self.at_ue[user], self.at_server[user]
            until = max(number, back.last + 1)
            one = {"sent": until - there.first, "flows": self.flows(user, number)}
            lost_there, lost = there.account(until), back.account(until)
            one["lost there"], one["lost"] = len(lost_there), len(lost)
            one["lost at"] = [self.times[lost[at] * len(self.numbers) + user] for at in (0, -1)] if lost else None
            for name in ("doubled", "disordered"):
                one[name] = getattr(there, name) + getattr(back, name)
                setattr(there, name, 0)
                setattr(back, name, 0)
            said.append(one)
        return said


def until_stopped(traffic, stop):
    """Traffic until a file exists, and what came of it."""
    stopped = False

    def said(arrivals):
        return {name: sum(getattr(one, name) for one in arrivals) for name in ("came", "doubled", "disordered")}

    while True:
        if not stopped and traffic.sent % 64 == 0:
            stopped = os.path.exists(stop)
        if stopped:
            came = said(traffic.at_server)["came"]
            if came == traffic.sent or time.monotonic() - traffic.last > QUIET:
                break
            traffic.due = time.monotonic() + 0.05
        else:
            traffic.send()
        traffic.take(0.05)

    at_ue, at_server = said(traffic.at_ue), said(traffic.at_server)
    delays = sorted(traffic.delays)
    at = lambda part: delays[min(len(delays) - 1, int(part * len(delays)))] if delays else None
    delay = {"p50": at(0.5), "p99": at(0.99), "most": at(1.0)}
    print(json.dumps({"sent": traffic.sent, "ue": at_ue, "server": at_server, "delay": delay}))
    return 0 if at_ue == at_server == {"came": traffic.sent, "doubled": 0, "disordered": 0} else 1


def as_asked(traffic):
    """Traffic without end, and answers to whoever asks about it."""
    since, deadline = None, 0.0
    while True:
        traffic.send()
        if traffic.take(0.05, [sys.stdin]):
            if not sys.stdin.readline():
                return 0
            since, deadline = list(traffic.numbers), time.monotonic() + PATIENCE
        traffic.delays.clear()
        if since is None:
            continue
        all_flow = all(traffic.flows(user, number) for user, number in enumerate(since))
        if all_flow or time.monotonic() > deadline:
            print(json.dumps(traffic.account(since)), flush=True)
            since = None


def main():
    server_ns, ue_ns, users, rate, stop = sys.argv[1:6]
    traffic = Traffic(server_ns, ue_ns, int(users), float(rate))
    return as_asked(traffic) if stop == "-" else until_stopped(traffic, stop)


if __name__ == "__main__":
    sys.exit(main())
