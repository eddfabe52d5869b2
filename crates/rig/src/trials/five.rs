//! Five small functions on bursts that lie in the cache, each way in turn: called one after the
//! other, fused, and [by hand](super::by_hand). Ports, classification and the way through a node
//! are left out.
//!
//! The ways take turns of some ten microseconds, so that what else the machine does hits few turns
//! and all ways alike; ratios are of the medians of all turns.

use std::time::{Duration, Instant};

use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Pool, tsc};
use weft_function::tag::COLOUR;
use weft_function::{Metadata, PacketMetadata, Setup, TagTable};
use weft_fusion::{Fused, FusedOutcome, FusedPart};
use weft_wire::{EtherType, Protocol};

use crate::machine::disturbance::Look;
use crate::machine::slices::{Measured, Slices};
use crate::statistics;
use crate::traffic::capture;
use crate::trials::alone::BURST;
use crate::trials::by_hand::{ByHand, functions};
use crate::trials::closed::{WARM_UP, taken};
use crate::{Failure, Rig};

/// Bursts of a turn: so few that hardly one is interrupted, and so many that caches and branch
/// predictors soon know the code.
const BURSTS_AT_ONCE: usize = 32;
/// Packets of a turn.
const PACKETS: u64 = (BURSTS_AT_ONCE * BURST) as u64;
/// Nanoseconds from one burst to the next, on the clock of the functions.
const INTERVAL: u64 = 1_000;

/// How the functions are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One after the other, each over the whole burst.
    Called,
    /// As one loop of machine code.
    Fused,
    /// As one loop that was written by hand.
    ByHand,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::Called, Way::Fused, Way::ByHand];
}

/// What a packet costs, in cycles, without what it takes to make it anew.
#[derive(Clone, Copy, Debug)]
pub struct FiveCosts {
    /// By [`Way::ALL`].
    pub of: [Measured; Way::ALL.len()],
    /// Fused over called, by the medians of turns.
    pub fused_over_call: f64,
    /// Fused over by hand, in the same way.
    pub fused_over_by_hand: f64,
}

/// The five functions, and a burst for them.
pub struct Five {
    chain: Vec<Box<dyn Instance>>,
    fused: Fused,
    by_hand: ByHand,
    burst: Burst,
    frame: Vec<u8>,
    headers: usize,
    metadata: PacketMetadata,
    users: u32,
    next: u32,
    called: Outcome,
    outcome: FusedOutcome,
}

impl Five {
    /// Makes the functions for so many users, and packets of so many octets, checksum included.
    ///
    /// # Errors
    /// When a function cannot be made or fused, or without memory.
    pub fn new(rig: &Rig, users: u32, octets: usize) -> Result<Five, Failure> {
        let pool = Pool::new(rig.eal, &format!("five{}", rig.serial()), 127)?;
        Five::with(pool, users, capture::frame(0, octets)?)
    }

    /// The same with a frame of UDP or TCP in IPv4, behind the Ethernet header.
    ///
    /// # Errors
    /// As [`Five::new`].
    pub fn with(pool: Pool, users: u32, frame: Vec<u8>) -> Result<Five, Failure> {
        let (chain, colour) = instances(users)?;
        let part = |instance: &dyn Instance| {
            let program = instance.lower()?;
            Some(FusedPart { program, scope: instance.scope(), sets: None })
        };
        let parts: Option<Vec<_>> = chain.iter().map(|one| part(&**one)).collect();
        let fused = Fused::compile(parts.ok_or("a function cannot be fused")?, SlotShift(0))?;
        let mut burst = Burst { packets: Batch::new(), now: 1, pool: pool.clone() };
        for _ in 0..BURST {
            let packet = pool.packet(&frame).ok_or("the pool of packets is empty")?;
            burst.packets.push(packet).map_err(|_| "the burst is full")?;
        }
        let is_tcp = frame[NETWORK + 9] == Protocol::TCP.0;
        let metadata = PacketMetadata {
            network_offset: NETWORK as u16,
            transport_offset: NETWORK as u16 + IPV4,
            ether_type: EtherType::IPV4.0,
            protocol: frame[NETWORK + 9],
            network_length: u16::from_be_bytes([frame[NETWORK + 2], frame[NETWORK + 3]]),
            ..PacketMetadata::default()
        };
        let transport = if is_tcp { TCP } else { UDP };
        Ok(Five {
            chain,
            fused,
            by_hand: ByHand::new(users as usize, colour),
            burst,
            headers: NETWORK + usize::from(IPV4) + transport,
            frame,
            metadata,
            users,
            next: 0,
            called: Outcome::default(),
            outcome: FusedOutcome::default(),
        })
    }

    /// Makes the packets of the next burst anew.
    #[inline]
    fn prepare(&mut self) {
        for packet in self.burst.packets.iter_mut() {
            packet.data_mut()[..self.headers].copy_from_slice(&self.frame[..self.headers]);
            let user = self.next;
            self.next = if user + 1 == self.users { 0 } else { user + 1 };
            *packet.metadata_mut() = PacketMetadata { user, bearer: user, ..self.metadata };
        }
        self.burst.now += INTERVAL;
    }

    /// Lets the burst pass. Returns which packets were dropped.
    #[inline]
    fn pass(&mut self, way: Way) -> u64 {
        let all = Positions::first(BURST);
        match way {
            Way::Called => {
                let mut left = all;
                for instance in &mut self.chain {
                    self.called.clear();
                    instance.prefetch(&self.burst.packets, left);
                    instance.visit(&mut self.burst, left, &mut self.called);
                    left = left.without(self.called.dropped);
                }
                all.without(left).0
            }
            Way::Fused => {
                let chain = self.chain.iter_mut();
                let mut instances: Vec<_> =
                    chain.map(|one| &mut **one as &mut dyn Instance).collect();
                self.outcome.clear();
                self.fused.visit(&mut self.burst, all, &mut instances, &mut self.outcome);
                self.outcome.verdicts.dropped
            }
            Way::ByHand => {
                let passed = self.by_hand.pass(&mut self.burst.packets, self.burst.now);
                debug_assert_eq!(passed.left, 0);
                passed.dropped
            }
        }
    }

    /// Cycles of some bursts; without the functions where there is no way.
    fn turn(&mut self, way: Option<Way>) -> u64 {
        let start = tsc::now();
        for _ in 0..BURSTS_AT_ONCE {
            self.prepare();
            if let Some(way) = way {
                self.pass(way);
            }
        }
        tsc::now().wrapping_sub(start)
    }

    fn turns(&mut self, length: Duration, core: usize) -> Result<(FiveCosts, f64), Failure> {
        let ways = [None, Some(Way::Called), Some(Way::Fused), Some(Way::ByHand)];
        let mut slices = [(); 4].map(|()| Slices::of(length));
        let mut costs = [(); 4].map(|()| Vec::new());
        let (look, end) = (Look::now(core)?, Instant::now() + length);
        while costs[0].is_empty() || Instant::now() < end {
            for ((way, slices), costs) in ways.iter().zip(&mut slices).zip(&mut costs) {
                let cycles = self.turn(*way);
                slices.push(cycles, PACKETS);
                costs.push(cycles as f64 / PACKETS as f64);
            }
        }
        let between = look.since()?;
        let cost = |slices: &Slices| slices.cost(between.disturbance()).ok_or("no packet");
        let none = cost(&slices[0])?;
        let of = [cost(&slices[1])? - none, cost(&slices[2])? - none, cost(&slices[3])? - none];
        let [none, called, fused, by_hand] =
            costs.map(|costs| statistics::median(&costs).unwrap_or(f64::NAN));
        let fused_over_call = (fused - none) / (called - none);
        let fused_over_by_hand = (fused - none) / (by_hand - none);
        Ok((FiveCosts { of, fused_over_call, fused_over_by_hand }, taken(&between)))
    }
}

/// Offsets and octets of headers (IEEE 802.3 §3.2, RFC 791 §3.1, RFC 768, RFC 9293 §3.1).
const NETWORK: usize = 14;
const IPV4: u16 = 20;
const UDP: usize = 8;
const TCP: usize = 20;

/// An instance of each function, and the tag of a colour.
fn instances(users: u32) -> Result<(Vec<Box<dyn Instance>>, weft_function::TagSlot), Failure> {
    let kinds = functions().map(|(name, config)| (weft_functions::kind(name), config));
    let mut tags = TagTable::default();
    for kind in kinds.iter().filter_map(|(kind, _)| *kind) {
        for tag in kind.reads.iter().chain(kind.writes) {
            tags.declare(tag.name, tag.values.into()).map_err(|error| error.to_string())?;
        }
    }
    let setup = Setup {
        instance: "five",
        tags: &tags,
        contexts: users.max(1) as usize,
        worker: 0,
        tsc_hz: tsc::hz(),
        trial: false,
        events: None,
    };
    let mut chain = Vec::new();
    for (kind, config) in &kinds {
        let kind = kind.ok_or("a function is missing")?;
        chain.push(kind.make(config, &setup, SlotShift(0)).map_err(|error| error.to_string())?);
    }
    Ok((chain, setup.tag(&COLOUR).map_err(|error| error.to_string())?))
}

impl Rig {
    /// What the five functions cost each way, and how disturbed the trial was.
    ///
    /// # Errors
    /// When the kernel does not say what was taken.
    pub fn cost_of_five(
        &self,
        five: &mut Five,
        length: Duration,
    ) -> Result<(FiveCosts, f64), Failure> {
        self.on_core(self.cores.system, || {
            let core = self.cores.system;
            five.turns(length.mul_f64(WARM_UP), core)?;
            let slow = self.probe.slowness();
            let (costs, taken) = five.turns(length, core)?;
            Ok((costs, taken.max(slow).max(self.probe.slowness())))
        })
    }
}

#[cfg(test)]
mod tests {
    use weft_dpdk::{Eal, EalOptions};
    use weft_wire::{ipv4, tcp};

    use super::*;

    const USERS: u32 = 2;
    /// So many that buckets run empty.
    const BURSTS: usize = 80;

    /// Frames that meet each part of the functions.
    fn frames() -> Vec<Vec<u8>> {
        let usual = capture::frame(0, 1000).unwrap();
        let mut without_checksum = usual.clone();
        without_checksum[NETWORK + 26..NETWORK + 28].fill(0);
        let mut elsewhere = usual.clone();
        elsewhere[NETWORK + 16] ^= 1;
        let of_tcp = [25, 80].map(|port| {
            let mut frame = usual.clone();
            let mut ip = ipv4::Packet::new_checked(&mut frame[NETWORK..]).unwrap();
            ip.payload_mut()[12] = 5 << 4;
            frame[NETWORK + 9] = Protocol::TCP.0;
            let mut segment =
                tcp::Segment::new_checked(&mut frame[NETWORK + usize::from(IPV4)..]).unwrap();
            segment.set_destination_port(port);
            frame
        });
        [vec![usual, without_checksum, elsewhere], of_tcp.into()].concat()
    }

    /// What is left of all packets that pass one way: octets, tags, and what was dropped of the
    /// burst.
    type Left = Vec<(Vec<u8>, [u32; weft_function::TAG_SLOTS], u64)>;

    /// That, and what is kept of the users.
    fn passed(pool: &Pool, frame: &[u8], way: Way) -> (Left, Vec<[u64; 4]>) {
        let mut five = Five::with(pool.clone(), USERS, frame.to_vec()).unwrap();
        let mut left = Vec::new();
        for _ in 0..BURSTS {
            five.prepare();
            let dropped = five.pass(way);
            left.extend(
                five.burst
                    .packets
                    .iter()
                    .map(|packet| (packet.data().to_vec(), packet.metadata().tags, dropped)),
            );
        }
        if way == Way::ByHand {
            let kept = five.by_hand.kept().iter();
            return (
                left,
                kept.map(|one| [one.packets, one.bytes, one.lack, one.filled_at]).collect(),
            );
        }
        let mut words = |number: usize, words: usize| {
            let bytes = five.chain[number].contexts().chunks(8);
            let all: Vec<_> =
                bytes.map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
            all.chunks(words).map(<[u64]>::to_vec).collect::<Vec<_>>()
        };
        let (counted, metered) = (words(0, 3), words(1, 8));
        let both = counted.iter().zip(&metered);
        (left, both.map(|(one, other)| [one[0], one[1], other[5], other[7]]).collect())
    }

    #[test]
    fn what_is_written_by_hand_does_the_same() {
        let options =
            EalOptions { memory_megabytes: 128, huge_pages: false, ..EalOptions::default() };
        let pool = Pool::new(Eal::start(&options).unwrap(), "five", 511).unwrap();
        let mut colours = std::collections::BTreeSet::new();
        for frame in frames() {
            let [called, fused, by_hand] = Way::ALL.map(|way| passed(&pool, &frame, way));
            assert!(called == fused, "fused does something else with {frame:02x?}");
            assert!(called.0 == by_hand.0, "by hand something else is done with {frame:02x?}");
            assert_eq!(called.1, by_hand.1);
            colours.extend(called.0.iter().flat_map(|(_, tags, _)| *tags));
        }
        assert!(colours.contains(&(weft_function::Colour::Red as u32)));
    }
}
