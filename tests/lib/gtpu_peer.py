#!/usr/bin/python3
"""A GTP-U peer whose messages are Scapy's (scapy.contrib.gtp), not Weft's.

    gtpu_peer.py TUN LOCAL PEER TEID-OF-PEER OWN-TEID [STRAY-TEID]

Makes the TUN device TUN and carries its packets in G-PDUs to PEER, and what comes
in a tunnel OWN-TEID back to it. Asks the peer for an Echo first, answers those it
is asked for, and sends one packet to STRAY-TEID. Tells of everything but G-PDUs in
a line on standard output. Runs until it is ended. Debian's Python by its path:
Debian's python3-scapy is a module of that one.
"""

import fcntl
import os
import select
import socket
import struct
import sys

from scapy.contrib.gtp import GTP_U_Header, GTPEchoRequest, GTPEchoResponse, IE_Recovery
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

SO_RCVBUFFORCE = 33
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PORT = 2152
ECHO_REQUEST, ECHO_RESPONSE, ERROR_INDICATION, END_MARKER, G_PDU = 1, 2, 26, 254, 255
STRAY = bytes(IP(src="10.45.0.99", dst="10.46.0.1") / UDP(sport=9, dport=9) / b"stray")


def open_tun(name: str) -> int:
    """The file descriptor of a new TUN device."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def tell(*words: object) -> None:
    """A line that is read at once."""
    print(*words, flush=True)


def g_pdu(teid: int, packet: bytes) -> bytes:
    """A packet in a tunnel."""
    return bytes(GTP_U_Header(gtp_type=G_PDU, teid=teid) / Raw(packet))


def echo(message: GTP_U_Header, sequence: int) -> bytes:
    """A message of path management."""
    return bytes(GTP_U_Header(S=1, teid=0, seq=sequence) / message)


def take(wire: socket.socket, tun: int, own: int) -> None:
    """Does what the next datagram asks for."""
    datagram, sender = wire.recvfrom(65536)
    message = GTP_U_Header(datagram)
    if message.gtp_type == G_PDU and message.teid == own and (IP in message or IPv6 in message):
        os.write(tun, message[IP if IP in message else IPv6].original)
    elif message.gtp_type == ECHO_REQUEST:
        answer = GTPEchoResponse(IE_list=[IE_Recovery(restart_counter=0)])
        wire.sendto(echo(answer, message.seq), sender)
        tell("echo request", message.seq)
    elif message.gtp_type == ECHO_RESPONSE:
        tell("echo response", message.seq)
    elif message.gtp_type == ERROR_INDICATION:
        tell("error indication")
    elif message.gtp_type == END_MARKER:
        tell("end marker", hex(message.teid))
    else:
        tell("unexpected", message.summary(), hex(message.teid))


def main() -> None:
    name, local, peer, *teids = sys.argv[1:]
    of_peer, own, *stray = (int(teid, 0) for teid in teids)
    tun = open_tun(name)
    # Over IPv6 the kernel drops what has a wrong UDP checksum.
    family = socket.AF_INET6 if ":" in local else socket.AF_INET
    wire = socket.socket(family, socket.SOCK_DGRAM)
    # What came while this program had no turn. A user namespace may not go beyond the system's limit.
    try:
        wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    except OSError:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    wire.bind((local, PORT))
    wire.sendto(echo(GTPEchoRequest(), 7), (peer, PORT))
    for teid in stray:
        wire.sendto(g_pdu(teid, STRAY), (peer, PORT))
    while True:
        for ready in select.select([wire, tun], [], [])[0]:
            if ready is wire:
                take(wire, tun, own)
            else:
                wire.sendto(g_pdu(of_peer, os.read(tun, 65536)), (peer, PORT))


main()
