#!/usr/bin/env python3
"""What a move adds to the delay of packets: one user moves to and fro between the stations
of a site while a server sends it packets at a constant rate and it returns each of them.

    handover_delay.py CONTROLLER-SOCKET SERVER-NS UE-NS PACKETS-PER-SECOND MOVES

Each packet notes when it was sent, when the kernel had it at the user, when the user sent it
back, and when the kernel had it at the server, so the time that these programs take does not
count. What a move adds is the largest delay from the order until 2 ms after its end, less
the median of 10 ms before the order; what nothing adds, in the same way, is that of windows
of the same lengths without a move. Prints medians and 99th percentiles over all moves in
microseconds, for both ways together and for each. Exit code 1 if a packet was lost, doubled
or out of order, or a move did not succeed."""

import array
import bisect
import http.client
import json
import multiprocessing
import select
import socket
import statistics
import struct
import sys
import time

from handover_traffic import ETH_P_IP, FIRST, PORT, enter, make_room

SO_TIMESTAMPNS = 35
STAMPS = struct.Struct("!IQQQQ")  # user, number, sent, at the user, sent back
AT_USER = 20
BEFORE, BEHIND = 10_000_000, 2_000_000  # nanoseconds


def received(one, room=2048):
    """A packet, who sent it, and when the kernel had it."""
    data, ancillary, _, address = one.recvmsg(room, 64)
    seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
    return data, address, seconds * 1_000_000_000 + nanoseconds


def stamped(one):
    make_room(one)
    one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return one


def reflect(namespace, stop):
    """The user: gives each packet back by the link that it came by."""
    enter(namespace)
    radio = stamped(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP)))
    radio.settimeout(0.2)
    while not stop.is_set():
        try:
            frame, address, when = received(radio)
        except TimeoutError:
            continue
        if address[2] == socket.PACKET_OUTGOING or frame[23:24] != b"\x11":
            continue
        back = bytearray(frame)
        back[0:6], back[6:12] = frame[6:12], frame[0:6]
        # Addresses and ports change places, so the header's checksum stays as it is.
        back[26:30], back[30:34] = frame[30:34], frame[26:30]
        back[34:36], back[36:38] = frame[36:38], frame[34:36]
        back[40:42] = b"\0\0"  # none in UDP over IPv4 (RFC 768)
        struct.pack_into("!QQ", back, 42 + AT_USER, when, time.time_ns())
        radio.sendto(back, (address[0], ETH_P_IP))


def serve(namespace, rate, stop, results):
    """The server: sends at a constant rate, and notes all times of what comes back."""
    enter(namespace)
    server = stamped(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    server.bind(("", PORT))
    server.setblocking(False)
    user = (socket.inet_ntoa(struct.pack("!I", FIRST)), PORT)
    gap, sent, times = int(1e9 / rate), 0, array.array("Q")
    due = last = time.time_ns()
    while not stop.is_set() or (len(times) < 5 * sent and time.time_ns() - last < 3_000_000_000):
        now = time.time_ns()
        if now >= due and not stop.is_set():
            due = max(due + gap, now - 16 * gap)
            server.sendto(STAMPS.pack(0, sent, time.time_ns(), 0, 0), user)
            sent += 1
        wait = max(0.0, (due - time.time_ns()) / 1e9) if not stop.is_set() else 0.05
        if select.select([server], [], [], wait)[0]:
            data, _, when = received(server)
            times.extend((*STAMPS.unpack(data[: STAMPS.size])[1:], when))
            last = time.time_ns()
    results.send((sent, times.tobytes()))


def ask(path, method, url, body=None):
    connection = http.client.HTTPConnection("weft", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request(method, url, json.dumps(body) if body else None)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def move(path, target):
    """When a move was ordered, and when the order was fulfilled."""
    ordered = time.time_ns()
    order = ask(path, "POST", "/v1/handovers", {"user": 1, "to": target})
    while not order["finished"]:
        order = ask(path, "GET", f"/v1/handovers/{order['id']}?wait=20")
    if order["moved"] != 1:
        sys.exit(f"the user did not move: {json.dumps(order)}")
    return ordered, time.time_ns()


def added(packets, begin, end):
    """What was added to delays from begin to end: in all, to the user, and from it."""
    usual = [one for one in packets if begin - BEFORE <= one[0] < begin]
    during = [one for one in packets if begin <= one[0] < end + BEHIND]
    if len(usual) < 8 or not during:
        return None
    return [
        max(one[way] for one in during) - statistics.median(one[way] for one in usual) for way in (1, 2, 3)
    ]


def between(packets, begin, end):
    """Packets around a time; they are in the order in which they were sent."""
    first = bisect.bisect_left(packets, (begin - BEFORE,))
    return packets[first : bisect.bisect_left(packets, (end + BEHIND,))]


def main():
    path, server_ns, ue_ns, rate, moves = sys.argv[1:6]
    context = multiprocessing.get_context("fork")
    stop, (here, there) = context.Event(), context.Pipe(False)
    user_stop = context.Event()
    user = context.Process(target=reflect, args=(ue_ns, user_stop), daemon=True)
    server = context.Process(target=serve, args=(server_ns, float(rate), stop, there), daemon=True)
    user.start()
    server.start()
    time.sleep(1.0)
    begin = time.time()
    windows = []
    for nth in range(int(moves)):
        windows.append(move(path, "station-b" if nth % 2 == 0 else "station-a"))
        time.sleep(0.15)
    took = time.time() - begin
    stop.set()
    sent, octets = here.recv()
    user_stop.set()
    user.join()
    times = array.array("Q")
    times.frombytes(octets)
    judge(sent, times, windows, took)


def judge(sent, times, windows, took):
    numbers = times[0::5]
    doubled = len(numbers) - len(set(numbers))
    disordered = sum(after < before for before, after in zip(numbers, numbers[1:]))
    packets = sorted(
        (one, (at_user - one + at_server - back) / 1e3, (at_user - one) / 1e3, (at_server - back) / 1e3)
        for one, at_user, back, at_server in zip(times[1::5], times[2::5], times[3::5], times[4::5])
    )
    moved, still = [], []
    for begin, end in windows:
        # As long before the move as it takes, and another pause.
        quiet = begin - BEFORE - BEHIND - (end - begin)
        for into, (first, last) in ((moved, (begin, end)), (still, (quiet, quiet + end - begin))):
            one = added(between(packets, first, last), first, last)
            if one:
                into.append(one)
    lasted = sorted((end - begin) / 1e3 for begin, end in windows)
    at = lambda values, part: sorted(values)[min(len(values) - 1, int(part * len(values)))]
    say = lambda values: f"p50 {at(values, 0.5):.0f} µs, p99 {at(values, 0.99):.0f} µs"
    print(f"{len(windows)} moves in {took:.0f} s, {sent} packets ({sent / (took + 1):.0f} per second): "
          f"{sent - len(set(numbers))} lost, {doubled} doubled, {disordered} out of order")
    print(f"delay of all packets, both ways: {say([one[1] for one in packets])}")
    for name, way in (("both ways", 0), ("to the user", 1), ("from the user", 2)):
        print(f"a move adds, {name}: {say([one[way] for one in moved])}; "
              f"without a move: {say([one[way] for one in still])}")
    print(f"a move takes {say(lasted)}")
    sys.exit(0 if sent == len(set(numbers)) and not doubled and not disordered else 1)


if __name__ == "__main__":
    main()
