#!/usr/bin/env python3
"""What kind of translator is on the way: the behaviour tests of RFC 5780, small.

    stun.py serve ADDRESS ADDRESS       a server at two addresses, ports 3478 and 3479
    stun.py ask ADDRESS ADDRESS         prints "mapping: KIND" and "filtering: KIND"

Messages are those of RFC 8489: binding requests and responses with
XOR-MAPPED-ADDRESS, and CHANGE-REQUEST (RFC 5780 section 7.2).
"""

import os
import select
import socket
import struct
import sys

COOKIE = 0x2112A442
REQUEST, RESPONSE = 0x0001, 0x0101
CHANGE_REQUEST, XOR_MAPPED_ADDRESS = 0x0003, 0x0020
CHANGE_ADDRESS, CHANGE_PORT = 4, 2
PORTS = (3478, 3479)
TRIES, PATIENCE_S = 3, 0.7
INDEPENDENT, ADDRESS, BOTH = (
    "endpoint-independent",
    "address-dependent",
    "address and port-dependent",
)


def message(kind: int, transaction: bytes, attributes: bytes) -> bytes:
    """A STUN message."""
    return struct.pack("!HHI", kind, len(attributes), COOKIE) + transaction + attributes


def bound(address: str, port: int) -> socket.socket:
    """A UDP socket there."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind((address, port))
    return found


def serve(addresses: list[str]) -> None:
    """Answers from where it was asked, or from elsewhere if asked to."""
    sockets = {(a, p): bound(addresses[a], PORTS[p]) for a in (0, 1) for p in (0, 1)}
    places = {one: place for place, one in sockets.items()}
    print("serving", flush=True)
    while True:
        for one in select.select(list(places), [], [])[0]:
            data, sender = one.recvfrom(2048)
            if len(data) < 20 or struct.unpack_from("!H", data)[0] != REQUEST:
                continue
            change = struct.unpack_from("!I", data, 24)[0] if len(data) >= 28 else 0
            address, port = places[one]
            place = (address ^ bool(change & CHANGE_ADDRESS), port ^ bool(change & CHANGE_PORT))
            seen = int.from_bytes(socket.inet_aton(sender[0]), "big") ^ COOKIE
            value = struct.pack("!BBHI", 0, 1, sender[1] ^ COOKIE >> 16, seen)
            attribute = struct.pack("!HH", XOR_MAPPED_ADDRESS, len(value)) + value
            sockets[place].sendto(message(RESPONSE, data[8:20], attribute), sender)


def ask(client: socket.socket, server: tuple[str, int], change: int = 0):
    """The address and port that the server sees; none without an answer."""
    transaction = os.urandom(12)
    request = message(REQUEST, transaction, struct.pack("!HHI", CHANGE_REQUEST, 4, change))
    for _ in range(TRIES):
        client.sendto(request, server)
        while select.select([client], [], [], PATIENCE_S)[0]:
            data = client.recv(2048)
            if data[8:20] == transaction and struct.unpack_from("!H", data)[0] == RESPONSE:
                port, address = struct.unpack_from("!HI", data, 26)
                return socket.inet_ntoa((address ^ COOKIE).to_bytes(4, "big")), port ^ COOKIE >> 16
    return None


def mapping(client: socket.socket, addresses: list[str]) -> str:
    """RFC 5780 section 4.3."""
    first = ask(client, (addresses[0], PORTS[0]))
    if first is None:
        return "no answer"
    print(f"mapped: {first[0]}:{first[1]}")
    if ask(client, (addresses[1], PORTS[0])) == first:
        return INDEPENDENT
    return ADDRESS if ask(client, (addresses[0], PORTS[1])) == first else BOTH


def filtering(client: socket.socket, addresses: list[str]) -> str:
    """RFC 5780 section 4.4, from a port that has sent to the first place only."""
    first = (addresses[0], PORTS[0])
    if ask(client, first) is None:
        return "no answer"
    if ask(client, first, CHANGE_ADDRESS | CHANGE_PORT):
        return INDEPENDENT
    return ADDRESS if ask(client, first, CHANGE_PORT) else BOTH


if __name__ == "__main__":
    what, where = sys.argv[1], sys.argv[2:]
    if what == "serve":
        serve(where)
    print("mapping:", mapping(bound("", 0), where))
    print("filtering:", filtering(bound("", 0), where))
