//! A queue of received packets that is fair between users: each user's packets go to one of some
//! buckets, which are served in turn, and where there is no room it is the longest that loses
//! (stochastic fairness queueing: McKenney, INFOCOM 1990; RFC 7806 §3).

use std::collections::VecDeque;

use weft_dpdk::{Batch, Packet};
use weft_function::Direction;
use weft_wire::{EtherType, Protocol, ethernet, gtpu, ipv4, ipv6, udp};

/// Buckets. Users that share one share its turns.
const BUCKETS: usize = 64;

/// Packets that wait, in buckets.
#[derive(Debug)]
pub(crate) struct FairQueue {
    buckets: [VecDeque<Packet>; BUCKETS],
    packets: usize,
    /// The bucket whose turn it is.
    next: usize,
    /// What buckets depend on, so that a sender cannot choose its own.
    seed: u64,
}

impl FairQueue {
    /// An empty queue; `seed` is what a sender does not know.
    pub fn new(seed: u64) -> FairQueue {
        FairQueue {
            buckets: [const { VecDeque::new() }; BUCKETS],
            packets: 0,
            next: 0,
            seed: seed | 1,
        }
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Adds a packet that came in this direction. Where more than `most` wait then, the last one
    /// of the longest bucket has no room, and is given back.
    pub fn push(&mut self, packet: Packet, direction: Direction, most: usize) -> Option<Packet> {
        let key = user_key(packet.data(), direction).wrapping_mul(self.seed);
        let own = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize;
        self.buckets[own].push_back(packet);
        self.packets += 1;
        if self.packets <= most {
            return None;
        }
        let longest = (0..BUCKETS).max_by_key(|bucket| self.buckets[*bucket].len())?;
        // A bucket that is as long as any other loses what has just come.
        let is_longest = self.buckets[own].len() >= self.buckets[longest].len();
        self.packets -= 1;
        self.buckets[if is_longest { own } else { longest }].pop_back()
    }

    /// Moves up to `count` packets into a burst, one of each bucket in turn.
    pub fn take(&mut self, burst: &mut Batch, count: usize) {
        for _ in 0..count.min(self.packets) {
            while self.buckets[self.next].is_empty() {
                self.next = (self.next + 1) % BUCKETS;
            }
            let bucket = &mut self.buckets[self.next];
            let Some(packet) = bucket.pop_front() else { return };
            if let Err(packet) = burst.push(packet) {
                bucket.push_front(packet);
                return;
            }
            self.packets -= 1;
            self.next = (self.next + 1) % BUCKETS;
        }
    }
}

/// A number for the user of a frame: the TEID of a tunnel, else the address at the user's end of
/// the direction. Frames without either are of one user.
fn user_key(frame: &[u8], direction: Direction) -> u64 {
    let of = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk::<4>());
    let word = |at: usize| of(at).map_or(0, |octets| u64::from(u32::from_be_bytes(*octets)));
    let ether_type = |at: usize| EtherType((word(at) >> 16) as u16);
    let mut network = ethernet::HEADER_LENGTH;
    let mut kind = ether_type(network - 2);
    if kind == EtherType::VLAN {
        network += 4;
        kind = ether_type(network - 2);
    }
    let (protocol, transport, source, length) = match kind {
        EtherType::IPV4 => {
            let header = usize::from(frame.get(network).copied().unwrap_or(0) & 15) * 4;
            let header = header.max(ipv4::MIN_HEADER_LENGTH);
            (frame.get(network + 9), network + header, network + 12, 4)
        }
        EtherType::IPV6 => (frame.get(network + 6), network + ipv6::HEADER_LENGTH, network + 8, 16),
        _ => return 0,
    };
    if protocol == Some(&Protocol::UDP.0) && word(transport) as u16 == gtpu::PORT {
        return word(transport + udp::HEADER_LENGTH + 4);
    }
    let address = match direction {
        Direction::Uplink => source,
        Direction::Downlink => source + length,
    };
    // Of IPv6 a user has a prefix of 64 bits.
    match length {
        4 => word(address),
        _ => word(address) << 32 | word(address + 4),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ipv4(source: [u8; 4], destination: [u8; 4], protocol: u8, behind: &[u8]) -> Vec<u8> {
        let mut header = [0; 20];
        (header[0], header[9]) = (0x45, protocol);
        header[12..16].copy_from_slice(&source);
        header[16..].copy_from_slice(&destination);
        [&[0; 12][..], &[8, 0], &header, behind].concat()
    }

    #[test]
    fn a_user_is_known_by_tunnel_or_address() {
        let (user, far) = ([10, 0, 0, 7], [192, 0, 2, 1]);
        let address = u64::from(u32::from_be_bytes(user));
        assert_eq!(user_key(&ipv4(user, far, 6, &[]), Direction::Uplink), address);
        assert_eq!(user_key(&ipv4(far, user, 17, &[0, 1, 0, 2]), Direction::Downlink), address);
        let datagram = [&[8, 104, 8, 104, 0, 0, 0, 0][..], &[0x30, 255, 0, 0, 0, 0, 1, 2]].concat();
        assert_eq!(user_key(&ipv4(far, user, 17, &datagram), Direction::Uplink), 0x102);
        let mut tagged = ipv4(user, far, 6, &[]);
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(user_key(&tagged, Direction::Uplink), address);
        let mut ipv6 = [&[0; 12][..], &[0x86, 0xdd], &[0; 40]].concat();
        ipv6[14 + 8..14 + 16].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 9]);
        assert_eq!(user_key(&ipv6, Direction::Uplink), 0x2001_0db8_0000_0009);
        assert_eq!(user_key(&ipv6, Direction::Downlink), 0);
    }

    proptest! {
        #[test]
        fn any_frame_has_a_user(frame in prop::collection::vec(any::<u8>(), 0..80)) {
            user_key(&frame, Direction::Uplink);
            user_key(&frame, Direction::Downlink);
        }
    }
}
