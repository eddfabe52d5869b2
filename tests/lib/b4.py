#!/usr/bin/env python3
"""The lwB4 of a softwire (RFC 7596): carries IPv4 packets in IPv6 and back, for kernels
without ip6tnl.

    b4.py TUN LOCAL AFTR

Makes the TUN device TUN and sends its packets from LOCAL to AFTR; what comes from there
with IPv4 inside goes to the device. IPv6 is the kernel's, its fragments too. Runs until it
is ended. Translation to the ports of the softwire is for the namespace's nftables.
"""

import fcntl
import os
import select
import socket
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
LONGEST = 65536


def open_tun(name: str) -> int:
    """The file descriptor of a new TUN device."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def main() -> None:
    name, local, aftr = sys.argv[1:]
    tun = open_tun(name)
    softwire = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_IPIP)
    softwire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    softwire.bind((local, 0))
    while True:
        for ready in select.select([softwire, tun], [], [])[0]:
            if ready is softwire:
                packet, sender = softwire.recvfrom(LONGEST)
                if sender[0] == aftr:
                    os.write(tun, packet)
            else:
                softwire.sendto(os.read(tun, LONGEST), (aftr, 0))


main()
