//! The way out: what a router does to a packet as it leaves a port, and the
//! bursts that the ports take.

mod neighbours;
mod routed;

use std::net::IpAddr;

use weft_dpdk::{Batch, Packet, Pool, Producer, TxQueue, Wakeup};
use weft_function::tunnel::{leave_checksum_to_device, settle_checksum, surface};
use weft_function::{Headers, Metadata, PacketMetadata, Tunnel};
use weft_wire::{MacAddress, ethernet, ipv4};

pub use self::neighbours::Neighbours;
use self::routed::OWN_WAITING;
pub use self::routed::Routed;
use crate::command::Punt;
use crate::counters::{DropReason, WorkerCounters};
use crate::transmit::fragment::{Fragments, fragments};
use crate::transmit::headers::{
    Link, decrement_ttl, decrement_ttl_inside, dive, is_ordinary, route, write_ethernet,
};

/// What one worker needs to send at one port.
#[derive(Debug)]
pub struct Outlet {
    port: u16,
    kind: OutletKind,
    routed: Option<Routed>,
    mtu: u16,
    /// Whether its device computes UDP checksums.
    sums_udp: bool,
    batch: Batch,
}

/// How packets get to the device.
#[derive(Debug)]
pub enum OutletKind {
    /// Through a transmit queue of this worker's own.
    Queue(TxQueue),
    /// Through the worker that has the device's only queue.
    Worker(Producer, Option<Wakeup>),
    /// None: its burst goes on along a service path.
    Path,
    /// None while the device is gone.
    Gone,
}

/// What becomes of a packet on its way out.
#[derive(Debug)]
pub enum Fate {
    /// It is in the port's burst.
    Sent,
    /// It waits for the MAC address of its next hop.
    Waits,
    /// The node drops it; the agent may owe its sender an answer.
    Dropped(DropReason, Option<(Packet, Punt)>),
}

impl Outlet {
    /// An outlet for packets up to `mtu` bytes; transparent unless `routed`.
    pub fn new(port: u16, kind: OutletKind, mtu: u16, routed: Option<Routed>) -> Outlet {
        let sums_udp = matches!(&kind, OutletKind::Queue(queue) if queue.sums_udp());
        Outlet { port, kind, routed, mtu, sums_udp, batch: Batch::new() }
    }

    /// The MTU, as ICMP tells it.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Sends a packet as a router or as a wire, as the port is set up. `ask` is
    /// called with a next hop whose MAC address is not known yet, and says whether
    /// the question found its way.
    #[inline]
    pub fn send(
        &mut self,
        mut packet: Packet,
        pool: &Pool,
        counters: &WorkerCounters,
        ask: impl FnMut(IpAddr) -> bool,
    ) -> Fate {
        if packet.is_tunnelled() {
            return self.send_tunnelled(packet, pool, counters, ask);
        }
        if self.routed.is_none() {
            if packet.ip_length() > usize::from(self.mtu) {
                return Fate::Dropped(DropReason::PacketTooBig, None);
            }
            self.push(packet, counters);
            return Fate::Sent;
        }
        match decrement_ttl(&mut packet) {
            Some(true) => {}
            Some(false) => {
                return Fate::Dropped(DropReason::TtlExceeded, Some((packet, Punt::TimeExceeded)));
            }
            // ARP from the end of a wire: nothing that a router forwards.
            None => return Fate::Dropped(DropReason::EtherTypeUnknown, None),
        }
        self.send_own(packet, pool, counters, ask)
    }

    /// Sends a packet with the tunnel around it, which begins here and has all
    /// its hops before it.
    fn send_tunnelled(
        &mut self,
        mut packet: Packet,
        pool: &Pool,
        counters: &WorkerCounters,
        ask: impl FnMut(IpAddr) -> bool,
    ) -> Fate {
        // A router decrements the TTL of what it forwards into a tunnel, but not
        // of what goes on from one to the next.
        let from_tunnel = packet.metadata().flags & PacketMetadata::TUNNELLED != 0;
        if self.routed.is_some() && !from_tunnel && decrement_ttl_inside(&mut packet) == Some(false)
        {
            return Fate::Dropped(DropReason::TtlExceeded, Some((packet, Punt::TimeExceeded)));
        }
        if packet.owes_udp_checksum() {
            packet = self.pay_checksum(packet);
        }
        let inside = *packet.metadata();
        surface(&mut packet);
        if self.routed.is_none() && packet.ip_length() > usize::from(self.mtu) {
            return Fate::Dropped(DropReason::PacketTooBig, None);
        }
        match self.send_own(packet, pool, counters, ask) {
            // The sender that is told why knows of the packet inside only.
            Fate::Dropped(reason, Some((mut packet, punt))) => {
                dive(&mut packet, &inside);
                Fate::Dropped(reason, Some((packet, punt)))
            }
            fate => fate,
        }
    }

    /// Sees to the UDP checksum that a packet owes. Apart, as few packets do.
    #[inline(never)]
    fn pay_checksum(&self, packet: Packet) -> Packet {
        match self.sums_udp {
            true => leave_checksum_to_device(packet, self.mtu.into()),
            false => settle_checksum(packet),
        }
    }

    /// Sends an IP packet of the node's own: as a router, but the packet has
    /// all its hops before it.
    #[inline]
    pub fn send_own(
        &mut self,
        packet: Packet,
        pool: &Pool,
        counters: &WorkerCounters,
        ask: impl FnMut(IpAddr) -> bool,
    ) -> Fate {
        let Some(routed) = &mut self.routed else {
            self.push(packet, counters);
            return Fate::Sent;
        };
        match routed.mac_for(&packet) {
            Some(Ok(mac)) => self.address(packet, mac, pool, counters),
            Some(Err(next_hop)) => routed.wait(next_hop, packet, ask),
            None => Fate::Dropped(DropReason::NoRoute, Some((packet, Punt::NoRoute))),
        }
    }

    /// Sends an IP packet of the agent's, as [`send_own`](Self::send_own) does. Of those whose
    /// next hop is unknown few wait: a stranger may have asked for them under any address.
    pub fn originate(
        &mut self,
        packet: Packet,
        pool: &Pool,
        counters: &WorkerCounters,
        ask: impl FnMut(IpAddr) -> bool,
    ) -> Fate {
        if let Some(routed) = &mut self.routed
            && routed.waiting.len() >= OWN_WAITING
            && matches!(routed.mac_for(&packet), Some(Err(_)))
        {
            return Fate::Dropped(DropReason::NeighbourPending, None);
        }
        self.send_own(packet, pool, counters, ask)
    }

    /// Puts the Ethernet header in front and cuts to the MTU.
    #[inline]
    fn address(
        &mut self,
        mut packet: Packet,
        mac: MacAddress,
        pool: &Pool,
        counters: &WorkerCounters,
    ) -> Fate {
        let Some(routed) = &self.routed else { return Fate::Sent };
        write_ethernet(&mut packet, &Link::new(mac, routed.mac));
        if packet.ip_length() <= usize::from(self.mtu) {
            self.push(packet, counters);
            return Fate::Sent;
        }
        self.cut(packet, pool, counters)
    }

    /// A packet longer than the MTU: fragments, or an answer to its sender.
    #[cold]
    fn cut(&mut self, packet: Packet, pool: &Pool, counters: &WorkerCounters) -> Fate {
        let data = packet.data();
        let end = (ethernet::HEADER_LENGTH + packet.ip_length()).min(data.len());
        let (link, network) = data[..end].split_at(ethernet::HEADER_LENGTH);
        let Some(fragments) = pieces(network, self.mtu) else {
            return Fate::Dropped(DropReason::PacketTooBig, Some((packet, Punt::TooBig)));
        };
        for (number, fragment) in fragments.enumerate() {
            counters.fragments.add(u64::from(number > 0));
            let Some(mut piece) = pool.allocate() else {
                counters.dropped(DropReason::PoolExhausted, 1);
                continue;
            };
            let parts = [link, fragment.header.as_slice(), &network[fragment.payload.clone()]];
            let length = parts.iter().map(|part| part.len()).sum();
            let Some(mut room) = piece.append(length) else { continue };
            for part in parts {
                let (here, rest) = room.split_at_mut(part.len());
                here.copy_from_slice(part);
                room = rest;
            }
            *piece.metadata_mut() = *packet.metadata();
            piece.metadata_mut().network_length = (length - ethernet::HEADER_LENGTH) as u16;
            self.push(piece, counters);
        }
        Fate::Sent
    }

    /// Sends a frame as it is.
    pub fn send_raw(&mut self, frame: Packet, counters: &WorkerCounters) {
        self.push(frame, counters);
    }

    /// The burst being filled: what leaves with the next [`flush`](Self::flush).
    pub fn batch_mut(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Takes what another worker sends through this one's queue.
    #[inline]
    fn push(&mut self, packet: Packet, counters: &WorkerCounters) {
        if self.batch.is_full() {
            self.flush(counters);
        }
        // There is room: a flush leaves nothing behind.
        let _ = self.batch.push(packet);
    }

    /// Sends a whole burst, if nothing but the ordinary happens to its packets:
    /// none is longer than the MTU or on its last hop, and the MAC addresses of all next hops are
    /// known. False, and nothing happens, otherwise.
    #[inline]
    pub fn send_whole(&mut self, packets: &mut Batch, counters: &WorkerCounters) -> bool {
        let to_device = !matches!(self.kind, OutletKind::Path);
        if !to_device || !self.batch.is_empty() {
            return false;
        }
        let mtu = usize::from(self.mtu);
        match &mut self.routed {
            None => {
                let fits = |packet: &Packet| packet.ip_length() <= mtu && !packet.is_tunnelled();
                if !packets.iter().all(fits) {
                    return false;
                }
            }
            Some(routed) => {
                if !packets.iter().all(|packet| is_ordinary(packet, mtu)) {
                    return false;
                }
                match routed.next_hop {
                    Some(mac) => {
                        let link = Link::new(mac, routed.mac);
                        packets.iter_mut().for_each(|packet| route(packet, &link));
                    }
                    None => {
                        let Some(macs) = routed.macs_for(packets) else { return false };
                        for (packet, mac) in packets.iter_mut().zip(macs) {
                            route(packet, &Link::new(mac, routed.mac));
                        }
                    }
                }
            }
        }
        hand_to_device(&mut self.kind, self.port, packets, counters);
        true
    }

    /// Hands the burst to the device. What it does not take is dropped.
    #[inline]
    pub fn flush(&mut self, counters: &WorkerCounters) {
        if !self.batch.is_empty() {
            hand_to_device(&mut self.kind, self.port, &mut self.batch, counters);
        }
    }

    /// The device is gone: gives its queue back.
    pub fn detach(&mut self, counters: &WorkerCounters) -> Option<TxQueue> {
        if !matches!(self.kind, OutletKind::Queue(_)) {
            return None;
        }
        let kind = std::mem::replace(&mut self.kind, OutletKind::Gone);
        self.sums_udp = false;
        self.flush(counters);
        match kind {
            OutletKind::Queue(queue) => Some(queue),
            OutletKind::Worker(..) | OutletKind::Path | OutletKind::Gone => None,
        }
    }

    /// Lets leave what the driver of the device sends of its own.
    #[inline]
    pub fn tend(&mut self) {
        if let OutletKind::Queue(queue) = &mut self.kind {
            queue.tend();
        }
    }

    /// The device is back.
    pub fn attach(&mut self, queue: TxQueue) {
        self.sums_udp = queue.sums_udp();
        self.kind = OutletKind::Queue(queue);
    }

    /// A next hop has a MAC address now, or does not answer: sends on, or gives
    /// to `unreachable`, what waited for it.
    pub fn resolved(
        &mut self,
        address: IpAddr,
        mac: Option<MacAddress>,
        pool: &Pool,
        counters: &WorkerCounters,
        mut failed: impl FnMut(DropReason, Packet, Punt),
    ) {
        let Some(routed) = &mut self.routed else { return };
        routed.set_neighbour(address, mac);
        let waiting = std::mem::take(&mut routed.waiting);
        for (hop, packet) in waiting {
            if hop != address {
                if let Some(routed) = &mut self.routed {
                    routed.waiting.push_back((hop, packet));
                }
                continue;
            }
            let fate = match mac {
                Some(mac) => self.address(packet, mac, pool, counters),
                None => Fate::Dropped(
                    DropReason::NeighbourUnreachable,
                    Some((packet, Punt::Unreachable)),
                ),
            };
            if let Fate::Dropped(reason, Some((packet, punt))) = fate {
                failed(reason, packet, punt);
            }
        }
    }

    /// Drops what waits, as the node stops; returns how many packets.
    pub fn clear(&mut self) -> usize {
        self.routed.as_mut().map_or(0, |routed| {
            let count = routed.waiting.len();
            routed.waiting.clear();
            count
        })
    }
}

#[inline]
fn hand_to_device(kind: &mut OutletKind, port: u16, batch: &mut Batch, counters: &WorkerCounters) {
    let (offered, bytes) = (batch.len(), total_bytes(batch));
    let (taken, reason) = match kind {
        OutletKind::Queue(queue) => match queue.transmit(batch) {
            taken if taken < offered && queue.is_gone() => (taken, DropReason::PortGone),
            taken => (taken, DropReason::PortFull),
        },
        OutletKind::Worker(ring, wakeup) => {
            let taken = ring.send(batch);
            if let Some(wakeup) = wakeup {
                wakeup.ring();
            }
            (taken, DropReason::WorkerRingFull)
        }
        // What leaves at a path was taken before.
        OutletKind::Path | OutletKind::Gone => (0, DropReason::PortGone),
    };
    if matches!(kind, OutletKind::Queue(_)) {
        let sent = bytes - total_bytes(batch);
        counters.ports[usize::from(port)].transmitted.add(taken, sent);
    }
    if taken < offered {
        counters.dropped(reason, offered - taken);
        batch.clear();
    }
}

#[inline]
fn total_bytes(batch: &Batch) -> u64 {
    batch.iter().map(|packet| packet.len() as u64).sum()
}

/// Fragments of an IP packet, unless its sender forbids them (RFC 791 §3.2) or
/// is the only one who may make them (RFC 8200 §4.5).
fn pieces(packet: &[u8], mtu: u16) -> Option<Fragments> {
    let ip = ipv4::Packet::new_checked(packet).ok()?;
    if ip.dont_fragment() { None } else { fragments(packet, mtu).ok() }
}
