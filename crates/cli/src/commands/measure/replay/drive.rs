//! Drives a node through the time of captures.
//!
//! Packets go in one at a time, and the node comes to rest before the next: a
//! packet is handled at its own time, and what becomes of it does not depend on
//! how bursts happen to fall. While nothing comes in the clock goes on in
//! ticks, so that timers and neighbours that do not answer have their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weft_dpdk::{Batch, Pool};
use weft_node::Node;
use weft_node::show::Snapshot;

use super::input::Frame;
use super::wire::Wire;
use crate::failure::Failure;

/// Steps of the clock while nothing comes in, in nanoseconds.
const TICK: u64 = 10_000_000;
/// Ticks of one pause; for what is longer, the clock jumps. Whatever waits in a
/// node waits less than ten seconds.
const TICKS: u64 = 1000;
/// Rounds in which a node comes to rest, even if it would be busy for ever.
const ROUNDS: usize = 100_000;

pub struct Drive {
    node: Node,
    clock: Arc<AtomicU64>,
    /// Nanoseconds since the first packet.
    now: u64,
    wires: Vec<Wire>,
    pool: Pool,
    /// Time of the first packet: nanoseconds since the beginning of 1970.
    first: u64,
    /// When the replay began, if it takes as long as the captures did.
    pace: Option<Instant>,
}

impl Drive {
    pub fn new(
        node: Node,
        clock: Arc<AtomicU64>,
        wires: Vec<Wire>,
        pool: Pool,
        first: u64,
        pace: bool,
    ) -> Drive {
        let pace = pace.then(Instant::now);
        Drive { node, clock, now: 0, wires, pool, first, pace }
    }

    /// Lets a packet come in at its time.
    pub fn packet(&mut self, port: usize, frame: &Frame) -> Result<(), Failure> {
        // A capture whose times go back is replayed in its order.
        self.advance(frame.time.saturating_sub(self.first))?;
        let packet = self.pool.packet(&frame.bytes).ok_or_else(|| {
            Failure::broken("the node keeps all packet buffers; give it more (memory.packets)")
        })?;
        let mut batch = Batch::new();
        // An empty batch has room for one.
        let _ = batch.push(packet);
        self.wires[port].send(&mut batch);
        self.rest()
    }

    /// Lets everything that waits have its time, and stops the node.
    pub fn end(mut self) -> Result<Snapshot, Failure> {
        self.pace = None;
        self.advance(self.now + TICK * TICKS)?;
        let snapshot = self.node.stop();
        for wire in &mut self.wires {
            wire.collect(self.first + self.now)?;
        }
        self.wires.into_iter().try_for_each(Wire::end)?;
        Ok(snapshot)
    }

    fn advance(&mut self, to: u64) -> Result<(), Failure> {
        for _ in 0..TICKS {
            if self.now + TICK >= to {
                break;
            }
            self.set(self.now + TICK);
            self.rest()?;
        }
        self.set(to.max(self.now));
        Ok(())
    }

    fn set(&mut self, now: u64) {
        self.now = now;
        self.clock.store(now, Ordering::Relaxed);
        if let Some(begun) = self.pace {
            std::thread::sleep(Duration::from_nanos(now).saturating_sub(begun.elapsed()));
        }
    }

    /// Drives the node until nothing is left to do, and collects what it sends.
    fn rest(&mut self) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            let busy = self.node.step();
            for wire in &mut self.wires {
                wire.collect(self.first + self.now)?;
            }
            if !busy {
                break;
            }
        }
        Ok(())
    }
}
