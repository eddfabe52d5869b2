#!/usr/bin/env python3
"""A flood of what a node itself would answer, and a good user beside it.

    floods.py flood DEVICE MAC RATE SECONDS   frames to the node with that MAC address
    floods.py serve ADDRESS PORT              sends datagrams back
    floods.py ask ADDRESS PORT RATE COUNT     prints how many of COUNT came back

The flood is of equal parts, in IPv4 and IPv6: pings, GTP-U Echo Requests, questions for
the node's MAC address, packets of a user on their last hop, and ones that are too long. It
comes in bursts, as floods do.
"""

import itertools
import socket
import struct
import sys
import time

NODE4, NODE6 = "10.0.0.254", "2001:db8:0:ff::fe"
USER4, USER6 = "10.0.0.1", "2001:db8:0:1::1"
FAR4, FAR6 = "198.51.100.1", "2001:db8:ffff::1"
BURST = 0.25  # seconds between bursts
PATIENCE = 60.0  # seconds that the last answer may take
STRANGERS = 200


def checksum(octets: bytes) -> int:
    """The checksum of the Internet (RFC 1071)."""
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packed(address: str) -> bytes:
    """The octets of an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.inet_pton(family, address)


def packet(source: str, target: str, protocol: int, payload: bytes, hops: int) -> bytes:
    """An IP packet, with the checksum of its UDP or ICMPv6 payload filled in."""
    ends = packed(source) + packed(target)
    if ":" in source:
        at = {58: 2, 17: 6}[protocol]
        pseudo = ends + struct.pack("!II", len(payload), protocol)
        value = checksum(pseudo + payload) or 0xFFFF
        payload = payload[:at] + struct.pack("!H", value) + payload[at + 2 :]
        return struct.pack("!IHBB", 6 << 28, len(payload), protocol, hops) + ends + payload
    # Not to be fragmented.
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, hops, protocol, 0)
    value = checksum(head + ends)
    return head[:10] + struct.pack("!H", value) + ends + payload


def udp(port: int, payload: bytes) -> bytes:
    """A datagram without a checksum."""
    return struct.pack("!HHHH", 9999, port, 8 + len(payload), 0) + payload


def ping(is_v6: bool) -> bytes:
    """An echo request; over IPv6 without its checksum."""
    message = struct.pack("!BBHHH", 128 if is_v6 else 8, 0, 0, 7, 7) + b"flood"
    if is_v6:
        return message
    return message[:2] + struct.pack("!H", checksum(message)) + message[4:]


def question(own: bytes, sender: str) -> bytes:
    """A frame that asks who has the node's address."""
    if ":" in sender:
        low = packed(NODE6)[13:]
        group = socket.inet_ntop(socket.AF_INET6, packed("ff02::1:ff00:0")[:13] + low)
        message = struct.pack("!BBHI", 135, 0, 0, 0) + packed(NODE6) + b"\1\1" + own
        to = b"\x33\x33\xff" + low
        return to + own + b"\x86\xdd" + packet(sender, group, 58, message, 255)
    head = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
    message = head + own + packed(sender) + bytes(6) + packed(NODE4)
    return b"\xff" * 6 + own + b"\x08\x06" + message.ljust(46, b"\0")


def frames(own: bytes, node: bytes) -> list[bytes]:
    """The flood, once: each kind from many senders."""
    echo_request = bytes.fromhex("32010004 00000000 00010000")
    made = []
    for number in range(STRANGERS):
        for is_v6 in (False, True):
            kind = b"\x86\xdd" if is_v6 else b"\x08\x00"
            stranger = f"2001:db8:0:1::{number + 16:x}" if is_v6 else f"10.0.0.{20 + number}"
            to, user, far = (NODE6, USER6, FAR6) if is_v6 else (NODE4, USER4, FAR4)
            icmp = 58 if is_v6 else 1
            packets = [
                packet(stranger, to, icmp, ping(is_v6), 64),
                packet(stranger, to, 17, udp(2152, echo_request), 64),
                packet(user, far, 17, udp(9, b"last hop"), 1),
                packet(user, far, 17, udp(9, bytes(1440)), 64),
            ]
            made += [node + own + kind + one for one in packets]
            made.append(question(own, stranger))
    return made


def flood(device: str, mac: str, rate: int, seconds: int) -> None:
    """Sends the flood, and prints how many frames."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((device, 0))
    own = wire.getsockname()[4]
    around = itertools.cycle(frames(own, bytes.fromhex(mac.replace(":", ""))))
    begin, sent = time.monotonic(), 0
    for burst in itertools.count(1):
        for _ in range(int(rate * BURST)):
            try:
                wire.send(next(around))
            except OSError:  # no room in the device's queue
                continue
            sent += 1
        now = time.monotonic()
        if now >= begin + seconds:
            break
        # One that comes late does not make up for it by a longer burst.
        time.sleep(max(0.0, begin + burst * BURST - now) or BURST / 4)
    print(sent)


def serve(address: str, port: int) -> None:
    """Sends each datagram back."""
    with listening(address) as wire:
        wire.bind((address, port))
        while True:
            octets, sender = wire.recvfrom(2048)
            wire.sendto(octets, sender)


def listening(address: str) -> socket.socket:
    """A UDP socket with room for what comes while the process waits for a core."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    wire = socket.socket(family, socket.SOCK_DGRAM)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    return wire


def ask(address: str, port: int, rate: int, count: int) -> None:
    """Sends datagrams with numbers at a pace, and prints how many came back."""
    with listening(address) as wire:
        wire.connect((address, port))
        wire.setblocking(False)
        begin, sent, came = time.monotonic(), 0, set()
        last = begin
        while len(came) < count and time.monotonic() < last + 3.0:
            now = time.monotonic()
            try:
                if sent < count and now >= begin + sent / rate:
                    # One at a time: who waited for a core does not send a burst.
                    wire.send(sent.to_bytes(8, "big"))
                    sent, last = sent + 1, now
                    begin = max(begin, now - (sent + 5) / rate)
                came.add(int.from_bytes(wire.recv(2048)[:8], "big"))
                last = now
            except BlockingIOError:  # nothing has come, or there is no room to send
                time.sleep(0.0005)
            if now > begin + count / rate + PATIENCE:
                break
    print(len(came))


def main() -> None:
    what, where, *rest = sys.argv[1:]
    if what == "flood":
        flood(where, rest[0], int(rest[1]), int(rest[2]))
    elif what == "serve":
        serve(where, int(rest[0]))
    else:
        ask(where, *map(int, rest))


if __name__ == "__main__":
    main()
