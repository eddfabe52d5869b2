#!/usr/bin/env python3
"""A VLAN subinterface for kernels that are built without 802.1Q.

    vlan_trunk.py DEVICE VLAN

Makes the TAP device DEVICE.VLAN and carries frames between it and DEVICE: tagged
on the wire, untagged at the TAP, where the kernel's own stack makes and takes
them. Runs until it is ended. `add_vlan` in netns.sh starts it when it must.
"""

import fcntl
import os
import select
import socket
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
ETH_P_ALL, ETH_P_8021Q = 0x0003, 0x8100
SOL_PACKET, PACKET_AUXDATA, PACKET_OUTGOING = 263, 8, 4
TP_STATUS_VLAN_VALID = 1 << 4
AUXDATA = struct.Struct("=IIIHHHH")  # struct tpacket_auxdata of linux/if_packet.h
MAC_ADDRESSES = 12  # octets before the tag
LARGEST_FRAME = 65536


def open_tap(name: str) -> int:
    """The file descriptor of a new TAP device."""
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def open_wire(device: str) -> socket.socket:
    """A raw socket on `device` that reports the tags that the kernel takes off."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    wire.bind((device, 0))
    return wire


def receive(wire: socket.socket, vlan: int) -> bytes | None:
    """The next frame without its tag, or None when it is not of this VLAN."""
    frame, ancillary, _, address = wire.recvmsg(LARGEST_FRAME, socket.CMSG_SPACE(AUXDATA.size))
    if address[2] == PACKET_OUTGOING:
        return None
    for _, _, data in ancillary:
        status, *_, tag, _ = AUXDATA.unpack(data)
        if status & TP_STATUS_VLAN_VALID and tag & 0x0FFF == vlan:
            return frame
    return None


def main() -> None:
    """Carries frames both ways."""
    device, vlan = sys.argv[1], int(sys.argv[2])
    wire, tap = open_wire(device), open_tap(f"{device}.{vlan}")
    tag = struct.pack("!HH", ETH_P_8021Q, vlan)
    while True:
        for ready in select.select([wire, tap], [], [])[0]:
            if ready is wire:
                frame = receive(wire, vlan)
                if frame is not None:
                    os.write(tap, frame)
            else:
                frame = os.read(tap, LARGEST_FRAME)
                wire.send(frame[:MAC_ADDRESSES] + tag + frame[MAC_ADDRESSES:])


if __name__ == "__main__":
    main()
