//! A worker of a node whose addresses another node had before: what still goes there comes on from
//! it, and is carried before what comes here directly.

use std::collections::VecDeque;

use weft_dpdk::Packet;

use super::BURSTS_AT_ONCE;
use super::in_flight::{OfInlets, SPARE};
use crate::worker::{BURST, Inlet, Worker};

/// The EtherType of the frame behind the last one that is relayed: the first of those for local
/// experiments (IEEE Std 802, 9.2.3).
pub const END_OF_RELAYED: u16 = 0x88b5;

/// Octets of an Ethernet header.
const ETHERNET: usize = 14;

/// What a worker has received directly, while the node before relays what has come to it.
#[derive(Debug, Default)]
pub struct Direct {
    held: OfInlets,
}

impl Direct {
    /// How many packets wait.
    pub fn waiting(&self) -> usize {
        self.held.len()
    }
}

/// What has come of a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relayed {
    /// Whether anything has come.
    pub is_busy: bool,
    /// There are too few buffers for more packets to wait.
    pub is_short: bool,
}

impl Worker {
    /// Carries what the node before relays: frames from its MAC address at a port (`source`).
    /// Others wait in `direct`. `ended` is told of ports at which it relays nothing any more.
    pub fn carry_relayed(
        &mut self,
        direct: &mut Direct,
        source: &dyn Fn(u16) -> Option<[u8; 6]>,
        ended: &mut dyn FnMut(u16),
    ) -> Relayed {
        let mut relayed = Relayed { is_busy: self.apply_commands(), is_short: false };
        for inlet in 0..self.inlets.len() {
            let port = self.inlets[inlet].port;
            let source = source(port);
            for _ in 0..BURSTS_AT_ONCE {
                relayed.is_short |= self.state.burst.pool.available() < SPARE;
                if relayed.is_short || self.receive(inlet) == 0 {
                    break;
                }
                relayed.is_busy = true;
                let packets: VecDeque<Packet> = self.state.burst.packets.drain().collect();
                for packet in packets {
                    match kind_of(packet.data(), source) {
                        Came::Directly => direct.held.push_back((inlet, packet)),
                        // A batch has room for what it had before.
                        Came::Relayed => drop(self.state.burst.packets.push(packet)),
                        Came::End => ended(port),
                    }
                }
                if !self.state.burst.packets.is_empty() {
                    self.carry_received(inlet);
                    self.drive_away();
                }
            }
        }
        relayed.is_busy |= self.take_over();
        relayed.is_busy |= self.drive_away();
        relayed.is_busy |= self.departure.relay();
        relayed
    }

    /// Carries what has come directly.
    pub fn carry_direct(&mut self, direct: &mut Direct) {
        while !direct.held.is_empty() {
            if let Some(inlet) = self.take_burst(&mut direct.held) {
                self.carry_received(inlet);
                self.drive_away();
            }
        }
        self.take_over();
        self.departure.relay();
    }

    /// Carries a bounded part of what was received, and gives up its receive queues: what comes
    /// from now on waits in these.
    pub fn stop_receiving(&mut self) -> Vec<Inlet> {
        self.drain_received(&mut |_, _| {});
        self.carry_all_waiting();
        std::mem::take(&mut self.inlets)
    }

    /// Receives from these queues again.
    pub fn receive_again(&mut self, inlets: Vec<Inlet>) {
        self.inlets.extend(inlets);
    }
}

/// How a frame has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Directly,
    Relayed,
    End,
}

fn kind_of(frame: &[u8], source: Option<[u8; 6]>) -> Came {
    let is_relayed = source.is_some_and(|source| frame.get(6..12) == Some(&source));
    match frame.get(12..ETHERNET) {
        Some(kind) if is_relayed && *kind == END_OF_RELAYED.to_be_bytes() => Came::End,
        _ if is_relayed => Came::Relayed,
        _ => Came::Directly,
    }
}

const _: () = assert!(BURST <= weft_dpdk::Batch::CAPACITY);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_apart_by_who_sends_them() {
        let (own, before, other) = ([2; 6], [4; 6], [6; 6]);
        let frame = |source: [u8; 6], kind: [u8; 2]| [&own[..], &source, &kind, &[0; 46]].concat();
        let of = |frame: &[u8]| kind_of(frame, Some(before));
        assert_eq!(of(&frame(before, [8, 0])), Came::Relayed);
        assert_eq!(of(&frame(other, [8, 0])), Came::Directly);
        assert_eq!(of(&frame(before, [0x88, 0xb5])), Came::End);
        // Who is not the node before cannot end it.
        assert_eq!(of(&frame(other, [0x88, 0xb5])), Came::Directly);
        assert_eq!(kind_of(&frame(before, [0x88, 0xb5]), None), Came::Directly);
        for length in 0..ETHERNET {
            assert_ne!(of(&frame(before, [0x88, 0xb5])[..length]), Came::End);
        }
    }
}
