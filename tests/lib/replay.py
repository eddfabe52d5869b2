#!/usr/bin/python3
"""Sends the frames of a capture (pcap) through a device, again and again.

    replay.py CAPTURE DEVICE PACKETS-PER-SECOND
"""

import socket
import struct
import sys
import time


def frames_of(path: str) -> list[bytes]:
    capture = open(path, "rb").read()
    order = "<" if capture[0] in (0xD4, 0x4D) else ">"
    frames, at = [], 24
    while at < len(capture):
        (length,) = struct.unpack_from(order + "I", capture, at + 8)
        at += 16
        frames.append(capture[at : at + length])
        at += length
    return frames


def main() -> None:
    path, device, rate = sys.argv[1:]
    frames = frames_of(path)
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((device, 0))
    while True:
        due = time.monotonic() + len(frames) / float(rate)
        for frame in frames:
            wire.send(frame)
        time.sleep(max(0, due - time.monotonic()))


main()
