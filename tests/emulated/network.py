"""A network namespace for a test's interfaces, and sockets at their ends."""

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

SO_RCVBUFFORCE = 33
# Octets of a frame, at most.
LONGEST = 16384


def own(commands):
    """Goes on in a network namespace that goes with this process and what it starts, and gives
    `ip` these commands there."""
    if os.environ.get("WEFT_OWN_NETWORK") != "yes":
        words = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
        os.environ["WEFT_OWN_NETWORK"] = "yes"
        os.execvp("unshare", [*words, sys.executable, *sys.argv])
    # What the kernel itself would send there.
    quiet = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
    if quiet.exists():
        quiet.write_text("1")
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


def make_room(wire):
    """What has waited comes at once."""
    try:
        wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 23)
    except PermissionError:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)


class Wires:
    """Interfaces of the kernel, by their numbers in the order of their names."""

    def __init__(self, names):
        self.sockets = []
        for name in names:
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
            wire.bind((name, 0))
            make_room(wire)
            self.sockets.append(wire)

    def send(self, number, octets):
        self.sockets[number].send(octets)

    def listen(self, seconds):
        """Frames of others that have come, after so long at most, each with the number of its
        interface."""
        frames = []
        ready = select.select(self.sockets, [], [], seconds)[0]
        for wire in ready:
            while True:
                try:
                    octets, (_, _, way, *_) = wire.recvfrom(LONGEST, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    break
                if way != socket.PACKET_OUTGOING:
                    frames.append((self.sockets.index(wire), octets))
        return frames
