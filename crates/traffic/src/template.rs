//! What the packets of a stream look like.

use std::net::IpAddr;

use weft_dpdk::Pool;
use weft_wire::{MacAddress, ethernet, ipv4, ipv6, udp};

use crate::stamp::Stamp;
use crate::template::encapsulation::Encapsulation;
use crate::template::endpoints::Endpoints;
use crate::template::sizes::Sizes;

pub(crate) mod encapsulation;
pub(crate) mod endpoints;
pub(crate) mod prototype;
pub(crate) mod sizes;

/// The packets of a stream: Ethernet, IPv4 or IPv6, UDP, a [`Stamp`] and zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Number of the stream, by which the receiver knows it.
    pub stream: u16,
    /// Whose packets they are.
    pub endpoints: Endpoints,
    /// Bearers of each user, at least 1. Each is a flow of its own: the nth from
    /// 0 has the nth UDP port from `user_port`.
    pub bearers: u16,
    /// MAC address they come from.
    pub source_mac: MacAddress,
    /// MAC address they go to.
    pub destination_mac: MacAddress,
    /// UDP port at the users' side, of the first bearer.
    pub user_port: u16,
    /// UDP port at the network's side.
    pub peer_port: u16,
    /// How long they are.
    pub sizes: Sizes,
    /// What they are carried in.
    pub encapsulation: Encapsulation,
}

/// A template that no packets can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The two addresses are of different families.
    #[error("the addresses of users and peer are not of one family")]
    Families,
    /// A frame is too short for its headers and a stamp, or longer than a
    /// packet buffer.
    #[error("a frame of this stream has {least} to {most} bytes", most = Pool::PACKET_BYTES)]
    FrameBytes {
        /// The shortest there is.
        least: usize,
    },
    /// The last user would have an address beyond the last there is.
    #[error("the users' addresses go on beyond the last address there is")]
    Addresses,
    /// The last bearer would have a port beyond the last there is, or there are
    /// no bearers, or more flows than 2³².
    #[error("a user has 1 to {most} bearers here, and a stream fewer than 2^32 flows")]
    Bearers {
        /// How many there may be.
        most: u32,
    },
    /// There are no users, or all have weight 0, or there is not one weight for
    /// each flow.
    #[error("no user sends anything: give users, and a weight above 0")]
    Silent,
}

impl Template {
    /// Frames of 128 bytes between locally administered MAC addresses, one
    /// bearer for each user.
    pub fn new(stream: u16, endpoints: Endpoints) -> Template {
        Template {
            stream,
            endpoints,
            bearers: 1,
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            user_port: 40_000,
            peer_port: 50_000,
            sizes: Sizes::Fixed(128),
            encapsulation: Encapsulation::None,
        }
    }

    /// Bytes of the shortest frame that headers and stamp fit in.
    pub fn least_bytes(&self) -> usize {
        let ip_header = match self.endpoints.peer {
            IpAddr::V4(_) => ipv4::MIN_HEADER_LENGTH,
            IpAddr::V6(_) => ipv6::HEADER_LENGTH,
        };
        let headers = ethernet::HEADER_LENGTH + self.encapsulation.length() + ip_header;
        headers + udp::HEADER_LENGTH + Stamp::LENGTH
    }

    /// How many flows so many users have: one for each of their bearers.
    ///
    /// # Errors
    /// When addresses or ports do not suffice for them.
    pub(crate) fn flows(&self, users: u32) -> Result<u32, TemplateError> {
        let last = u128::from(users.saturating_sub(1));
        let room = match (self.endpoints.first_user, self.endpoints.peer) {
            (IpAddr::V4(first), IpAddr::V4(_)) => u128::from(u32::MAX - first.to_bits()),
            (IpAddr::V6(first), IpAddr::V6(_)) => u128::MAX - first.to_bits(),
            _ => return Err(TemplateError::Families),
        };
        if last > room {
            return Err(TemplateError::Addresses);
        }
        let most = u32::from(u16::MAX - self.user_port) + 1;
        let flows = users.checked_mul(self.bearers.into());
        flows
            .filter(|_| (1..=most).contains(&self.bearers.into()))
            .ok_or(TemplateError::Bearers { most })
    }
}
