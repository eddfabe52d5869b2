#!/usr/bin/env python3
"""A function process that does all that a node must survive (FAULTS 54): wrong set-ups of
the ring, wild indices, lengths, addresses and flags in it, memory that is taken away, and
messages that are none. One attack after another, each with an attachment of its own.

    hostile_function.py SOCKET SEED
"""

import contextlib
import importlib.util
import mmap
import os
import random
import socket
import struct
import sys
import time
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "function.py"
SPEC = importlib.util.spec_from_file_location("function", EXAMPLE)
honest = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(honest)

NEXT, WRITE, INDIRECT = 1, 2, 4
# Types of messages.
PONG, CONTEXT, NOT_IMPORTED, COUNTED = 10, 14, 18, 19
# How long a ring is damaged while the node works with it.
SECONDS = 0.4
# How long the node may need to be ready for the next one.
PATIENCE = 30


def number(draw, bits):
    """A number that is random, or at an edge."""
    edges = (0, 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 255, 256, 257)
    return draw.choice(edges) & 2**bits - 1 if draw.random() < 0.5 else draw.getrandbits(bits)


# --- a ring that is damaged at work -------------------------------------------------


def wild_descriptors(ring, queue, draw):
    flags = draw.choice((0, WRITE, NEXT, NEXT | WRITE, INDIRECT, draw.getrandbits(16)))
    near = honest.BASE + draw.randrange(len(ring.memory))
    address = draw.choice((near, number(draw, 64), honest.BASE + len(ring.memory) - 1))
    length = draw.choice((number(draw, 32), draw.randrange(64)))
    queue.describe(draw.randrange(queue.size), address, length, flags, number(draw, 16))


def loops(_, queue, draw):
    one, other = draw.randrange(queue.size), draw.randrange(queue.size)
    for index, following in ((one, other), (other, one)):
        address = honest.BASE + queue.buffer(index)
        queue.describe(index, address, draw.randrange(64), NEXT | draw.choice((0, WRITE)), following)


def wild_indices(_, queue, draw):
    queue.words[queue.available // 2 + 1] = number(draw, 16)


def wild_entries(_, queue, draw):
    place = queue.available + 4 + 2 * draw.randrange(queue.size)
    queue.words[place // 2] = number(draw, 16)


def wild_used(_, queue, draw):
    queue.words[queue.used // 2 + draw.randrange(8)] = number(draw, 16)


def wild_frames(ring, queue, draw):
    place = queue.buffer(draw.randrange(queue.size)) + draw.randrange(120)
    ring.memory[place] = draw.getrandbits(8)


def anything(ring, queue, draw):
    octets = draw.randbytes(64)
    place = draw.randrange(queue.descriptors, queue.buffers)
    octets = octets[: len(ring.memory) - place]
    ring.memory[place : place + len(octets)] = octets


def truncated(ring, _queue, draw):
    """The memory ends where nobody expects it."""
    os.ftruncate(ring.shared, draw.choice((0, 1, mmap.PAGESIZE, len(ring.memory) // 2)))


DAMAGES = (wild_descriptors, loops, wild_indices, wild_entries, wild_used, wild_frames, anything, truncated)


class Damaged(honest.Ring):
    """An honest front end, but for what happens to its memory."""

    def request(self, number, fields=b"", files=()):
        if number == honest.SET_MEM_TABLE:
            self.shared = os.dup(files[0])
        super().request(number, fields, files)


def damage(path, draw, how):
    control = honest.Control(path + ".control", "pass")
    welcome = control.greet()
    ring = Damaged(path, welcome["workers"], welcome["descriptors"])
    control.send(honest.READY)
    until = time.monotonic() + SECONDS
    try:
        while time.monotonic() < until:
            control.answer()
            if how is not truncated:
                with contextlib.suppress(IndexError, ValueError, struct.error):
                    ring.pass_frames(lambda frame: None)
            for queue in ring.queues:
                for _ in range(4):
                    how(ring, queue, draw)
            if how is truncated:
                time.sleep(SECONDS)
                return
    finally:
        os.close(ring.shared)
        ring.socket.close()
        control.socket.close()


# --- a ring that is never right -----------------------------------------------------


def no_ring(path, draw, _how):
    """Requests that no front end may send."""
    control = honest.Control(path + ".control", "pass")
    welcome = control.greet()
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    shared = os.memfd_create("ring")
    octets = 2 * honest.Queue.octets(welcome["descriptors"])
    os.ftruncate(shared, octets)

    def send(request, fields=b"", files=(), length=None):
        head = struct.pack("<III", request, 1, len(fields) if length is None else length)
        socket.send_fds(link, [head + fields], list(files))

    def region(size, offset, count=1):
        return struct.pack("<IIQQQQ", count, 0, honest.BASE, size, honest.BASE, offset)

    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send(honest.SET_OWNER)
            send(honest.SET_FEATURES, struct.pack("<Q", number(draw, 64)))
            table = draw.choice((
                region(octets, 0),
                region(octets * 16, 0),
                region(2**63, 0),
                region(octets, 2**40),
                region(0, 0),
                region(octets, 0, count=draw.choice((0, 9, 2**32 - 1))),
            ))
            send(honest.SET_MEM_TABLE, table, draw.choice(([shared], [], [shared] * 3)))
            for _ in range(32):
                index = draw.choice((0, 1, 2, 255, number(draw, 32)))
                kind = draw.randrange(8)
                if kind == 0:
                    send(honest.SET_VRING_NUM, struct.pack("<II", index, number(draw, 32)))
                elif kind == 1:
                    send(honest.SET_VRING_BASE, struct.pack("<II", index, number(draw, 32)))
                elif kind == 2:
                    places = [honest.BASE + number(draw, 24) for _ in range(4)]
                    send(honest.SET_VRING_ADDR, struct.pack("<IIQQQQ", index, number(draw, 32), *places))
                elif kind == 3:
                    request = draw.choice((honest.SET_VRING_CALL, honest.SET_VRING_KICK))
                    send(request, struct.pack("<Q", index), draw.choice(([], [shared])))
                elif kind == 4:
                    send(honest.SET_VRING_ENABLE, struct.pack("<II", index, number(draw, 32)))
                elif kind == 5:
                    send(number(draw, 32), draw.randbytes(draw.randrange(64)))
                elif kind == 6:
                    send(draw.randrange(45), draw.randbytes(8))
                else:
                    send(draw.randrange(45), b"", length=number(draw, 32))
            control.send(honest.READY)
            time.sleep(SECONDS / 4)
    finally:
        os.close(shared)
        link.close()
        control.socket.close()


def no_message(path, draw, _how):
    """Messages that are none, at any time of the conversation."""
    control = honest.Control(path + ".control", draw.choice(("pass", "counter", "", "\x00" * 300)))
    with contextlib.suppress(honest.Gone, OSError):
        if draw.random() < 0.5:
            control.greet()
        for _ in range(draw.randrange(1, 8)):
            kind = draw.choice((0, *range(1, 20), 255))
            length = draw.choice((None, None, 0, 2**32 - 1, 1 << 20))
            fields = draw.randbytes(draw.randrange(40))
            octets = struct.pack("<IB", 1 + len(fields) if length is None else length, kind) + fields
            control.socket.sendall(octets)
        time.sleep(SECONDS / 8)
    control.socket.close()


def flood(path, draw, _how):
    """Sound messages that were not asked for, more than can be handled, and nothing is read."""
    control = honest.Control(path + ".control", "pass")
    control.greet()
    kind, fields = draw.choice((
        (PONG, struct.pack("<I", 0)),
        (CONTEXT, struct.pack("<HI", 0, draw.randrange(8)) + bytes(60_000)),
        (NOT_IMPORTED, struct.pack("<HI", 0, 0) + b"x" * 1_000_000),
        (COUNTED, bytes(56)),
    ))
    octets = struct.pack("<IB", 1 + len(fields), kind) + fields
    control.socket.settimeout(SECONDS)
    until = time.monotonic() + SECONDS
    with contextlib.suppress(OSError):
        while time.monotonic() < until:
            control.socket.sendall(octets * (1 + 60_000 // len(octets)))
    control.socket.close()


def main():
    path, draw = sys.argv[1], random.Random(int(sys.argv[2]))
    attacks = [(damage, how) for how in DAMAGES] + [(no_ring, None)] * 6 + [(no_message, None)] * 4
    attacks += [(flood, None)] * 4
    draw.shuffle(attacks)
    for attack, how in attacks:
        name = f"{attack.__name__} {how.__name__ if how else ''}".strip()
        print(name, flush=True)
        # The node may still be busy with the end of the one before.
        until = time.monotonic() + PATIENCE
        while True:
            try:
                attack(path, draw, how)
                break
            except (honest.Gone, ConnectionError) as why:
                if time.monotonic() > until:
                    raise SystemExit(f"{name}: {why}") from None
                time.sleep(0.05)


if __name__ == "__main__":
    main()
