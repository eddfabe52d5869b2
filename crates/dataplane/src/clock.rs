//! The time on the way of a packet: nanoseconds since the node started.

pub mod rate_limit;
pub mod source_limits;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_dpdk::tsc;

/// Where the time comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// From the time-stamp counter.
    Tsc {
        /// Its value when the node started.
        start: u64,
        /// Nanoseconds per cycle, times 2³².
        scale: u64,
    },
    /// From the program that replays captures: the time stamps of the packets.
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        let hz = u128::from(tsc::hz().max(1));
        Clock::Tsc { start: tsc::now(), scale: ((1_000_000_000u128 << 32) / hz) as u64 }
    }

    /// Nanoseconds since the start.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        match self {
            Clock::Tsc { start, scale } => {
                let cycles = tsc::now().wrapping_sub(*start);
                ((u128::from(cycles) * u128::from(*scale)) >> 32) as u64
            }
            Clock::Virtual(time) => time.load(Ordering::Relaxed),
        }
    }
}
