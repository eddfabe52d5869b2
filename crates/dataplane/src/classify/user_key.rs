//! What packets of a user are known by.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_dpdk::Steering;

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
    /// A network behind the user, or a prefix of the user's of any length: the longest that an
    /// address lies in is the one that counts, behind all addresses of users.
    Route {
        /// Number of the network instance.
        network: u32,
        /// The first address; bits behind the prefix are 0.
        first: IpAddr,
        /// 0 to 32, or 0 to 128.
        prefix_len: u8,
    },
    /// The outer VLAN of packets that come in at a port.
    Vlan {
        /// Number of the port.
        port: usize,
        /// VLAN identifier of the first user.
        first: u16,
    },
    /// The PPPoE session of packets that come in at a port.
    Session {
        /// Number of the port.
        port: usize,
        /// Session identifier of the first user.
        first: u16,
    },
    /// Whatever else comes in at a port.
    Port {
        /// Number of the port.
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
    /// The number by whose last bits a user may be given its worker, so that what comes for it is
    /// received there: its TEID, its IPv4 address, or the second half of its prefix of 64 bits.
    pub fn number(&self) -> Option<u32> {
        match self {
            UserKey::Ipv4 { first, .. } => Some(first.to_bits()),
            UserKey::Ipv6 { first, .. } => Some((first.to_bits() >> 64) as u32),
            UserKey::Teid { first, .. } => Some(*first),
            _ => None,
        }
    }

    /// A TEID that says the same worker as a number of its user's, and is else as it was.
    pub fn teid_like(teid: u32, number: u32) -> u32 {
        teid - teid % Steering::PLACES + number % Steering::PLACES
    }

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
            UserKey::Port { .. } | UserKey::Flow { .. } | UserKey::Route { .. } => self,
        }
    }
}
