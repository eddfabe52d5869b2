#!/usr/bin/env python3
"""Traffic of one user whose gateway is killed and starts again.

    restart_traffic.py serve ADDRESS PORT
    restart_traffic.py drive ADDRESS PORT FROM

`serve` answers each line of a TCP connection with the same line, and each UDP datagram with
itself. `drive` keeps one TCP connection, with a numbered line at a time, and sends numbered
datagrams, 100 a second. Both run until SIGTERM. `drive` ends with a line of JSON: lines that
came back, datagrams that were sent, came back, and came back twice, connections that broke, and
pauses of more than 0.2 s in which nothing came back, in seconds. SIGUSR1 begins the latter anew and
prints those so far; the first datagram that comes back prints them, too.
"""

import json
import selectors
import signal
import socket
import sys
import time

RATE = 100
PAUSE = 0.2
# Behind its end it goes on until so many lines have come back, as TCP waits long after losses, but
# no longer than these seconds.
LINES, PATIENCE = 21, 60
ended = False
asked = False


def end(*_: object) -> None:
    """SIGTERM."""
    global ended
    ended = True


def ask(*_: object) -> None:
    """SIGUSR1."""
    global asked
    asked = True


def family(address: str) -> socket.AddressFamily:
    """That of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(address: str, port: int) -> None:
    """Answers."""
    listener = socket.create_server((address, port), family=family(address))
    datagrams = socket.socket(family(address), socket.SOCK_DGRAM)
    datagrams.bind((address, port))
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(datagrams, selectors.EVENT_READ)
    while not ended:
        for key, _ in selector.select(0.2):
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
            elif key.fileobj is datagrams:
                datagram, sender = datagrams.recvfrom(2048)
                datagrams.sendto(datagram, sender)
            else:
                octets = key.fileobj.recv(4096)
                if octets:
                    key.fileobj.sendall(octets)
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


class Lines:
    """One line at a time on a connection that is kept."""

    def __init__(self, server: tuple[str, int], own: str) -> None:
        self.stream = socket.create_connection(server, timeout=30, source_address=(own, 0))
        self.stream.setblocking(False)
        self.expected, self.back, self.broken = b"", 0, 0
        self.next()

    def next(self) -> None:
        """Sends a line."""
        self.expected = b"line %d\n" % self.back
        self.stream.sendall(self.expected)

    def work(self) -> None:
        """Takes what came."""
        try:
            octets = self.stream.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets or not self.expected.startswith(octets):
            self.broken = 1
            return
        self.expected = self.expected[len(octets) :]
        if not self.expected:
            self.back += 1
            self.next()


def drive(address: str, port: int, own: str) -> None:
    """Sends, and looks at what comes back."""
    global asked
    lines = Lines((address, port), own)
    datagrams = socket.socket(family(own), socket.SOCK_DGRAM)
    datagrams.bind((own, 0))
    datagrams.setblocking(False)
    sent, back, twice = 0, set(), 0
    due = heard = time.monotonic()
    pauses = []
    last_line = 0.0
    told = None
    while True:
        now = time.monotonic()
        if ended:
            told = told or now
            if lines.broken or lines.back >= LINES or now > told + PATIENCE:
                break
        if now >= due:
            due += 1 / RATE
            try:
                datagrams.sendto(b"%d" % sent, (address, port))
                sent += 1
            except OSError:
                pass
        if not lines.broken and now - last_line > 0.02:
            last_line = now
            lines.work()
        try:
            number = int(datagrams.recv(2048))
            if not back:
                print(json.dumps(pauses), flush=True)
            twice += number in back
            back.add(number)
            if now - heard > PAUSE:
                pauses.append(round(now - heard, 2))
            heard = now
        except OSError:
            time.sleep(0.001)
        if asked:
            asked = False
            print(json.dumps(pauses), flush=True)
            pauses.clear()
    print(json.dumps({
        "lines": lines.back, "broken": lines.broken,
        "sent": sent, "back": len(back), "twice": twice, "pauses": pauses,
    }), flush=True)


signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGUSR1, ask)
match sys.argv[1:]:
    case ["serve", at, number]:
        serve(at, int(number))
    case ["drive", at, number, source]:
        drive(at, int(number), source)
    case _:
        sys.exit(__doc__)
