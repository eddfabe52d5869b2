//! Ways over several functions at a NIC: each sends a packet to the next, and only the last sends
//! it back to the node.
//!
//! The node says the way with each packet, so it is always as the rules and the functions are at
//! that moment: a packet is to come back before a function that is not there, and finds its
//! policy here. As packets that go by themselves could overtake those that come back on the way,
//! they do so again only when none of these is on its way any more.

use arrayvec::ArrayVec;

use super::{Leaving, REMOTE_QUEUES};
use crate::offload::{Address, HOPS, NextHop, NextHops, RemoteQueue};

/// The queues whose functions can send packets to each other.
#[derive(Debug, Default)]
pub(crate) struct Links {
    addresses: Vec<Option<Address>>,
    /// RemoteQueues with an address, one bit for each.
    linked: u64,
    /// RemoteQueues to which packets come by the node although they could go there by themselves.
    detours: u64,
}

impl Links {
    /// The next queue.
    pub fn add(&mut self, remote_queue: &RemoteQueue) {
        let address = remote_queue.address();
        self.linked |= u64::from(address.is_some()) << (self.addresses.len() % REMOTE_QUEUES);
        self.addresses.push(address);
    }

    /// Whether a queue is one of these.
    #[inline]
    pub fn has(&self, remote_queue: usize) -> bool {
        self.linked >> remote_queue & 1 == 1
    }

    /// The queue of the function with this number.
    pub fn remote_queue(&self, function: u16) -> Option<usize> {
        let is_of = |address: &Option<Address>| address.is_some_and(|one| one.function == function);
        self.addresses.iter().position(is_of)
    }

    /// Where a packet goes by itself that leaves by one of these queues.
    pub fn onward(&mut self, remote_queues: &[RemoteQueue], leaving: &Leaving) -> NextHops {
        let mut onward = NextHops::NOWHERE;
        let own = usize::from(leaving.remote_queue);
        if leaving.place.plan == 0 {
            // It is steered by the rules as they were: whichever queues it comes to.
            self.detours = u64::MAX;
        }
        let mut on_way = ArrayVec::<usize, { HOPS + 1 }>::from_iter([own]);
        for next in leaving.ahead.remote_queues() {
            let (Some(Some(from)), Some(Some(to))) =
                (self.addresses.get(own), self.addresses.get(next))
            else {
                break;
            };
            if from.network != to.network {
                break;
            }
            let (remote_queue, bit) = (&remote_queues[next], 1 << next);
            if !remote_queue.is_up() || remote_queue.has_held() || leaving.watched {
                self.detours |= bit;
                break;
            }
            on_way.push(next);
            if self.detours & bit != 0 {
                if on_way.iter().any(|&remote_queue| remote_queues[remote_queue].is_busy()) {
                    break;
                }
                self.detours &= !bit;
            }
            let Some(Address { function, order, .. }) = remote_queue.address() else { break };
            if !onward.push(NextHop { function, order }) {
                break;
            }
            onward.writes |= remote_queue.writes();
        }
        onward
    }
}
