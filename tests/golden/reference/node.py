"""A node between ports: what leaves where, and what is counted."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path

from run import Packet, read_capture

from .checksum import with_header_checksum
from .dissect import ARP, Fault, Frame, dissect
from .fragment import fragments
from .icmp import TIME_EXCEEDED, TOO_BIG, echo_reply, error, is_owed
from .neighbours import advertisement, arp_reply, is_discovery


@dataclass
class Port:
    """A port; routed with a MAC address, otherwise transparent."""

    name: str
    mac: str = ""
    next_hop: str = ""  # the MAC address that everything goes to
    mtu: int = 1500
    addresses: tuple[str, ...] = ()
    proxy: tuple[str, ...] = ()  # prefixes that it answers for

    def is_routed(self) -> bool:
        """Whether what leaves here gets a new Ethernet header and has one hop less."""
        return bool(self.mac)

    def own(self, version: int) -> bytes | None:
        """Its own address of a family."""
        found = (ip_address(text) for text in self.addresses)
        return next((one.packed for one in found if one.version == version), None)

    def is_own(self, address: bytes) -> bool:
        """Given to it, or the link-local one of its MAC address (RFC 4291 appendix A)."""
        mac = octets(self.mac)
        identifier = bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]
        own = [ip_address(text).packed for text in self.addresses]
        return address in own or address == bytes.fromhex("fe80000000000000") + identifier

    def answers(self, target: bytes, asker: bytes) -> bool:
        """Whether it says that it has `target` when `asker` wants to know."""
        if self.is_own(target) or self.is_own(asker):
            return not self.is_own(asker)
        proxied = any(ip_address(target) in ip_network(prefix) for prefix in self.proxy)
        return proxied and asker != target and any(asker)

    def ethernet(self, version: int) -> bytes:
        """The header of a packet that leaves here."""
        return octets(self.next_hop) + octets(self.mac) + (b"\x08\x00", b"\x86\xdd")[version == 6]


def octets(mac: str) -> bytes:
    """A MAC address."""
    return bytes.fromhex(mac.replace(":", ""))


@dataclass
class Arrival:
    """A packet that came in, and whose it is."""

    port: str
    frame: Frame
    user: object
    time_us: int  # since the first packet of all


# What becomes of an arrival: the port where it leaves, or why it is dropped (by a
# function: "FUNCTION: REASON"), and the IP packet by then (None: as it came).
Forward = Callable[[Arrival], tuple[str, bytes | None]]


@dataclass
class Node:
    """Ports, a way to find the user of a frame (None: of no user), and the rules."""

    ports: list[Port]
    user_of: Callable[[str, Frame], object]
    forward: Forward
    sent: dict[str, list[Packet]] = field(default_factory=dict)
    drops: Counter = field(default_factory=Counter)
    received: Counter = field(default_factory=Counter)
    local: int = 0
    originated: int = 0
    fragments: int = 0
    verdicts: list[tuple[str, str]] = field(default_factory=list)  # of each frame: port, fate

    def run(self, *captures: tuple[str, str]) -> "Node":
        """Takes the packets of (port, file) in the order of their times."""
        inputs = [
            (packet.time_ns, number, place, port, packet.frame)
            for number, (port, file) in enumerate(captures)
            for place, packet in enumerate(read_capture(Path(file)))
        ]
        self.sent = {port.name: [] for port in self.ports}
        first = min(inputs)[0]
        for time_ns, _, _, port, frame in sorted(inputs):
            self.received[port] += 1
            self.verdicts.append((port, self.receive(port, frame, time_ns, first)))
        return self

    def port(self, name: str) -> Port | None:
        """The port of that name."""
        return next((port for port in self.ports if port.name == name), None)

    def receive(self, name: str, raw: bytes, time_ns: int, first_ns: int) -> str:
        """Where the frame leaves, or why not."""
        port = self.port(name)
        try:
            frame = dissect(raw)
        except Fault as fault:
            return self.drop(str(fault))
        if port.is_routed():
            if frame.ethertype == ARP or self.is_local(frame):
                return self.deliver(port, frame, time_ns)
            if raw[:6] != octets(port.mac):
                return self.drop("not_for_us")
            if is_martian(frame):
                return self.drop("martian")
        user = self.user_of(name, frame)
        if user is None:
            return self.drop("unknown_user")
        arrival = Arrival(name, frame, user, (time_ns - first_ns) // 1000)
        target, packet = self.forward(arrival)
        way_out = self.port(target)
        if way_out is None:
            return self.drop(target)
        return self.send(way_out, port, frame, packet or frame.ip, time_ns)

    def is_local(self, frame: Frame) -> bool:
        """For an address of the node, or discovery that goes no further than the link."""
        own = {ip_address(text).packed for port in self.ports for text in port.addresses}
        return frame.destination in own or is_discovery(frame) and is_link_scoped(frame)

    def drop(self, reason: str) -> str:
        """Counts it."""
        self.drops[reason] += 1
        return reason

    def deliver(self, port: Port, frame: Frame, time_ns: int) -> str:
        """What is for the node itself: it answers echo requests, ARP and neighbour discovery."""
        self.local += 1
        mac = octets(port.mac)
        if frame.ethertype == ARP:
            reply = arp_reply(frame, mac, port)
        elif is_discovery(frame):
            reply = advertisement(frame, mac, port)
        else:
            reply = echo_reply(frame)
            ethernet = frame.octets[6:12] + mac + frame.octets[12 : frame.network]
            reply = reply and ethernet + reply + frame.padding
        if reply is not None:
            self.originated += 1
            self.leave(port, reply, time_ns)
        return "local"

    def send(self, port: Port, came: Port, frame: Frame, packet: bytes, time_ns: int) -> str:
        """As a wire, or as a router, where tags and padding end."""
        if not port.is_routed():
            if len(packet) > port.mtu:
                return self.drop("packet_too_big")
            self.leave(port, frame.octets[: frame.network] + packet + frame.padding, time_ns)
            return port.name
        if frame.hops <= 1:
            return self.refuse("ttl_exceeded", came, frame, TIME_EXCEEDED, time_ns)
        if len(packet) > port.mtu and frame.dont_fragment:
            return self.refuse("packet_too_big", came, frame, TOO_BIG, time_ns, port.mtu)
        packet = one_hop_less(packet)
        ethernet = port.ethernet(frame.version)
        if len(packet) <= port.mtu:
            self.leave(port, ethernet + packet, time_ns)
            return port.name
        pieces = fragments(packet, port.mtu)
        self.fragments += len(pieces) - 1
        for piece in pieces:
            self.leave(port, ethernet + piece, time_ns)
        return port.name

    def refuse(
        self, reason: str, came: Port, frame: Frame, problem: str, time_ns: int, mtu: int = 0
    ) -> str:
        """Drops a packet and tells its sender, who knows it as it came."""
        own = came.own(frame.version)
        if own is not None and is_owed(frame, problem):
            self.originated += 1
            answer = error(frame.ip, problem, own, mtu, longest=came.mtu)
            self.leave(came, came.ethernet(frame.version) + answer, time_ns)
        return self.drop(reason)

    def leave(self, port: Port, frame: bytes, time_ns: int) -> None:
        """The frame is on the wire."""
        self.sent[port.name].append(Packet(time_ns, frame, len(frame)))


def one_hop_less(packet: bytes) -> bytes:
    """The packet behind a router."""
    if packet[0] >> 4 == 4:
        return with_header_checksum(packet[:8] + bytes([packet[8] - 1]) + packet[9:])
    return packet[:7] + bytes([packet[7] - 1]) + packet[8:]


def is_link_scoped(frame: Frame) -> bool:
    """Whether the destination is on the link by its kind (RFC 4291)."""
    destination = ip_address(frame.destination)
    return (
        destination.is_link_local or destination.is_multicast and frame.destination[1] & 0x0F == 2
    )


def is_martian(frame: Frame) -> bool:
    """An address that no router forwards (RFC 1812 section 5.3.7, RFC 4291, RFC 6890)."""
    source, destination = ip_address(frame.source), ip_address(frame.destination)
    either = source.is_link_local or destination.is_link_local
    if frame.version == 4:
        firsts = (frame.source[0], frame.destination[0])
        none = any(first in (0, 127) or first >= 240 for first in firsts)
        return either or none or source.is_multicast or frame.destination[:3] == b"\xe0\0\0"
    for address in (source, destination):
        if address.is_unspecified or address.is_loopback or address.ipv4_mapped is not None:
            return True
    # Multicast scopes that end at the link: reserved, interface-local, link-local.
    near = destination.is_multicast and frame.destination[1] & 0x0F <= 2
    return either or near or source.is_multicast
