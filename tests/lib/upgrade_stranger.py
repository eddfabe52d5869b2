#!/usr/bin/env python3
"""The other end of an upgrade, as it should not be.

    upgrade_stranger.py new SOCKET HOW     asks the node at SOCKET for itself, and
        silent      says nothing
        garbage     says what is no message
        long        says a message that is too long
        accept      takes what commands have set, and goes away
        open        opens no port, says that it did, and goes away with packets that wait
        way         has ports go over in a way that there is not
        closed      lets the node close its ports, and goes away
        opened      lets it close them, and says what it should not
        refuse      refuses where it should go on
    upgrade_stranger.py old SOCKET NODE VERSION FUNCTION
        is a node at SOCKET that offers contexts of that version

Ends with exit code 0 when the node has spoken as far as it should.
"""

import json
import os
import socket
import struct
import sys
import threading

(OFFER, ACCEPT, RECORDS, SUBJECTS, PREPARED, READY, OPEN, OPENED,
 CONTEXTS, DRAINED, TAKEN, YOURS, REFUSED, MOVES, CLOSED) = range(15)


def say(stream: socket.socket, kind: int, octets: bytes = b"") -> None:
    """A message."""
    stream.sendall(struct.pack("<BI", kind, len(octets)) + octets)


def hear(stream: socket.socket) -> tuple[int, bytes]:
    """The next message."""
    head = b""
    while len(head) < 5:
        some = stream.recv(5 - len(head))
        if not some:
            raise EOFError
        head += some
    kind, length = struct.unpack("<BI", head)
    octets = b""
    while len(octets) < length:
        octets += stream.recv(length - len(octets))
    return kind, octets


def until(stream: socket.socket, wanted: int) -> bytes:
    """The next message of that kind."""
    while True:
        kind, octets = hear(stream)
        if kind == wanted:
            return octets
        if kind == REFUSED:
            raise SystemExit(f"refused: {octets.decode()}")


def ask(path: str) -> socket.socket:
    """Asks a node for itself."""
    control = socket.socket(socket.AF_UNIX)
    control.connect(path)
    control.sendall(b"POST /v1/take-over HTTP/1.1\r\nHost: weft\r\nContent-Length: 0\r\n"
                    b"Connection: close\r\n\r\n")
    answer = b""
    while some := control.recv(4096):
        answer += some
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(60)
    stream.connect(json.loads(answer.split(b"\r\n\r\n", 1)[1])["socket"])
    return stream


def new(path: str, how: str) -> None:
    """A process that is to have the node."""
    stream = ask(path)
    until(stream, OFFER)
    match how:
        case "silent":
            until(stream, REFUSED)
        case "garbage":
            stream.sendall(b"\xffGET / HTTP/1.1\r\n")
            until(stream, REFUSED)
        case "long":
            stream.sendall(struct.pack("<BI", ACCEPT, 0xFFFF_FFFF))
            until(stream, REFUSED)
        case "refuse":
            say(stream, ACCEPT, struct.pack("<I", os.getpid()))
            until(stream, PREPARED)
            say(stream, REFUSED, b"not today\n")
        case "accept":
            say(stream, ACCEPT, struct.pack("<I", os.getpid()))
            until(stream, PREPARED)
        case "open":
            say(stream, ACCEPT, struct.pack("<I", os.getpid()))
            until(stream, PREPARED)
            say(stream, READY, b"\x01")
            until(stream, OPEN)
            say(stream, OPENED)
            until(stream, DRAINED)
        case "way":
            say(stream, ACCEPT, struct.pack("<I", os.getpid()))
            until(stream, PREPARED)
            say(stream, READY, b"\x09")
            until(stream, REFUSED)
        case "closed" | "opened":
            say(stream, ACCEPT, struct.pack("<I", os.getpid()))
            until(stream, PREPARED)
            say(stream, READY, b"\x02")
            until(stream, DRAINED)
            say(stream, TAKEN)
            until(stream, CLOSED)
            if how == "opened":
                say(stream, TAKEN)
                until(stream, REFUSED)


def old(path: str, node: str, version: str, function: str) -> None:
    """A node that offers what cannot be had."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    other = socket.socket(socket.AF_UNIX)
    other.bind(path + ".other")
    other.listen()

    def answer() -> None:
        control, _ = listener.accept()
        control.recv(4096)
        body = json.dumps({"socket": path + ".other"}).encode()
        control.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n" % len(body) + body)

    threading.Thread(target=answer, daemon=True).start()
    stream, _ = other.accept()
    offer = {"format": 1, "node": node, "release": "9", "process": 1, "state": False,
             "devices": [], "neighbours": [], "functions": [
                 {"name": function, "function": "counter", "version": int(version),
                  "scope": "user"}]}
    say(stream, OFFER, json.dumps(offer).encode())
    kind, _ = hear(stream)
    if kind != REFUSED:
        raise SystemExit(f"message {kind} where it should refuse")


match sys.argv[1:]:
    case ["new", socket_path, manner]:
        new(socket_path, manner)
    case ["old", socket_path, name, number, of]:
        old(socket_path, name, number, of)
    case _:
        raise SystemExit(__doc__)
