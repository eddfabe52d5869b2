//! A backend: packets turn round in memory. This file is all that a new way to be elsewhere
//! needs on the side of the packets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use weft_dataplane::offload::{Carrier, Coming, FrameKind, NextHops, Refusal};
use weft_dpdk::Packet;

/// Packets in hand at most.
const IN_HAND: usize = 64;

/// What a test sees and decides of the other side.
#[derive(Debug, Default)]
pub struct FarSide {
    /// Tickets in the order in which their packets arrived.
    pub seen: Mutex<Vec<u32>>,
    /// Whether packets stay there for now.
    pub holds: AtomicBool,
}

/// Carries packets to the far side and back, each under its ticket.
#[derive(Debug, Default)]
pub struct Loopback {
    in_hand: Vec<(u32, Packet)>,
    there: VecDeque<(u32, Packet)>,
    far_side: Arc<FarSide>,
}

impl Loopback {
    /// Packets turn round at `far_side`.
    pub fn new(far_side: Arc<FarSide>) -> Loopback {
        Loopback { far_side, ..Loopback::default() }
    }
}

impl Carrier for Loopback {
    fn put(
        &mut self,
        packet: Packet,
        ticket: u32,
        _now: u64,
        _onward: &NextHops,
    ) -> Result<(), Refusal> {
        if self.is_full() {
            return Err(Refusal::Full);
        }
        self.in_hand.push((ticket, packet));
        Ok(())
    }

    fn in_hand(&self) -> usize {
        self.in_hand.len()
    }

    fn is_full(&self) -> bool {
        self.in_hand.len() == IN_HAND
    }

    fn send(&mut self) {
        let mut seen = self.far_side.seen.lock().unwrap();
        seen.extend(self.in_hand.iter().map(|(ticket, _)| *ticket));
        self.there.extend(self.in_hand.drain(..));
    }

    fn drop_last(&mut self) {
        self.in_hand.pop();
    }

    fn clear(&mut self) {
        self.in_hand.clear();
        self.there.clear();
    }

    fn receive(&mut self, sort: &mut dyn FnMut(Coming)) -> usize {
        if self.far_side.holds.load(Ordering::Relaxed) {
            return 0;
        }
        let count = self.there.len();
        for (ticket, packet) in self.there.drain(..) {
            let (what, reason, past) = (FrameKind::Packet, 0, None);
            sort(Coming::Ticketed { ticket, what, reason, past, packet });
        }
        count
    }
}
