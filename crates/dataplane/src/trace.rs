//! Traces and captures: what an operator watches of the packets.
//!
//! Without a tap the way of a packet has one branch more per stage. With one,
//! what it watches is copied and sent to the watcher, over a bounded channel;
//! what does not fit the channel is counted, never waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use weft_compose::{Burst, Positions};
use weft_dpdk::Packet;
use weft_function::tunnel::owed_checksum;
use weft_function::{Metadata, PacketMetadata};
use weft_rules::Condition;

use crate::classify::facts::PacketFacts;
use crate::counters::DropReason;

/// A point on the way of a packet. Functions and ports are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// It came in at a port.
    Received(u16),
    /// Its user was found.
    Classified,
    /// A function is about to handle it.
    Before(u16),
    /// A function has handled it, and neither dropped nor kept it.
    After(u16),
    /// It leaves at a port, as the port will send it.
    Leaving(u16),
    /// The node dropped it.
    Dropped(DropReason),
    /// A function dropped it.
    DroppedBy(u16),
}

/// What a tap sees of a packet.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// Same for all sightings of one packet by the taps of one watcher.
    pub packet: u64,
    /// Where it was seen.
    pub point: Point,
    /// Nanoseconds since the node started.
    pub time: u64,
    /// Its metadata there.
    pub metadata: PacketMetadata,
    /// Its length there, in bytes.
    pub length: usize,
    /// Its first bytes there, or all of them.
    pub bytes: Vec<u8>,
}

/// Which packets a tap watches, and where.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Only packets for which this holds, as they are at the `point`, or else
    /// once they are classified.
    pub condition: Option<Condition>,
    /// Only packets of the user at this slot.
    pub user: Option<u32>,
    /// Only packets that came in at this port.
    pub port: Option<u16>,
    /// Only at this point; everywhere if none is given.
    pub point: Option<Point>,
    /// Bytes of each packet that are copied.
    pub bytes: usize,
    /// Packets to watch before it stops watching.
    pub packets: u64,
}

impl Watch {
    fn holds_for(&self, packet: &Packet) -> bool {
        self.condition.as_ref().is_none_or(|when| when.eval(&PacketFacts(packet)))
    }
}

/// One watcher at one worker.
#[derive(Debug)]
pub struct Tap {
    watch: Watch,
    out: SyncSender<Sighting>,
    missed: Arc<AtomicU64>,
    /// Packets of the burst at hand that are watched.
    watched: Positions,
    /// Number of the packet at position 0 of the burst.
    first: u64,
}

impl Tap {
    /// A tap that numbers packets from `first` on, sends what it sees to `out`,
    /// and counts in `missed` what does not fit there.
    pub fn new(watch: Watch, first: u64, out: SyncSender<Sighting>, missed: Arc<AtomicU64>) -> Tap {
        Tap { watch, out, missed, watched: Positions::NONE, first }
    }

    /// Chooses from the packets at `candidates`, of which it is known how they
    /// came in and perhaps whose they are.
    fn choose(&mut self, candidates: Positions, burst: &Burst) {
        for position in candidates {
            if self.watch.packets == 0 {
                return;
            }
            let packet = &burst.packets[position];
            let metadata = packet.metadata();
            let watch = &self.watch;
            let wanted = watch.port.is_none_or(|port| port == metadata.port)
                && watch.user.is_none_or(|user| user == metadata.user);
            // At one point, the condition is that of the packet there.
            if wanted && (watch.point.is_some() || watch.holds_for(packet)) {
                self.watched.insert(position);
                self.watch.packets -= 1;
            }
        }
    }

    fn see(&mut self, point: Point, position: usize, packet: &Packet, now: u64) {
        if let Some(only) = self.watch.point
            && (only != point || !self.watch.holds_for(packet))
        {
            return;
        }
        let mut bytes = packet.data()[..packet.len().min(self.watch.bytes)].to_vec();
        if packet.lacks_udp_checksum() {
            show_checksum(packet, &mut bytes);
        }
        let sighting = Sighting {
            packet: self.first + position as u64,
            point,
            time: now,
            metadata: *packet.metadata(),
            length: packet.len(),
            bytes,
        };
        match self.out.try_send(sighting) {
            Ok(()) => {}
            // The watcher is gone: watch nothing until the tap is removed.
            Err(TrySendError::Disconnected(_)) => self.watch.packets = 0,
            Err(TrySendError::Full(_)) => {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Shows a packet as it will be once its UDP checksum is computed.
#[cold]
fn show_checksum(packet: &Packet, bytes: &mut [u8]) {
    if let Some((at, sum)) = owed_checksum(packet)
        && let Some(room) = bytes.get_mut(at..at + 2)
    {
        room.copy_from_slice(&sum);
    }
}

/// All taps of a worker.
#[derive(Debug, Default)]
pub struct Taps {
    taps: Vec<(u64, Box<Tap>)>,
}

impl Taps {
    /// Adds a tap under a number.
    pub fn add(&mut self, number: u64, tap: Box<Tap>) {
        self.taps.push((number, tap));
    }

    /// Takes out the tap with that number.
    pub fn remove(&mut self, number: u64) -> Option<Box<Tap>> {
        let at = self.taps.iter().position(|(one, _)| *one == number)?;
        Some(self.taps.swap_remove(at).1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    /// A new burst begins. Returns whether no tap wants any more packets.
    pub fn begin(&mut self) -> bool {
        let mut are_spent = true;
        for (_, tap) in &mut self.taps {
            tap.first += weft_dpdk::Batch::CAPACITY as u64;
            tap.watched = Positions::NONE;
            are_spent &= tap.watch.packets == 0;
        }
        are_spent
    }

    /// Takes out all taps.
    pub fn drain(&mut self) -> impl Iterator<Item = Box<Tap>> + '_ {
        self.taps.drain(..).map(|(_, tap)| tap)
    }

    /// Chooses among packets whose user is known, or that end here without
    /// one, and shows where they came in.
    #[cold]
    pub fn admit(&mut self, candidates: Positions, burst: &Burst) {
        for (_, tap) in &mut self.taps {
            tap.choose(candidates, burst);
            for position in tap.watched.and(candidates) {
                let packet = &burst.packets[position];
                tap.see(Point::Received(packet.metadata().port), position, packet, burst.now);
            }
        }
    }

    /// Shows packets at a point. What a function emitted is watched where its
    /// number is not in use in the burst.
    #[cold]
    pub fn at(&mut self, point: Point, positions: Positions, burst: &Burst) {
        for (_, tap) in &mut self.taps {
            for position in tap.watched.and(positions) {
                tap.see(point, position, &burst.packets[position], burst.now);
            }
        }
    }

    /// Shows one packet that is on its way out at `port`.
    #[cold]
    pub fn leaving(&mut self, port: u16, position: usize, packet: &Packet, now: u64) {
        for (_, tap) in &mut self.taps {
            if tap.watched.contains(position) {
                tap.see(Point::Leaving(port), position, packet, now);
            }
        }
    }

    /// Shows one packet that is dropped on its way out.
    #[cold]
    pub fn dropped(&mut self, reason: DropReason, position: usize, packet: &Packet, now: u64) {
        for (_, tap) in &mut self.taps {
            if tap.watched.contains(position) {
                tap.see(Point::Dropped(reason), position, packet, now);
            }
        }
    }
}
