//! A worker of a node that another process goes on with, and one of the node that goes on.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use weft_dpdk::Packet;

use super::{BURST, Worker};

/// Bursts that a queue is emptied of before it is the turn of others.
const BURSTS_AT_ONCE: usize = 64;

/// Received packets, by their octets: how many of each there were.
pub type Seen = HashMap<u64, u32>;

/// A number for the octets of a received packet.
fn digest(packet: &Packet) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(packet.data());
    hasher.finish()
}

impl Worker {
    /// Calls functions back from their threads, and carries what has been received: all queues
    /// are empty once there was nothing. For each packet that came from a port `note` is told the
    /// port and a number for its octets. Returns whether there was anything.
    pub fn drain_received(&mut self, note: &mut dyn FnMut(u16, u64)) -> bool {
        while let Some(busy) = self.recall() {
            if !busy {
                std::thread::yield_now();
            }
        }
        let mut busy = self.apply_commands();
        for inlet in 0..self.inlets.len() {
            for _ in 0..BURSTS_AT_ONCE {
                if self.receive(inlet) == 0 {
                    break;
                }
                busy = true;
                let port = self.inlets[inlet].port;
                for packet in self.state.burst.packets.iter() {
                    note(port, digest(packet));
                }
                self.carry_received(inlet);
            }
        }
        busy |= self.take_over();
        busy | self.departure.relay()
    }

    /// Drops what its queues hold, which another process carries.
    pub fn discard_received(&mut self) {
        for inlet in &mut self.inlets {
            while inlet.queue.receive(&mut self.state.burst.packets, BURST) > 0 {
                self.state.burst.packets.clear();
            }
        }
    }

    /// Looks at the first `count` packets that a port has received, and drops those that were
    /// `seen` by another process; the others go their way. Returns how many were dropped.
    pub fn drop_seen(&mut self, port: u16, count: usize, seen: &mut Seen) -> usize {
        let mut dropped = 0;
        for inlet in 0..self.inlets.len() {
            let mut left = if self.inlets[inlet].port == port { count } else { 0 };
            while left > 0 {
                let packets = &mut self.state.burst.packets;
                let received = self.inlets[inlet].queue.receive(packets, left.min(BURST));
                if received == 0 {
                    break;
                }
                left -= received;
                packets.retain(|packet| match seen.get_mut(&digest(packet)) {
                    Some(times) if *times > 0 => {
                        *times -= 1;
                        false
                    }
                    _ => true,
                });
                let new = packets.len();
                dropped += received - new;
                if new > 0 {
                    self.note_received(inlet, new);
                    self.carry_received(inlet);
                }
            }
        }
        dropped
    }

    /// Appends what a function exports of the context at `slot`, as `version` has it, once no
    /// packet comes any more; nothing where it has none.
    pub fn export_context(
        &mut self,
        (function, version): (u16, u16),
        slot: u32,
        out: &mut Vec<u8>,
    ) {
        let now = self.clock.now();
        if let Some(function) = self.element.functions_mut().get_mut(usize::from(function)) {
            function.instance.export_as(version, slot, now, out);
        }
    }

    /// The same without settings, which the context has at the other end as well, where the
    /// function writes that.
    pub fn export_state(&mut self, function: u16, slot: u32, out: &mut Vec<u8>) {
        let now = self.clock.now();
        if let Some(function) = self.element.functions_mut().get_mut(usize::from(function)) {
            function.instance.export_state(slot, now, out);
        }
    }

    /// Packets that wait for functions or for their bearers.
    pub fn waiting(&self) -> usize {
        self.queues.packets()
    }
}
