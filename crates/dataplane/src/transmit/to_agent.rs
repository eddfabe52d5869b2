//! What a worker gives the agent: copies of packets, as many as the agent's limits allow
//! (RFC 6192 §3). What is refused here has cost neither a copy nor a place in a ring.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weft_dpdk::{Batch, Packet, Pool, Producer};
use weft_function::{Headers, Metadata, Tunnel};

use crate::clock::rate_limit::{Rate, RateLimit};
use crate::clock::source_limits::SourceLimits;
use crate::command::Punt;
use crate::counters::{DropReason, PUNTS, WorkerCounters};

/// Packets that wait in each of the two rings from a worker to the agent.
pub const PUNT_RING: u32 = 255;

/// How much of what is for the node itself it takes and answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalLimits {
    /// Packets of the node's own that may wait to be sent.
    pub answers: u32,
    /// Token buckets for senders, at each worker.
    pub sources: u32,
    /// What one sender may cause, neighbour messages apart.
    pub per_source: Rate,
    /// What all may cause at one port and worker, by [`Punt`].
    pub rates: [Rate; PUNTS],
}

/// The way to the agent.
pub struct ToAgent {
    /// Neighbour messages have a ring of their own: they decide where packets go.
    neighbours: Producer,
    others: Producer,
    batch: Batch,
    /// Where the copies come from: not from where packets are received to.
    pool: Pool,
    sources: SourceLimits,
    /// By port.
    limits: Box<[[RateLimit; PUNTS]]>,
    counters: Arc<WorkerCounters>,
}

impl ToAgent {
    /// To an agent that takes from the other ends of `neighbours` and `others`; for packets
    /// of so many ports.
    pub fn new(
        (neighbours, others): (Producer, Producer),
        pool: Pool,
        limits: &LocalLimits,
        ports: usize,
        counters: Arc<WorkerCounters>,
    ) -> ToAgent {
        ToAgent {
            neighbours,
            others,
            batch: Batch::new(),
            pool,
            sources: SourceLimits::new(limits.sources, limits.per_source),
            limits: vec![limits.rates.map(RateLimit::from); ports].into_boxed_slice(),
            counters,
        }
    }

    /// Takes in a packet for the node itself, and counts it. The reason where it is dropped.
    ///
    /// # Errors
    /// Too many of its kind or of its sender, or the agent is behind.
    pub fn take(&mut self, packet: &Packet, now: u64) -> Result<(), DropReason> {
        let taken = match Punt::of_local(packet) {
            Err(ignored) => {
                self.counters.ignored[ignored as usize].add(1);
                Ok(())
            }
            Ok(punt) => self.give(packet, punt, 0, now),
        };
        match taken {
            Ok(()) => self.counters.local.add(1),
            Err(reason) => self.counters.dropped(reason, 1),
        }
        taken
    }

    /// Asks the agent for what the sender of a dropped packet is owed: not at any price.
    /// `mtu` is the one that the packet was too long for.
    #[cold]
    pub fn owe(&mut self, packet: &Packet, cause: Punt, mtu: u16, now: u64) {
        if self.give(packet, cause, mtu, now).is_err() {
            self.counters.withheld[cause as usize].add(1);
        }
    }

    fn give(&mut self, packet: &Packet, punt: Punt, mtu: u16, now: u64) -> Result<(), DropReason> {
        let refusal = punt.refusal().unwrap_or(DropReason::LocalFull);
        // Who lies about neighbours lies about the sender's address as well.
        if !punt.is_of_neighbour() && !self.sources.take(sender(packet, punt), now) {
            return Err(DropReason::LocalSourceRate);
        }
        let limits = self.limits.get_mut(usize::from(packet.metadata().port));
        if !limits.is_some_and(|limits| limits[punt as usize].take(now)) {
            return Err(refusal);
        }
        let (ring, full) = match punt.is_of_neighbour() {
            true => (&mut self.neighbours, DropReason::NeighbourFull),
            false => (&mut self.others, DropReason::LocalFull),
        };
        if ring.len() >= PUNT_RING as usize {
            return Err(full);
        }
        let mut copy = packet.duplicate(&self.pool).ok_or(DropReason::PoolExhausted)?;
        punt.mark(&mut copy, mtu);
        // The batch is empty, and the ring has room.
        drop(self.batch.push(copy));
        ring.send(&mut self.batch);
        self.batch.clear();
        Ok(())
    }
}

/// Who has sent a packet; where the tunnel around it is at fault, who has sent the tunnel.
fn sender(packet: &Packet, punt: Punt) -> IpAddr {
    let is_of_tunnel = matches!(punt, Punt::UnknownTeid | Punt::UnknownExtension);
    let outer = packet.outer_addresses().filter(|_| is_of_tunnel);
    let addresses = outer.or_else(|| packet.addresses());
    addresses.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |(from, _)| from)
}
