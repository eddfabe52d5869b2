#!/usr/bin/env python3
"""Traffic of users that move: a server sends numbered packets to each user, the user
reflects each one to the station that it received it from (a frame for a frame, by the
link that it came by), and the server takes them back.

    handover_traffic.py SERVER-NS UE-NS LINK,LINK USERS PACKETS-PER-SECOND STOP-FILE

Sends until STOP-FILE exists, waits until all is back or nothing came for 3 s, and prints
one line of JSON: packets sent, at the user, at the server; doubled and out of order at
either; delays there and back in microseconds. Exit code 1 unless each packet came once
and in order at both."""

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
QUIET = 3.0


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


class Order:
    """What came of each user's packets at one place."""

    def __init__(self, users):
        self.last = [-1] * users
        self.seen = [set() for _ in range(users)]
        self.came = self.doubled = self.disordered = 0

    def arrive(self, user, number):
        if number in self.seen[user]:
            self.doubled += 1
            return
        self.seen[user].add(number)
        self.came += 1
        if number < self.last[user]:
            self.disordered += 1
        self.last[user] = max(self.last[user], number)

    def said(self):
        return {"came": self.came, "doubled": self.doubled, "disordered": self.disordered}


def reflect(link, at_ue):
    """Gives back what came by one link."""
    while True:
        try:
            frame, address = link.recvfrom(2048)
        except BlockingIOError:
            return
        if address[2] == socket.PACKET_OUTGOING or frame[23:24] != b"\x11":
            continue
        length = (frame[14] & 15) * 4
        udp = 14 + length
        user, number = struct.unpack_from("!IQ", frame, udp + 8)
        at_ue.arrive(user, number)
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
        link.send(back)


def main():
    server_ns, ue_ns, links, users, rate, stop = sys.argv[1:7]
    users, gap = int(users), 1.0 / float(rate)
    enter(ue_ns)
    radios = []
    for name in links.split(","):
        radio = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        radio.bind((name, ETH_P_IP))
        radio.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        radio.setblocking(False)
        radios.append(radio)
    enter(server_ns)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    server.bind(("", PORT))
    server.setblocking(False)

    addresses = [(socket.inet_ntoa(struct.pack("!I", FIRST + user)), PORT) for user in range(users)]
    at_ue, at_server = Order(users), Order(users)
    numbers, delays, sent = [0] * users, [], 0
    due, last, stopped = time.monotonic(), time.monotonic(), False
    while True:
        now = time.monotonic()
        if not stopped and sent % 64 == 0:
            stopped = os.path.exists(stop)
        if stopped and (at_server.came == sent or now - last > QUIET):
            break
        if not stopped and now >= due:
            # Late is late: the rate is made up for by 16 packets at most.
            due = max(due + gap, now - 16 * gap)
            user = sent % users
            head = struct.pack("!IQQ", user, numbers[user], time.monotonic_ns())
            server.sendto(head.ljust(64, b"."), addresses[user])
            numbers[user] += 1
            sent += 1
        wait = 0.05 if stopped else max(0.0, due - time.monotonic())
        ready, _, _ = select.select([*radios, server], [], [], min(wait, 0.05))
        for one in ready:
            last = time.monotonic()
            if one is not server:
                reflect(one, at_ue)
                continue
            while True:
                try:
                    data, _ = server.recvfrom(2048)
                except BlockingIOError:
                    break
                user, number, then = struct.unpack_from("!IQQ", data)
                at_server.arrive(user, number)
                delays.append((time.monotonic_ns() - then) // 1000)

    delays.sort()
    at = lambda part: delays[min(len(delays) - 1, int(part * len(delays)))] if delays else None
    print(json.dumps({
        "sent": sent,
        "ue": at_ue.said(),
        "server": at_server.said(),
        "delay": {"p50": at(0.5), "p99": at(0.99), "most": at(1.0)},
    }))
    whole = {"came": sent, "doubled": 0, "disordered": 0}
    return 0 if at_ue.said() == at_server.said() == whole else 1


if __name__ == "__main__":
    sys.exit(main())
