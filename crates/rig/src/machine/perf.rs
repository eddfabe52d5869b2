//! What the processor counts beside time, through `perf_event_open(2)`, where the
//! machine lets us: guests of a hypervisor often may not.

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
use perf_event::{Builder, Counter};

/// What is said where nothing is counted.
pub const NOT_COUNTED: &str = "Instructions and cache misses: not counted here (the machine gives no access to hardware counters).";

/// The counters of the calling thread.
#[derive(Debug)]
pub struct Events {
    instructions: Counter,
    /// Loads that missed the last level of cache.
    misses: Option<Counter>,
}

/// Events per packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerPacket {
    /// Instructions in user space.
    pub instructions: f64,
    /// Loads that missed the last level of cache, where these are told.
    pub misses: Option<f64>,
}

impl Events {
    /// Counters of the calling thread, at rest; none where the machine does not
    /// count.
    pub fn new() -> Option<Events> {
        let misses =
            Cache { which: CacheId::LL, operation: CacheOp::READ, result: CacheResult::MISS };
        let instructions = Builder::new(Hardware::INSTRUCTIONS).build().ok()?;
        Some(Events { instructions, misses: Builder::new(misses).build().ok() })
    }

    /// Counts from here on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn resume(&mut self) -> io::Result<()> {
        self.misses.iter_mut().try_for_each(Counter::enable)?;
        self.instructions.enable()
    }

    /// Counts no more.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn pause(&mut self) -> io::Result<()> {
        self.instructions.disable()?;
        self.misses.iter_mut().try_for_each(Counter::disable)
    }

    /// What was counted, for each of so many packets.
    pub fn per_packet(mut self, packets: u64) -> Option<PerPacket> {
        let packets = packets as f64;
        let instructions = self.instructions.read().ok()? as f64 / packets;
        let misses = self.misses.as_mut().and_then(|counter| counter.read().ok());
        // A counter that never ran counts nothing at all.
        (instructions > 0.0)
            .then(|| PerPacket { instructions, misses: misses.map(|count| count as f64 / packets) })
    }
}
