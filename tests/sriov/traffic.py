"""Packets that the host sends into the emulated NIC, and what is to come back of them."""

import random
import struct
from ipaddress import IPv4Address

from frames import checksum, frame, pseudo_header

USERS = 4
# What the node's ports are sent to, by direction, and what they send to.
UPLINK, DOWNLINK = 0, 1
NODE = [bytes.fromhex("020000000100"), bytes.fromhex("020000000101")]
HOST = [bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")]
# A service, as users call it and as it is called behind `rewrite-address`.
CALLED, SERVICE = IPv4Address("203.0.113.10"), IPv4Address("198.51.100.10")
ELSEWHERE = IPv4Address("198.51.100.20")
DENIED_PORT = 9
# Of so many packets one is denied where there is a filter, and of so many one is nobody's.
DENIED_EACH, STRANGE_EACH = 50, 100
# In the payload: number, user, direction, two octets of nothing; then each counter's count.
HEAD = struct.Struct("!IBBxx")
COUNTERS = 2


class Sent:
    """One packet that was sent, and what it is to be when it comes back."""

    def __init__(self, number, direction, random_octets, chain):
        self.number, self.direction = number, direction
        self.user = random_octets.randrange(USERS)
        self.strange = number % STRANGE_EACH == STRANGE_EACH - 1
        denied = number % DENIED_EACH == 0
        self.denied = denied and chain.filters and not self.strange
        user = IPv4Address("10.9.0.0" if self.strange else "10.3.0.0") + self.user
        service = random_octets.choice([CALLED, ELSEWHERE])
        ports = [40000 + self.user, DENIED_PORT if denied else 2000]
        self.pattern = random_octets.randbytes(random_octets.randrange(0, chain.longest))
        payload = HEAD.pack(number, self.user, direction) + bytes(4 * COUNTERS) + self.pattern
        if direction == UPLINK:
            ends, after = (user, service), (user, service)
            if chain.rewrites and service == CALLED:
                after = (user, SERVICE)
        else:
            service = SERVICE if service == CALLED else service
            ends, after = (service, user), (service, user)
            if chain.rewrites and service == SERVICE:
                after = (CALLED, user)
        self.after, self.ports = after, tuple(ports)
        link = NODE[direction] + HOST[direction]
        self.frame = frame(link, *ends, ports, payload)

    def is_dropped(self):
        return self.strange or self.denied

    def wrong(self, came):
        """What is wrong with the frame that came back of it; none if nothing is."""
        ip, datagram, payload = came[14:34], came[34:], came[42:]
        length = struct.unpack("!H", came[38:40])[0]
        source, destination = IPv4Address(ip[12:16]), IPv4Address(ip[16:20])
        other = 1 - self.direction
        if came[:12] != HOST[other] + NODE[other]:
            return f"its Ethernet header is {came[:14].hex()}"
        if (source, destination) != self.after:
            return f"it goes from {source} to {destination}, not {self.after}"
        if ip[8] != 63 or checksum(ip):
            return f"its IPv4 header is {ip.hex()}"
        if struct.unpack("!HH", datagram[:4]) != self.ports:
            return f"its UDP header is {datagram[:8].hex()}"
        if checksum(pseudo_header(source, destination, length) + datagram[:length]):
            return "its UDP checksum is wrong"
        if payload[HEAD.size + 4 * COUNTERS : length - 8] != self.pattern:
            return "its payload is not what was sent"
        return None


def head_of(came):
    """Number, user, direction and counts in a frame; none if it is no packet of ours."""
    if came[12:14] != b"\x08\x00" or len(came) < 42 + HEAD.size + 4 * COUNTERS or came[23] != 17:
        return None
    number, user, direction = HEAD.unpack_from(came, 42)
    return number, user, direction, struct.unpack_from(f"!{COUNTERS}I", came, 42 + HEAD.size)


class Exchange:
    """What is sent into one node, in both directions, and what came back."""

    def __init__(self, chain, packets):
        self.random = random.Random(packets)
        self.sent, self.packets, self.chain = [], packets, chain
        self.came = {}
        self.faults = []
        self.order = {}
        self.expected = 0

    def next_frame(self):
        """The next to send; none when all have been."""
        number = len(self.sent)
        if number == self.packets:
            return None
        direction = self.random.choice([UPLINK, DOWNLINK])
        one = Sent(number, direction, self.random, self.chain)
        self.sent.append(one)
        self.expected += not one.is_dropped()
        return one.frame

    def take(self, came):
        head = head_of(came)
        if head is None or head[0] >= len(self.sent):
            return self.faults.append(f"a frame that nobody sent: {came[:48].hex()}")
        number, user, direction, counts = head
        one = self.sent[number]
        what = one.wrong(came)
        if number in self.came:
            what = "it came twice"
        elif one.is_dropped():
            what = "it should have been dropped"
        elif self.order.get((user, direction), -1) > number:
            what = "it came behind a later one of its user and direction"
        if what:
            return self.faults.append(f"packet {number}: {what}")
        self.order[user, direction] = number
        self.came[number] = counts
        return None

    def away(self):
        return self.expected - len(self.came)
