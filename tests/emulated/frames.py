"""UDP packets in Ethernet frames."""

import struct


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def pseudo_header(source, destination, length):
    return source.packed + destination.packed + struct.pack("!BBH", 0, 17, length)


def frame(link, source, destination, ports, payload):
    length = 8 + len(payload)
    datagram = struct.pack("!HHHH", *ports, length, 0) + payload
    code = checksum(pseudo_header(source, destination, length) + datagram) or 0xFFFF
    datagram = datagram[:6] + struct.pack("!H", code) + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, 17, 0)
    header += source.packed + destination.packed
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return (link + b"\x08\x00" + header + datagram).ljust(60, b"\0")
