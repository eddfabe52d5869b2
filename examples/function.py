#!/usr/bin/env python3
"""A user plane function that is not Weft's: it marks IPv4 packets with a DSCP.

It needs nothing but Python, and shows all that a function in a process of its own does:
the control protocol beside the ring (crates/process/src/protocol.rs), the front end of
the ring (the vhost-user protocol and the split virtqueues of VIRTIO 1.2 §2.7), and the
header in front of each packet (crates/process/src/frame.rs).

    examples/function.py /run/weft/mark.sock --dscp 46

for a node with

    mark: {function: pass, composition: process,
           process: {start: elsewhere, socket: /run/weft/mark.sock}}

A few thousand packets a second is all that Python is good for here.
"""

import argparse
import array
import json
import mmap
import os
import socket
import struct
import time

# --- the control protocol ---------------------------------------------------------

VERSION = 3
HELLO, WELCOME, REFUSE, START, READY = 1, 2, 3, 7, 8
PING, PONG, FENCE, FENCED, CHECKPOINT, CHECKPOINTED, EXPORT, EXPORTED = 9, 10, 11, 12, 13, 15, 16, 17


class Gone(Exception):
    """The node has ended, or wants nothing of us."""


class Control:
    """The socket beside the ring."""

    def __init__(self, path, function):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.incoming = b""
        self.send(HELLO, struct.pack("<HI", VERSION, os.getpid()) + function.encode())

    def send(self, number, fields=b""):
        self.socket.sendall(struct.pack("<IB", 1 + len(fields), number) + fields)

    def receive(self, wait):
        """The next message, as its number and its fields; None if there is none."""
        self.socket.setblocking(wait)
        while len(self.incoming) < 4 or len(self.incoming) < 4 + self.length():
            try:
                octets = self.socket.recv(65536)
            except BlockingIOError:
                return None
            if not octets:
                raise Gone("the node has ended")
            self.incoming += octets
        end = 4 + self.length()
        message, self.incoming = self.incoming[4:end], self.incoming[end:]
        return message[0], message[1:]

    def length(self):
        return struct.unpack_from("<I", self.incoming)[0]

    def greet(self):
        """What the node says of our place, once we may attach to the ring."""
        welcome = None
        while True:
            number, fields = self.receive(wait=True)
            if number == WELCOME:
                welcome = json.loads(fields)
            elif number == REFUSE:
                raise Gone(fields.decode())
            elif number == START:
                return welcome

    def answer(self):
        """Answers what the node asks. There are no contexts to configure or to export."""
        while message := self.receive(wait=False):
            number, fields = message
            if number == PING:
                self.send(PONG, fields)
            elif number == FENCE:
                self.send(FENCED, fields)
            elif number == CHECKPOINT:
                self.send(CHECKPOINTED)
            elif number == EXPORT:
                self.send(EXPORTED, fields[:6])  # worker and slot, and nothing behind


# --- the ring ---------------------------------------------------------------------

# Requests of the vhost-user protocol.
GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE = 8, 9, 10
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ENABLE = 12, 13, 18
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM = 15, 16, 17
VERSION_1, PROTOCOL_FEATURES = 1 << 32, 1 << 30
MULTIQUEUE = 1 << 0

# Where the shared memory begins, as addresses in the ring count.
BASE = 0x1000_0000
BUFFER = 4096
# In front of each frame (VIRTIO 1.2 §5.1.6).
NET_HEADER = 12
WRITE = 2  # a descriptor that the device, which is the node, writes to


class Queue:
    """One split virtqueue and its buffers, from `start` of the memory on."""

    def __init__(self, memory, start, size, incoming):
        self.memory, self.size = memory, size
        # The node looks at indices while they are written: they change in one go, as
        # octets that `struct` writes do not. Like the rings they are little endian.
        self.words = memoryview(memory).cast("H")
        self.descriptors = start
        self.available = start + 16 * size
        self.used = (self.available + 6 + 2 * size + 3) & ~3
        self.buffers = (self.used + 6 + 8 * size + BUFFER - 1) & ~(BUFFER - 1)
        self.seen = self.offered = 0
        self.free = list(range(size))
        for index in range(size):
            flags = WRITE if incoming else 0
            self.describe(index, BASE + self.buffer(index), BUFFER, flags)
        if incoming:
            while self.free:
                self.offer(self.free.pop())

    @staticmethod
    def octets(size):
        """The memory that a queue takes."""
        return ((16 + 2 + 8) * size + 16 + 2 * BUFFER + BUFFER * size) & ~(BUFFER - 1)

    def buffer(self, index):
        return self.buffers + index * BUFFER

    def describe(self, index, address, length, flags, following=0):
        struct.pack_into("<QIHH", self.memory, self.descriptors + 16 * index, address, length, flags, following)

    def offer(self, index):
        """Makes a descriptor available to the node."""
        place = self.available + 4 + 2 * (self.offered % self.size)
        self.words[place // 2] = index
        self.offered = self.offered + 1 & 0xFFFF
        self.words[self.available // 2 + 1] = self.offered

    def take(self):
        """The descriptors that the node is done with, and how much it wrote to each."""
        until = self.words[self.used // 2 + 1]
        while self.seen != until:
            yield struct.unpack_from("<II", self.memory, self.used + 4 + 8 * (self.seen % self.size))
            self.seen = self.seen + 1 & 0xFFFF


class Ring:
    """The front end: pairs of queues in memory that is shared with the node."""

    def __init__(self, path, pairs, size):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        each = Queue.octets(size)
        octets = 2 * pairs * each
        shared = os.memfd_create("ring")
        os.ftruncate(shared, octets)
        self.memory = mmap.mmap(shared, octets)
        self.request(SET_OWNER)
        features = self.ask(GET_FEATURES)
        self.request(SET_FEATURES, struct.pack("<Q", features & (VERSION_1 | PROTOCOL_FEATURES)))
        known = self.ask(GET_PROTOCOL_FEATURES)
        self.request(SET_PROTOCOL_FEATURES, struct.pack("<Q", known & MULTIQUEUE))
        region = struct.pack("<IIQQQQ", 1, 0, BASE, octets, BASE, 0)
        self.request(SET_MEM_TABLE, region, [shared])
        self.queues = [
            Queue(self.memory, number * each, size, incoming=number % 2 == 0) for number in range(2 * pairs)
        ]
        for number, queue in enumerate(self.queues):
            self.attach(number, queue)
        # Frames come in by the even queues and go back by the odd ones.
        self.pairs = list(zip(self.queues[::2], self.queues[1::2]))

    def request(self, number, fields=b"", files=()):
        message = struct.pack("<III", number, 1, len(fields)) + fields
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        self.socket.sendmsg([message], ancillary)

    def ask(self, number):
        self.request(number)
        answer = self.socket.recv(20, socket.MSG_WAITALL)
        if len(answer) < 20:
            raise Gone("the ring is taken")
        return struct.unpack("<Q", answer[12:])[0]

    def attach(self, number, queue):
        self.request(SET_VRING_NUM, struct.pack("<II", number, queue.size))
        self.request(SET_VRING_BASE, struct.pack("<II", number, 0))
        places = (BASE + queue.descriptors, BASE + queue.used, BASE + queue.available, 0)
        self.request(SET_VRING_ADDR, struct.pack("<IIQQQQ", number, 0, *places))
        # The node polls; the descriptors only have to be there.
        for kind in (SET_VRING_CALL, SET_VRING_KICK):
            event = os.eventfd(0)
            self.request(kind, struct.pack("<Q", number), [event])
            os.close(event)
        self.request(SET_VRING_ENABLE, struct.pack("<II", number, 1))

    def pass_frames(self, handle):
        """Hands each frame to `handle`, and what that makes of it back to the node."""
        busy = False
        for incoming, outgoing in self.pairs:
            for index, length in incoming.take():
                busy = True
                start = incoming.buffer(index) + NET_HEADER
                frame = bytearray(self.memory[start : start + length - NET_HEADER])
                incoming.offer(index)
                handle(frame)
                self.send(outgoing, frame)
        return busy

    def send(self, queue, frame):
        queue.free.extend(index for index, _ in queue.take())
        # No more packets are with a function than a queue holds, so there is room.
        index = queue.free.pop()
        start = queue.buffer(index)
        self.memory[start : start + NET_HEADER] = bytes(NET_HEADER)
        self.memory[start + NET_HEADER : start + NET_HEADER + len(frame)] = bytes(frame)
        queue.describe(index, BASE + start, NET_HEADER + len(frame), 0)
        queue.offer(index)


# --- the function -----------------------------------------------------------------

# Ethernet header, network service header (RFC 8300) and the head of its one context
# header; behind that the record of the packet.
RECORD = 14 + 8 + 4


def marker(dscp):
    """A function that marks IPv4 packets."""

    def mark(frame):
        # The service header says how long it is, in words of four octets.
        packet = 14 + 4 * (frame[15] & 0x3F)
        offset, _, ether_type = struct.unpack_from(">HHH", frame, RECORD + 32)
        if ether_type == 0x0800:
            network = packet + offset
            frame[network + 1] = dscp << 2 | frame[network + 1] & 3
            end = network + 4 * (frame[network] & 15)
            frame[network + 10 : network + 12] = bytes(2)
            frame[network + 10 : network + 12] = checksum(frame[network:end])

    return mark


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)


def serve(path, handle, ring=Ring):
    """Serves one node to its end."""
    control = Control(path + ".control", "pass")
    welcome = control.greet()
    frames = ring(path, welcome["workers"], welcome["descriptors"])
    control.send(READY)
    while True:
        control.answer()
        if not frames.pass_frames(handle):
            time.sleep(0.0005)


def main():
    arguments = argparse.ArgumentParser(description="marks IPv4 packets with a DSCP")
    arguments.add_argument("socket", help="the node's socket for the function's ring")
    arguments.add_argument("--dscp", type=int, choices=range(64), default=0, metavar="0..63")
    given = arguments.parse_args()
    try:
        serve(given.socket, marker(given.dscp))
    except (Gone, OSError) as why:
        raise SystemExit(f"function.py: {why}") from None
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
