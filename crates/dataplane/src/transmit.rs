//! How packets leave a worker: out of a port, to another worker, or to the
//! agent.

mod along;
mod fragment;
mod headers;
pub mod outlet;
pub mod to_agent;

use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use rtrb::Producer as Outbox;
use weft_compose::{Burst, Positions, SlotShift};
use weft_dpdk::{Batch, Consumer, Packet, Pool, Producer, Wakeup};
use weft_function::tunnel::{settle_checksum, surface};
use weft_function::{Direction, Metadata, PacketMetadata, TagSlot, Tunnel};
use weft_wire::MacAddress;

use crate::buffering::queues::Queues;
use crate::command::{Punt, Report};
use crate::counters::{DropReason, WorkerCounters};
use crate::service_path::Service;
use crate::trace::Taps;
use crate::transmit::outlet::{Fate, Outlet};
use crate::transmit::to_agent::ToAgent;

/// A ring to another worker, and what waits to be put into it.
pub struct Peer {
    /// Ends its sleep, where it sleeps until something comes.
    pub wakeup: Option<Wakeup>,
    /// Packets of that worker's users, received here.
    pub to: Producer,
    /// Those of the burst at hand.
    pub batch: Batch,
}

/// A ring from a worker that sends through this one's transmit queue.
pub struct Relay {
    /// Number of the port.
    pub port: u16,
    /// Packets to send there, ready as they are.
    pub from: Consumer,
}

/// Positions of a burst that do not leave at a port.
#[derive(Clone, Copy, Debug)]
pub struct LeftOver {
    /// Kept for a function.
    pub kept: Positions,
    /// Of users of other workers.
    pub elsewhere: Positions,
    /// To be shown to a gate.
    pub gated: Positions,
    /// With service headers, to be opened.
    pub framed: Positions,
}

/// All ways out of a worker.
pub struct Departure {
    /// The ports, by number.
    pub outlets: Vec<Outlet>,
    /// The other workers, by number; none at this worker's own.
    pub peers: Vec<Option<Peer>>,
    /// Workers that have no transmit queue of their own at some port.
    pub relays: Vec<Relay>,
    /// The agent.
    pub agent: ToAgent,
    /// Packets of the burst at hand that may be refused, as they came in.
    pub originals: ArrayVec<(usize, Packet), { Batch::CAPACITY }>,
    /// Packets of the burst at hand that go through a gate.
    pub gated: Batch,
    /// Reports to the agent.
    pub reports: Outbox<Report>,
    /// Where fragments come from.
    pub pool: Pool,
    /// Counters of the worker.
    pub counters: Arc<WorkerCounters>,
    /// How slots are dealt out to workers.
    pub shift: SlotShift,
    /// Service paths, where the node has any.
    pub service: Option<Box<Service>>,
}

impl Departure {
    /// Sends one packet of the burst out of `port`.
    #[inline]
    pub fn send(
        &mut self,
        port: u16,
        position: usize,
        packet: Packet,
        taps: &mut Option<Box<Taps>>,
        now: u64,
    ) {
        let outlet = &mut self.outlets[usize::from(port)];
        let before = outlet.batch_mut().len();
        let reports = &mut self.reports;
        // A question that finds no room is asked again with the next packet.
        let ask = |address| reports.push(Report::Resolve { port, address }).is_ok();
        match outlet.send(packet, &self.pool, &self.counters, ask) {
            Fate::Sent => {
                if let Some(taps) = taps {
                    let sent = outlet.batch_mut();
                    // A burst that was full has left, and another has begun.
                    let first = if sent.len() > before { before } else { 0 };
                    sent[first..].iter().for_each(|one| taps.leaving(port, position, one, now));
                }
            }
            Fate::Waits => {}
            Fate::Dropped(reason, owed) => {
                let around = owed.as_ref().map_or(0, |(packet, _)| around(packet));
                let owed = owed.map(|(packet, cause)| (self.original(position, packet), cause));
                self.refuse(port, reason, owed, (around, now), |packet, reason| {
                    if let Some(taps) = taps {
                        taps.dropped(reason, position, packet, now);
                    }
                });
            }
        }
    }

    /// Keeps copies of the packets at `positions`: a sender is shown a packet as
    /// it was sent (RFC 792), not as functions left it.
    #[cold]
    pub fn keep_originals(&mut self, burst: &Burst, positions: Positions) {
        let copy =
            |position: usize| Some((position, burst.packets[position].duplicate(&burst.pool)?));
        self.originals = positions.filter_map(copy).collect();
    }

    /// The copy that was kept of a packet of the burst, which goes away with it.
    #[inline]
    pub fn original_of(&mut self, position: usize, packet: &Packet) -> Option<Packet> {
        if packet.metadata().flags & PacketMetadata::DOUBTFUL == 0 {
            return None;
        }
        let at = self.originals.iter().position(|(kept, _)| *kept == position)?;
        Some(self.originals.swap_remove(at).1)
    }

    /// Frees the copies.
    #[inline]
    pub fn forget_originals(&mut self) {
        self.originals.clear();
    }

    /// The packet at `position` as it came in; `packet` where no copy was kept.
    fn original(&mut self, position: usize, packet: Packet) -> Packet {
        let at = self.originals.iter().position(|(kept, _)| *kept == position);
        at.map_or(packet, |at| self.originals.swap_remove(at).1)
    }

    /// Sends a whole burst out of `port`, if there is nothing to do to its
    /// packets. False when there is; nothing has happened then.
    #[inline]
    pub fn send_whole(&mut self, port: u16, packets: &mut Batch) -> bool {
        self.outlets[usize::from(port)].send_whole(packets, &self.counters)
    }

    /// Counts a packet that cannot leave, and gives the agent the one whose
    /// sender is owed an answer; there are so many bytes of tunnel around it.
    #[cold]
    fn refuse(
        &mut self,
        port: u16,
        reason: DropReason,
        owed: Option<(Packet, Punt)>,
        (around, now): (u16, u64),
        show: impl FnOnce(&Packet, DropReason),
    ) {
        self.counters.dropped(reason, 1);
        if let Some((packet, cause)) = owed {
            show(&packet, reason);
            let PacketMetadata { flags, user, .. } = *packet.metadata();
            let uplink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32;
            // What came in a tunnel is answered in its user's tunnel, not outside; a
            // tunnel of the node's own is not answered.
            let has_user = uplink && user != PacketMetadata::NONE;
            if packet.is_end_marker() || flags & PacketMetadata::TUNNELLED != 0 && !has_user {
                return;
            }
            // A tunnel around the packet takes its part of the MTU.
            let mtu = self.outlets[usize::from(port)].mtu();
            self.agent.owe(&packet, cause, mtu.saturating_sub(around), now);
        }
    }

    /// What becomes of a packet of the burst that leaves at no port: it is kept
    /// for a function, or another worker's, or dropped and counted before.
    #[inline]
    pub fn keep(
        &mut self,
        left_over: &LeftOver,
        position: usize,
        mut packet: Packet,
        queues: &mut Queues,
    ) {
        if left_over.kept.contains(position) {
            // It may be told to another node.
            let packet = settle_checksum(packet);
            if !queues.store(position, packet) {
                self.counters.dropped(DropReason::KeptFull, 1);
            }
        } else if left_over.framed.contains(position) {
            if let Some(service) = &mut self.service {
                // A burst has no more packets than a batch has room.
                drop(service.arrived.push(packet));
            }
        } else if left_over.elsewhere.contains(position) {
            let PacketMetadata { user, port, .. } = *packet.metadata();
            let worker = self.shift.worker(user);
            if let Some(port) = self.counters.ports.get(usize::from(port)) {
                port.misdirected.add(1);
            }
            if !self.back_into_header(&mut packet) {
                return;
            }
            if let Some(Some(peer)) = self.peers.get_mut(worker) {
                // A burst has no more packets than a batch has room.
                drop(peer.batch.push(packet));
            }
        } else if left_over.gated.contains(position) {
            // As above.
            drop(self.gated.push(settle_checksum(packet)));
        } else if self.service.is_some() {
            self.give_notice(packet.metadata_mut());
        }
    }

    /// Hands the burst's packets of other workers' users to those workers.
    #[inline]
    pub fn hand_over(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            if !peer.batch.is_empty() {
                self.counters.handed_over.add(peer.to.send(&mut peer.batch) as u64);
                if let Some(wakeup) = &peer.wakeup {
                    wakeup.ring();
                }
                self.counters.dropped(DropReason::WorkerRingFull, peer.batch.len());
                peer.batch.clear();
            }
        }
    }

    /// Hands the burst of `port` to its device.
    #[inline]
    pub fn flush(&mut self, port: u16) {
        if self.service.as_ref().is_some_and(|service| service.is_path(port)) {
            return self.leave_along(port);
        }
        self.outlets[usize::from(port)].flush(&self.counters);
    }

    /// Sends a frame of the node's own as it is, in a buffer of the worker: a device may
    /// keep what it has sent. It leaves with [`flush_all`](Self::flush_all).
    pub fn transmit(&mut self, port: u16, frame: &Packet) {
        let Some(outlet) = self.outlets.get_mut(usize::from(port)) else { return };
        self.counters.originated.add(1);
        match frame.duplicate(&self.pool) {
            Some(frame) => outlet.send_raw(frame, &self.counters),
            None => self.counters.dropped(DropReason::PoolExhausted, 1),
        }
    }

    /// Sends an IP packet of the node's own, which no router has touched yet, as
    /// [`transmit`](Self::transmit) does.
    pub fn originate(&mut self, port: u16, packet: &Packet) {
        let Some(outlet) = self.outlets.get_mut(usize::from(port)) else { return };
        self.counters.originated.add(1);
        let Some(packet) = packet.duplicate(&self.pool) else {
            return self.counters.dropped(DropReason::PoolExhausted, 1);
        };
        let reports = &mut self.reports;
        let ask = |address| reports.push(Report::Resolve { port, address }).is_ok();
        let fate = outlet.originate(packet, &self.pool, &self.counters, ask);
        if let Fate::Dropped(reason, _) = fate {
            // No sender is owed an answer about the node's own packets.
            self.counters.dropped(reason, 1);
        }
    }

    /// Hands the bursts of all ports to their devices.
    pub fn flush_all(&mut self) {
        (0..self.outlets.len()).for_each(|port| self.flush(port as u16));
    }

    /// Sends a packet in a tunnel that the node has put it into; it leaves with the
    /// port's burst.
    pub fn send_tunnelled(&mut self, port: u16, mut packet: Packet) {
        let Some(outlet) = self.outlets.get_mut(usize::from(port)) else { return };
        surface(&mut packet);
        let reports = &mut self.reports;
        let ask = |address| reports.push(Report::Resolve { port, address }).is_ok();
        if let Fate::Dropped(reason, _) = outlet.send_own(packet, &self.pool, &self.counters, ask) {
            // Another node of the same operator is told nothing.
            self.counters.dropped(reason, 1);
        }
    }

    /// Sends on what waited for a next hop, or gives it up.
    pub fn resolve(&mut self, port: u16, address: IpAddr, mac: Option<MacAddress>, now: u64) {
        let Some(outlet) = self.outlets.get_mut(usize::from(port)) else { return };
        let mut failed = Vec::new();
        outlet.resolved(address, mac, &self.pool, &self.counters, |reason, packet, cause| {
            failed.push((reason, packet, cause));
        });
        self.flush(port);
        for (reason, packet, cause) in failed {
            let around = around(&packet);
            self.refuse(port, reason, Some((packet, cause)), (around, now), |_, _| {});
        }
    }

    /// Sends what other workers send through this one's queues, and what drivers do of their own.
    pub fn relay(&mut self) -> bool {
        let mut busy = false;
        self.outlets.iter_mut().for_each(Outlet::tend);
        for relay in &mut self.relays {
            let outlet = &mut self.outlets[usize::from(relay.port)];
            busy |= relay.from.receive(outlet.batch_mut(), Batch::CAPACITY) > 0;
            outlet.flush(&self.counters);
        }
        busy
    }

    /// Reports to the agent. A report that finds no room comes back.
    pub fn report(&mut self, report: Report) -> Result<(), Report> {
        self.reports.push(report).map_err(|rtrb::PushError::Full(report)| report)
    }

    /// What is in flight leaves; what waits for a next hop is counted.
    pub fn finish(&mut self) {
        for outlet in &mut self.outlets {
            outlet.flush(&self.counters);
            self.counters.dropped(DropReason::Stopped, outlet.clear());
        }
    }
}

/// Bytes of the tunnel around a packet.
fn around(packet: &Packet) -> u16 {
    let PacketMetadata { network_offset, outer_offset, .. } = *packet.metadata();
    if outer_offset == 0 { 0 } else { network_offset.saturating_sub(outer_offset) }
}
