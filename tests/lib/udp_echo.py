#!/usr/bin/env python3
"""Datagrams with numbers that come back: none may be lost, come twice or overtake another.

    udp_echo.py serve ADDRESS PORT
    udp_echo.py ask ADDRESS PORT RATE SECONDS     exits with 1 when any is missing or late
"""

import socket
import sys
import time

PATIENCE = 5.0  # seconds that the last ones may take


def serve(address: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        echo.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        echo.bind((address, port))
        while True:
            octets, sender = echo.recvfrom(2048)
            echo.sendto(octets, sender)


def ask(address: str, port: int, rate: int, seconds: int) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        asks.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        asks.connect((address, port))
        asks.setblocking(False)
        begin, sent, came, disorder = time.monotonic(), 0, [], 0
        count, last, longest = rate * seconds, time.monotonic(), 0.0
        while len(came) < count and time.monotonic() < begin + seconds + PATIENCE:
            while sent < count and time.monotonic() >= begin + sent / rate:
                asks.send(sent.to_bytes(8, "big") * 8)
                sent += 1
            try:
                number = int.from_bytes(asks.recv(2048)[:8], "big")
                disorder += bool(came) and number < came[-1]
                came.append(number)
                now = time.monotonic()
                longest, last = max(longest, now - last), now
            except BlockingIOError:
                time.sleep(0.0002)
        lost, twice = count - len(set(came)), len(came) - len(set(came))
        print(
            f"{count} sent, {len(came)} came back, {lost} lost, {twice} twice, {disorder} out of "
            f"order, longest silence {longest * 1e3:.1f} ms"
        )
        return 1 if lost or twice or disorder else 0


def main() -> int:
    what, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "serve":
        serve(address, port)
    return ask(address, port, int(sys.argv[4]), int(sys.argv[5]))


if __name__ == "__main__":
    sys.exit(main())
