"""Packets that the test sends to both ports of a node, and what is to come back of each."""

import random
import struct
import time
from ipaddress import IPv4Address

from frames import checksum, frame

# Users of the function in the machine, and those of the one that is called.
AWAY, HERE = (0, 1), (2, 3)
SERVICE = IPv4Address("198.51.100.10")
MACS = [bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")]
# In the payload: number, user, direction, the magic.
HEAD = struct.Struct("!IBBH")
MAGIC = 0x5EF7
LONGEST = 1514 - 42 - HEAD.size
# Packets on their way at once: fewer than the ring has room for.
WINDOW = 64


def marked(octets):
    """The frame as `guest.sh` leaves it: with another DSCP."""
    header = bytearray(octets[14:34])
    header[1] = 0xB8 | header[1] & 3
    header[10:12] = b"\0\0"
    header[10:12] = struct.pack("!H", checksum(header))
    return octets[:14] + bytes(header) + octets[34:]


class Sent:
    """One packet, and where it stands."""

    def __init__(self, number, user, direction, octets):
        self.number, self.user, self.direction, self.frame = number, user, direction, octets
        self.came = False


class Traffic:
    """All packets of a test, by their numbers."""

    def __init__(self, wires):
        self.wires = wires
        self.random = random.Random(5)
        self.sent, self.faults = [], []
        self.latest = {}
        # Whether packets may go past the function, as its policy says while it is not there.
        self.may_bypass = False
        self.bypassed = 0

    def send(self, users):
        number = len(self.sent)
        user, direction = self.random.choice(users), self.random.randrange(2)
        pattern = self.random.randbytes(self.random.randrange(LONGEST + 1))
        payload = HEAD.pack(number, user, direction, MAGIC) + pattern
        inside = IPv4Address("10.3.0.0") + user
        ends = (inside, SERVICE) if direction == 0 else (SERVICE, inside)
        link = MACS[1 - direction] + MACS[direction]
        octets = frame(link, *ends, (40000 + user, 2000), payload)
        self.sent.append(Sent(number, user, direction, octets))
        self.wires.send(direction, octets)

    def take(self, seconds):
        """What has come; how many packets."""
        count = 0
        for port, octets in self.wires.listen(seconds):
            if len(octets) < 42 + HEAD.size or octets[12:14] != b"\x08\x00":
                continue
            number, _, _, magic = HEAD.unpack_from(octets, 42)
            if magic != MAGIC:
                continue
            count += 1
            if fault := self.fault(port, number, octets):
                self.faults.append(f"packet {number}: {fault}")
        return count

    def fault(self, port, number, octets):
        if number >= len(self.sent):
            return f"nobody sent it: {octets[:48].hex()}"
        one = self.sent[number]
        flow = one.user, one.direction
        if one.came:
            return "it came twice"
        one.came = True
        if self.latest.get(flow, -1) > number:
            return "it came behind a later one of its user and direction"
        self.latest[flow] = number
        if port != 1 - one.direction:
            return "it left by the port that it came in at"
        bypassed = one.user in AWAY and self.may_bypass and octets == one.frame
        self.bypassed += bypassed
        wanted = marked(one.frame) if one.user in AWAY else one.frame
        if octets != wanted and not bypassed:
            return f"it is {octets[:60].hex()}, not {wanted[:60].hex()}"
        return None

    def away(self, users):
        return [one for one in self.sent if not one.came and one.user in users]

    def settle(self, users, seconds, lost=lambda: 0):
        """Waits until all packets of these users are back but those that are known to be lost;
        whether they are."""
        end = time.monotonic() + seconds
        while len(self.away(users)) != lost() and time.monotonic() < end:
            self.take(0.1)
        return len(self.away(users)) == lost()

    def give_up(self, users):
        """What is away of these users is not to come any more."""
        for one in self.away(users):
            one.came = True

    def exchange(self, packets, seconds, until=lambda: False):
        """Sends packets of all users, never more at once than a window; those that were
        away before do not count."""
        before = len(self.away(AWAY + HERE))
        end, left = time.monotonic() + seconds, packets
        while left and time.monotonic() < end and not until():
            while left and len(self.away(AWAY + HERE)) - before < WINDOW:
                self.send(AWAY + HERE)
                left -= 1
            self.take(0.1)
        return left == 0
