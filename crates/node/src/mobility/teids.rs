//! TEIDs of users that move, which only the nodes can tell.
//!
//! Both ends of a tunnel compute its TEID from the user's number and the epoch. So that
//! others cannot, these are enciphered: a Feistel network of four rounds over 30 bits, whose
//! round function is HMAC-SHA-256 under a key that is derived from the nodes' secret (Luby
//! and Rackoff, SIAM J. Comput. 17(2), 1988: a permutation that is hard to tell from a
//! random one, so two tunnels never have one TEID).

use ring::hmac;
use weft_dataplane::gates::tunnel::{MovingTunnel, Purpose, SECRET_BITS, secret, teid};
use weft_mobility_protocol::{Direction, Epoch};

const ROUNDS: u8 = 4;
const HALF: u32 = SECRET_BITS / 2;
const MASK: u32 = (1 << HALF) - 1;
/// So that the key is of no other use of the secret.
const LABEL: &[u8] = b"weft: TEIDs of users that move";

/// Makes TEIDs.
pub(super) struct Teids {
    key: hmac::Key,
}

impl Teids {
    /// Those of nodes that share a secret.
    pub fn new(secret: &[u8]) -> Teids {
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), LABEL);
        Teids { key: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()) }
    }

    /// The TEID of a tunnel.
    pub fn of(&self, purpose: Purpose, user: u32, epoch: Epoch) -> u32 {
        let plain = secret(user, epoch);
        let (mut left, mut right) = (plain >> HALF, plain & MASK);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.mixed(purpose, round, right));
        }
        teid(purpose, left << HALF | right)
    }

    /// A tunnel of a user.
    pub fn tunnel(&self, purpose: Purpose, user: u32, epoch: Epoch) -> MovingTunnel {
        MovingTunnel { purpose, epoch, teid: self.of(purpose, user, epoch) }
    }

    fn mixed(&self, purpose: Purpose, round: u8, half: u32) -> u32 {
        let purpose = match purpose {
            Purpose::Fresh => 0,
            Purpose::Forwarded(Direction::Uplink) => 1,
            Purpose::Forwarded(Direction::Downlink) => 2,
        };
        let [_, _, high, low] = half.to_be_bytes();
        let tag = hmac::sign(&self.key, &[purpose, round, high, low]);
        let first = tag.as_ref().first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets));
        first & MASK
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tunnels_have_teids_of_their_own_that_both_ends_compute() {
        let (one, same, other) =
            (Teids::new(b"a secret"), Teids::new(b"a secret"), Teids::new(b"another"));
        let purposes = [
            Purpose::Fresh,
            Purpose::Forwarded(Direction::Uplink),
            Purpose::Forwarded(Direction::Downlink),
        ];
        let mut seen = HashSet::new();
        let (mut next, mut shared) = (0, 0);
        for purpose in purposes {
            for user in 0..40 {
                for epoch in (0..40).map(Epoch) {
                    let teid = one.of(purpose, user, epoch);
                    assert_eq!(teid, same.of(purpose, user, epoch));
                    assert!(seen.insert(teid), "{teid:#x} twice");
                    let behind = one.of(purpose, user, Epoch(epoch.0 + 1));
                    next += u32::from(behind.abs_diff(teid) < 1 << 10);
                    shared += u32::from(teid == other.of(purpose, user, epoch));
                }
            }
        }
        // Of 4,800: what follows is not near, and another secret tells nothing.
        assert!(next < 5 && shared < 2, "{next} {shared}");
    }
}
