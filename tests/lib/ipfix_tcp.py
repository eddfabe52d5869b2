#!/usr/bin/env python3
"""A collector of IPFIX by TCP: `ipfix_tcp.py ADDRESS PORT FILE COUNT` takes one connection,
reads COUNT messages, checks that each can be read by the templates that this connection has
brought, and writes them to FILE. Fails with what is wrong."""

import socket
import struct
import sys


def whole(stream, octets):
    read = b""
    while len(read) < octets:
        piece = stream.recv(octets - len(read))
        if not piece:
            sys.exit(f"the connection ends after {len(read)} of {octets} octets")
        read += piece
    return read


def main():
    address, port, file, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(1)
    listener.settimeout(50)
    stream, _ = listener.accept()
    listener.close()
    stream.settimeout(50)
    templates, sequence, messages = set(), 0, []
    while len(messages) < count:
        head = whole(stream, 16)
        version, length, _, number, _ = struct.unpack("!HHIII", head)
        if version != 10 or length < 20:
            sys.exit(f"version {version}, length {length}")
        if number != sequence:
            sys.exit(f"sequence number {number}, {sequence} is expected")
        body = whole(stream, length - 16)
        messages.append(head + body)
        while body:
            kind, octets = struct.unpack("!HH", body[:4])
            content, body = body[4:octets], body[octets:]
            if kind in (2, 3):
                while content:
                    identity, fields = struct.unpack("!HH", content[:4])
                    templates.add(identity)
                    content = content[4 + 4 * fields + (2 if kind == 3 else 0):]
            elif kind not in templates:
                sys.exit(f"no template {kind}, there are {sorted(templates)}")
            elif kind >= 256:
                sequence += records(kind, content)
    with open(file, "wb") as out:
        out.write(b"".join(messages))
    print(f"{count} messages, templates {sorted(templates)}")


# Octets of a record before its text, and whether there is text.
LAYOUT = {256: (40, True), 257: (53, True), 258: (36, True), 259: (21, False), 260: (4, True), 261: (12, False)}


def records(kind, content):
    fixed, has_text = LAYOUT[kind]
    count = 0
    while content:
        length = fixed + (1 + content[fixed] if has_text else 0)
        content = content[length:]
        count += 1
    return count


main()
