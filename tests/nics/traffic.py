"""Packets of many users that the host sends into NICs, and what is to come back of each."""

import random
import struct
import time
from ipaddress import IPv4Address, IPv6Address

from frames import checksum, frame, pseudo_header

USERS = 1000
UPLINK, DOWNLINK = 0, 1
# What the node's ports are sent to, by direction, and what they send to.
NODE = [bytes.fromhex("020000000100"), bytes.fromhex("020000000101")]
HOST = [bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")]
FIRST_USER, SERVICE = IPv4Address("10.3.0.0"), IPv4Address("198.51.100.10")
# By chance, as those of users are: a symmetric hash knows addresses and ports by their sum alone.
PORTS = random.Random(1).sample(range(1024, 65536), USERS)
# In the payload: number, user, direction, nothing; then the count of the user's packets.
HEAD = struct.Struct("!IHBxI")
LONGEST = 600
# In an IP packet of 9,000 octets.
JUMBO = 9000 - 20 - 8 - HEAD.size
# Packets on their way at once: fewer than a queue of a NIC holds.
WINDOW = 64


class Sent:
    """One packet, and what it is when it comes back."""

    def __init__(self, number, user, direction, pattern):
        self.number, self.user, self.direction, self.pattern = number, user, direction, pattern
        # None until it is back.
        self.count = None
        ends = [FIRST_USER + user, SERVICE]
        # One flow for each user: both directions have the same addresses and ports.
        ports = [PORTS[user], 2000]
        if direction == DOWNLINK:
            ends.reverse()
            ports.reverse()
        self.ends, self.ports = ends, tuple(ports)
        payload = HEAD.pack(number, user, direction, 0) + pattern
        self.frame = frame(NODE[direction] + HOST[direction], *ends, ports, payload)

    def wrong(self, came):
        """What is wrong with the frame that came back of it; none if nothing is."""
        ip, datagram = came[14:34], came[34:]
        length = struct.unpack("!H", came[38:40])[0]
        if came[:12] != HOST[1 - self.direction] + NODE[1 - self.direction]:
            return f"its Ethernet header is {came[:14].hex()}"
        if [IPv4Address(ip[12:16]), IPv4Address(ip[16:20])] != self.ends:
            return f"its IPv4 header is {ip.hex()}"
        if ip[8] != 63 or checksum(ip):
            return f"its IPv4 header is {ip.hex()}"
        if struct.unpack("!HH", datagram[:4]) != self.ports:
            return f"its UDP header is {datagram[:8].hex()}"
        if checksum(pseudo_header(*self.ends, length) + datagram[:length]):
            return "its UDP checksum is wrong"
        if datagram[8 + HEAD.size : length] != self.pattern:
            return "its payload is not what was sent"
        return None


class Exchange:
    """All packets of one node. `turns` says that a user has one packet of a direction on its way
    at a time: where what is in front of the NIC does not promise to keep their order."""

    def __init__(self, wires, ports, turns, longest=LONGEST):
        self.wires, self.ports, self.turns, self.longest = wires, ports, turns, longest
        self.random = random.Random(25)
        self.sent, self.faults, self.latest = [], [], {}
        # Numbers of packets that are on their way, and their users and directions.
        self.away = {}
        self.lost = 0

    def users(self, packets):
        """Users of so many packets: all in turn, in an order of chance."""
        order = [number % USERS for number in range(packets)]
        self.random.shuffle(order)
        return order

    def send(self, user, direction):
        # One of the first is as long as can be.
        most = self.longest if len(self.sent) == 3 else self.random.randrange(self.longest)
        pattern = self.random.randbytes(most)
        one = Sent(len(self.sent), user, direction, pattern)
        self.sent.append(one)
        self.away[one.number] = user, direction
        self.wires.send(self.ports[direction], one.frame)

    def take(self, seconds):
        """What comes back within so long; whether something did."""
        some = False
        for wire, octets in self.wires.listen(seconds):
            if octets[12:14] != b"\x08\x00" or len(octets) < 42 + HEAD.size or octets[23] != 17:
                continue
            some = True
            number, _, _, count = HEAD.unpack_from(octets, 42)
            if fault := self.fault(wire, number, count, octets):
                self.faults.append(f"packet {number}: {fault}")
        return some

    def fault(self, wire, number, count, octets):
        if number >= len(self.sent):
            return f"it was not sent: {octets[:48].hex()}"
        one = self.sent[number]
        if one.count is not None:
            return "it came twice"
        one.count = count
        self.away.pop(number, None)
        if wire != self.ports[1 - one.direction]:
            return "it left by the wrong port"
        if self.latest.get((one.user, one.direction), -1) > number:
            return "it came behind a later one of its user and direction"
        self.latest[one.user, one.direction] = number
        return one.wrong(octets)

    def run(self, plan, seconds, meanwhile=lambda: None):
        """Sends to each user and direction of a plan, never more at once than a window; whether
        all came back before nothing did for so long. Calls `meanwhile` between packets."""
        waiting, latest = list(reversed(plan)), time.monotonic()
        while (waiting or self.away) and time.monotonic() - latest < seconds:
            meanwhile()
            while waiting and len(self.away) < WINDOW:
                if self.turns and waiting[-1] in self.away.values():
                    break
                self.send(*waiting.pop())
            if self.take(0.1):
                latest = time.monotonic()
        return not waiting and not self.away

    def give_up(self):
        """What is on its way will not come any more; how many those are."""
        lost = len(self.away)
        self.lost += lost
        self.away.clear()
        return lost

    def miscounted(self):
        """A user whose packets were not counted one by one at one place; none if there is not."""
        counts = {}
        for one in self.sent:
            if one.count is not None:
                counts.setdefault(one.user, []).append(one.count)
        for user, seen in counts.items():
            if sorted(seen) != list(range(1, len(seen) + 1)):
                return f"user {user}: {sorted(seen)}"
        return None


def towards_tunnels(packets):
    """Frames for users in tunnels: of all lengths up to the longest that a link of 1,500 takes,
    alike each time."""
    frames = []
    for number in range(packets):
        payload = HEAD.pack(number, number % 4, DOWNLINK, 0)
        payload += random.Random(number).randbytes(number * 1290 // packets)
        link = NODE[DOWNLINK] + HOST[DOWNLINK]
        user = FIRST_USER + number % 4
        frames.append(frame(link, SERVICE, user, (2000, 40000), payload))
    return frames


def is_tunnelled(octets):
    """Whether it is a G-PDU over IPv6 (TS 29.281 section 6.1)."""
    return (
        octets[12:14] == b"\x86\xdd"
        and octets[20] == 17
        and octets[56:58] == b"\x08\x68"
        and octets[63] == 255
        and IPv6Address(octets[38:54]) == IPv6Address("2001:db8::2")
    )


def inner_number(octets):
    """The number of the packet in a G-PDU."""
    # Ethernet, IPv6, UDP, GTP-U with one extension header; IPv4, UDP.
    return HEAD.unpack_from(octets, 14 + 40 + 8 + 16 + 20 + 8)[0]
