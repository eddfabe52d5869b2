//! Which of a user's bearers carries a packet, where users have several.
//!
//! A selector is looked for under the slot of its user, which was found before,
//! so nothing that a sender writes leads to a bearer of another user. Filters
//! of the same fields share a mask: one lookup for each mask in use, the one
//! with the most fields first, then the QoS flow identifier.

use std::net::IpAddr;

use weft_dpdk::Table;
use weft_function::{Direction, Headers, Packet, Tunnel};

use super::{Filter, Selector};

const PROTOCOL: u8 = 1;
const REMOTE: u8 = 2;
const REMOTE_PORT: u8 = 4;
const USER_PORT: u8 = 8;
/// The number of the mask that has the QoS flow identifier and nothing else.
const QFI: usize = 16;

/// Slots of bearers, by their user's slot and a selector.
#[derive(Debug)]
pub struct Selectors {
    bearers: Table<[u64; 5]>,
    /// Selectors of each mask.
    masks: [u32; QFI + 1],
}

/// A packet's part of a flow, as the user sees it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    protocol: u8,
    remote: IpAddr,
    remote_port: u16,
    user_port: u16,
}

impl Selectors {
    /// Room for so many selectors.
    pub fn with_capacity(capacity: usize) -> Selectors {
        Selectors { bearers: Table::with_capacity(capacity), masks: [0; QFI + 1] }
    }

    /// Lets the user's packets that `selector` is of go to the bearer at `slot`.
    /// The agent has seen that there is room.
    pub fn insert(&mut self, user: u32, selector: &Selector, slot: u32) {
        if self.bearers.insert(key(user, selector), slot).is_ok_and(|old| old.is_none()) {
            self.masks[mask(selector)] += 1;
        }
    }

    /// Forgets a selector.
    pub fn remove(&mut self, user: u32, selector: &Selector) {
        if self.bearers.remove(&key(user, selector)).is_some() {
            self.masks[mask(selector)] -= 1;
        }
    }

    /// The slot of the user's bearer that carries `packet`, if it is not the
    /// default bearer.
    pub fn choose(&self, user: u32, packet: &Packet, direction: Direction) -> Option<u32> {
        let seen = seen(packet, direction);
        let used = |mask: &usize| self.masks[*mask] > 0;
        for mask in MASKS.iter().copied().filter(used) {
            let key = seen.map(|seen| filter_key(user, &seen.masked(mask as u8)));
            if let Some(slot) = key.and_then(|key| self.bearers.get(&key)) {
                return Some(slot);
            }
        }
        if self.masks[QFI] == 0 {
            return None;
        }
        let session = packet.message()?.pdu_session().ok()??;
        self.bearers.get(&key(user, &Selector::Qfi(session.qfi())))
    }
}

/// The masks of filters, those with the most fields first.
const MASKS: [usize; 15] = [15, 7, 11, 13, 14, 3, 5, 6, 9, 10, 12, 1, 2, 4, 8];

impl Seen {
    /// The filter of these fields that the packet passes.
    fn masked(&self, mask: u8) -> Filter {
        let has = |field: u8| mask & field != 0;
        Filter {
            protocol: has(PROTOCOL).then_some(self.protocol),
            remote: has(REMOTE).then_some(self.remote),
            remote_port: has(REMOTE_PORT).then_some(self.remote_port),
            user_port: has(USER_PORT).then_some(self.user_port),
        }
    }
}

fn seen(packet: &Packet, direction: Direction) -> Option<Seen> {
    let (source, destination) = packet.addresses()?;
    let protocol = packet.protocol()?.0;
    // What has no ports is as if they were 0.
    let (from, to) = packet.ports().unwrap_or_default();
    Some(match direction {
        Direction::Uplink => {
            Seen { protocol, remote: destination, remote_port: to, user_port: from }
        }
        Direction::Downlink => Seen { protocol, remote: source, remote_port: from, user_port: to },
    })
}

fn mask(selector: &Selector) -> usize {
    match selector {
        Selector::Qfi(_) => QFI,
        Selector::Filter(filter) => usize::from(filter_mask(filter)),
    }
}

fn filter_mask(filter: &Filter) -> u8 {
    let field = |given: bool, bit: u8| if given { bit } else { 0 };
    field(filter.protocol.is_some(), PROTOCOL)
        | field(filter.remote.is_some(), REMOTE)
        | field(filter.remote_port.is_some(), REMOTE_PORT)
        | field(filter.user_port.is_some(), USER_PORT)
}

fn key(user: u32, selector: &Selector) -> [u64; 5] {
    match selector {
        Selector::Qfi(qfi) => [0, 0, u64::from(qfi.value()), QFI as u64, user.into()],
        Selector::Filter(filter) => filter_key(user, filter),
    }
}

fn filter_key(user: u32, filter: &Filter) -> [u64; 5] {
    let remote = match filter.remote {
        None => 0,
        Some(IpAddr::V4(address)) => address.to_ipv6_mapped().to_bits(),
        Some(IpAddr::V6(address)) => address.to_bits(),
    };
    let number = |field: Option<u16>| u64::from(field.unwrap_or_default());
    let fields = u64::from(filter.protocol.unwrap_or_default()) << 32
        | number(filter.remote_port) << 16
        | number(filter.user_port);
    let mask = u64::from(filter_mask(filter));
    [(remote >> 64) as u64, remote as u64, fields, mask, user.into()]
}
