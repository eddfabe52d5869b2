#!/usr/bin/env python3
"""Both ends of a gateway that seals and opens (ESP), while it is killed and starts again.

    esp_peer.py reflect OWN GATEWAY       sends each sealed packet back to the gateway, once
    esp_peer.py drive DEVICE MAC OWN FAR  sends numbered datagrams through it, and takes them back

`reflect` remembers on SIGUSR1 what has come so far, and on SIGUSR2 sends all of that once more. On
SIGTERM it tells, as JSON, how many packets came, how many sequence numbers and vectors (RFC 4106
§3.1) it has seen twice, and how many it has sent once more. `drive` sends from OWN to FAR, an address
of no host, behind DEVICE, by the gateway with that MAC address; on SIGTERM it tells how many it has
sent, how many came back, and how many of them twice.
"""

import json
import select
import signal
import socket
import struct
import sys
import time

RATE = 200
IPV4 = 0x0800
UDP = 17
ended = False
asked: list[int] = []


def end(*_: object) -> None:
    """SIGTERM."""
    global ended
    ended = True


def tell(**what: int) -> None:
    """One line of JSON."""
    print(json.dumps(what), flush=True)


def reflect(own: str, gateway: str) -> None:
    """The other end of the tunnel."""
    wire = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ESP)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    wire.bind((own, 0))
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: asked.append(number))
    came, remembered, again, twice, vectors_twice = [], 0, 0, 0, 0
    numbers, vectors = set(), set()
    print("ready", flush=True)
    while not ended:
        while asked:
            if asked.pop(0) == signal.SIGUSR1:
                remembered = len(came)
                print("remembered", remembered, flush=True)
                continue
            for sealed in came[:remembered]:
                wire.sendto(sealed, (gateway, 0))
                again += 1
                time.sleep(0.0005)
            print("again", again, flush=True)
        if not select.select([wire], [], [], 0.05)[0]:
            continue
        packet = wire.recv(65536)
        sealed = packet[(packet[0] & 15) * 4 :]
        number, vector = sealed[4:8], sealed[8:16]
        twice += number in numbers
        vectors_twice += vector in vectors
        numbers.add(number)
        vectors.add(vector)
        came.append(sealed)
        try:
            wire.sendto(sealed, (gateway, 0))
        except OSError:
            pass  # while the gateway is away
    tell(came=len(came), numbersTwice=twice, vectorsTwice=vectors_twice, again=again)


def checksum(octets: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frame(to: bytes, by: bytes, own: bytes, far: bytes, number: int) -> bytes:
    """A datagram in Ethernet, without a UDP checksum."""
    payload = struct.pack("!HHHHQ", 7000, 7000, 16, 0, number)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, UDP, 0, own, far)
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return to + by + struct.pack("!H", IPV4) + head + payload


def drive(device: str, gateway: str, own: str, far: str) -> None:
    """The user."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(IPV4))
    wire.bind((device, IPV4))
    by = wire.getsockname()[4]
    to = bytes.fromhex(gateway.replace(":", ""))
    source, destination = socket.inet_aton(own), socket.inet_aton(far)
    sent, twice, back = 0, 0, set()
    due = time.monotonic()
    while not ended:
        now = time.monotonic()
        if now >= due:
            due = max(due + 1 / RATE, now - 1)
            wire.send(frame(to, by, source, destination, sent))
            sent += 1
        if not select.select([wire], [], [], 0.002)[0]:
            continue
        octets, sender = wire.recvfrom(65536)
        is_ours = sender[2] != socket.PACKET_OUTGOING and octets[30:34] == destination
        if not is_ours or octets[23] != UDP:
            continue
        (number,) = struct.unpack("!Q", octets[42:50])
        twice += number in back
        back.add(number)
    tell(sent=sent, back=len(back), twice=twice)


signal.signal(signal.SIGTERM, end)
match sys.argv[1:]:
    case ["reflect", at, to_gateway]:
        reflect(at, to_gateway)
    case ["drive", interface, mac, source_address, far_address]:
        drive(interface, mac, source_address, far_address)
    case _:
        sys.exit(__doc__)
