//! Users, their bearers, and how they are found.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_compose::Settings;
use weft_dpdk::TAG_SLOTS;
use weft_rules::Condition;

/// One group of users.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Name.
    pub name: String,
    /// Settings, each with a position in [`Blueprint::functions`](super::Blueprint::functions).
    pub settings: Vec<(usize, Settings)>,
}

/// Users in a row that differ in nothing but their number.
#[derive(Clone, Debug)]
pub struct UserPlan {
    /// Name of the only user, or what stands before the number in the names of
    /// several.
    pub name: String,
    /// How many users; at least one.
    pub count: u32,
    /// What finds the first of them, at least one key; see [`UserKey::nth`].
    pub keys: Vec<UserKey>,
    /// Tag values by slot. The chain is [`weft_rules::NO_CHAIN`] for none; the
    /// direction is 0, it depends on the port.
    pub tags: [u32; TAG_SLOTS],
    /// Number of the distinct tag vector, see [`Blueprint::classes`](super::Blueprint::classes).
    pub class: usize,
    /// A position in [`Blueprint::groups`](super::Blueprint::groups).
    pub group: Option<usize>,
    /// Settings of the users and their default bearers, each with a position in
    /// [`Blueprint::functions`](super::Blueprint::functions).
    pub settings: Vec<(usize, Settings)>,
    /// A position in [`Blueprint::bearer_profiles`](super::Blueprint::bearer_profiles).
    pub bearers: Option<usize>,
}

impl UserPlan {
    /// Name of the `nth` user, from 0.
    pub fn name_of(&self, nth: u32) -> String {
        match self.count {
            1 => self.name.clone(),
            _ => format!("{}-{nth}", self.name),
        }
    }
}

/// What the classifier finds a user by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserKey {
    /// The user's IPv4 address in a network instance.
    Ipv4 {
        /// Number of the network instance.
        network: u32,
        /// Address of the first user.
        first: Ipv4Addr,
    },
    /// The user's IPv6 address or prefix in a network instance.
    Ipv6 {
        /// Number of the network instance.
        network: u32,
        /// Address or prefix of the first user; bits behind the prefix are 0.
        first: Ipv6Addr,
        /// 64 or 128.
        prefix_len: u8,
    },
    /// The outer VLAN of packets that come in at a port.
    Vlan {
        /// A position in [`Blueprint::ports`](super::Blueprint::ports).
        port: usize,
        /// VLAN identifier of the first user.
        first: u16,
    },
    /// The PPPoE session of packets that come in at a port.
    Session {
        /// A position in [`Blueprint::ports`](super::Blueprint::ports).
        port: usize,
        /// Session identifier of the first user.
        first: u16,
    },
    /// Whatever else comes in at a port.
    Port {
        /// A position in [`Blueprint::ports`](super::Blueprint::ports).
        port: usize,
    },
    /// The tunnel endpoint that packets are sent to in a network instance,
    /// whatever is inside.
    Teid {
        /// Number of the network instance.
        network: u32,
        /// TEID of the first user.
        first: u32,
    },
    /// The security association (RFC 4303 §2.1) of ESP packets that come in at a
    /// network instance.
    Spi {
        /// Number of the network instance.
        network: u32,
        /// SPI of the first user.
        first: u32,
    },
    /// One flow, as seen uplink; source and destination change places downlink.
    Flow {
        /// Number of the network instance.
        network: u32,
        /// IP protocol number.
        protocol: u8,
        /// Address at the user's side.
        source: IpAddr,
        /// Port at the user's side; 0 for a protocol without ports.
        source_port: u16,
        /// Address at the network's side; of the same family as `source`.
        destination: IpAddr,
        /// Port at the network's side; 0 for a protocol without ports.
        destination_port: u16,
    },
}

impl UserKey {
    /// The key of the `nth` user, from 0, where this is the first one's.
    pub fn nth(self, nth: u32) -> UserKey {
        match self {
            UserKey::Ipv4 { network, first } => {
                let first = Ipv4Addr::from_bits(first.to_bits().wrapping_add(nth));
                UserKey::Ipv4 { network, first }
            }
            UserKey::Ipv6 { network, first, prefix_len } => {
                let step = u128::from(nth) << if prefix_len == 64 { 64 } else { 0 };
                let first = Ipv6Addr::from_bits(first.to_bits().wrapping_add(step));
                UserKey::Ipv6 { network, first, prefix_len }
            }
            UserKey::Vlan { port, first } => {
                UserKey::Vlan { port, first: first.wrapping_add(nth as u16) }
            }
            UserKey::Teid { network, first } => {
                UserKey::Teid { network, first: first.wrapping_add(nth) }
            }
            UserKey::Spi { network, first } => {
                UserKey::Spi { network, first: first.wrapping_add(nth) }
            }
            UserKey::Session { port, first } => {
                UserKey::Session { port, first: first.wrapping_add(nth as u16) }
            }
            UserKey::Port { .. } | UserKey::Flow { .. } => self,
        }
    }
}

/// One dedicated bearer (TS 23.401 §4.7.2) of some users.
#[derive(Clone, Debug)]
pub struct BearerPlan {
    /// Name.
    pub name: String,
    /// The user's packets that it carries, unless an earlier one does.
    pub when: Condition,
    /// Settings, each with a position in [`Blueprint::functions`](super::Blueprint::functions).
    pub settings: Vec<(usize, Settings)>,
}
