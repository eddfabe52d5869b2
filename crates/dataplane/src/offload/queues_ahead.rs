//! Ways over several functions at a NIC: each sends a packet to the next, and only the last sends
//! it back to the node.
//!
//! The node says the way with each packet, so it is always as the rules and the functions are at
//! that moment: a packet is to come back before a function that is not there, and finds its
//! policy here. As packets that go by themselves could overtake those that come back on the way,
//! they do so again only when none of these is on its way any more.

use arrayvec::ArrayVec;

use super::remote_queues::{LANES, Leaving};
use crate::offload::{Address, HOPS, NextHop, NextHops, RemoteQueue};

/// RemoteQueues that a packet comes to in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuesAhead {
    count: u8,
    lanes: [u8; HOPS],
}

impl QueuesAhead {
    /// Adds one; false where there is no room.
    pub fn push(&mut self, lane: u16) -> bool {
        let Some(place) = self.lanes.get_mut(usize::from(self.count)) else { return false };
        *place = lane as u8;
        self.count += 1;
        true
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn lanes(&self) -> impl Iterator<Item = usize> {
        self.lanes.into_iter().take(self.count.into()).map(usize::from)
    }
}

/// The lanes whose functions can send packets to each other.
#[derive(Debug, Default)]
pub(crate) struct Links {
    addresses: Vec<Option<Address>>,
    /// RemoteQueues with an address, one bit for each.
    linked: u64,
    /// RemoteQueues to which packets come by the node although they could go there by themselves.
    detours: u64,
}

impl Links {
    /// The next lane.
    pub fn add(&mut self, lane: &RemoteQueue) {
        let address = lane.address();
        self.linked |= u64::from(address.is_some()) << (self.addresses.len() % LANES);
        self.addresses.push(address);
    }

    /// Whether a lane is one of these.
    #[inline]
    pub fn has(&self, lane: usize) -> bool {
        self.linked >> lane & 1 == 1
    }

    /// The lane of the function with this number.
    pub fn lane(&self, function: u16) -> Option<usize> {
        let is_of = |address: &Option<Address>| address.is_some_and(|one| one.function == function);
        self.addresses.iter().position(is_of)
    }

    /// Where a packet goes by itself that leaves by one of these lanes.
    pub fn onward(&mut self, lanes: &[RemoteQueue], leaving: &Leaving) -> NextHops {
        let mut onward = NextHops::NOWHERE;
        let own = usize::from(leaving.lane);
        if leaving.place.plan == 0 {
            // It is steered by the rules as they were: whichever lanes it comes to.
            self.detours = u64::MAX;
        }
        let mut on_way = ArrayVec::<usize, { HOPS + 1 }>::from_iter([own]);
        for next in leaving.ahead.lanes() {
            let (Some(Some(from)), Some(Some(to))) =
                (self.addresses.get(own), self.addresses.get(next))
            else {
                break;
            };
            if from.network != to.network {
                break;
            }
            let (lane, bit) = (&lanes[next], 1 << next);
            if !lane.is_up() || lane.has_held() || leaving.watched {
                self.detours |= bit;
                break;
            }
            on_way.push(next);
            if self.detours & bit != 0 {
                if on_way.iter().any(|&lane| lanes[lane].is_busy()) {
                    break;
                }
                self.detours &= !bit;
            }
            let Some(Address { function, order, .. }) = lane.address() else { break };
            if !onward.push(NextHop { function, order }) {
                break;
            }
            onward.writes |= lane.writes();
        }
        onward
    }
}
