//! Who talks to whom.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From users.
    Uplink,
    /// To users.
    Downlink,
}

/// The addresses of a stream's packets. Both ends are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoints {
    /// Which way the packets go.
    pub direction: Direction,
    /// Address of the first user; each further user has the next one.
    pub first_user: IpAddr,
    /// Address at the network's side, the same for all users.
    pub peer: IpAddr,
}

impl Endpoints {
    /// Address of the `nth` user, from 0.
    pub fn user(&self, nth: u32) -> IpAddr {
        match self.first_user {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(nth)).into(),
            IpAddr::V6(first) => {
                Ipv6Addr::from_bits(first.to_bits().wrapping_add(u128::from(nth))).into()
            }
        }
    }

    /// Source and destination address of a packet of the `nth` user.
    pub fn of(&self, nth: u32) -> (IpAddr, IpAddr) {
        match self.direction {
            Direction::Uplink => (self.user(nth), self.peer),
            Direction::Downlink => (self.peer, self.user(nth)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_addresses_in_a_row() {
        let v4 = Endpoints {
            direction: Direction::Uplink,
            first_user: "10.0.0.250".parse().unwrap(),
            peer: "192.0.2.1".parse().unwrap(),
        };
        assert_eq!(v4.of(0), (v4.first_user, v4.peer));
        assert_eq!(v4.of(7), ("10.0.1.1".parse().unwrap(), v4.peer));
        let v6 = Endpoints {
            direction: Direction::Downlink,
            first_user: "2001:db8::ffff".parse().unwrap(),
            peer: "2001:db8:1::1".parse().unwrap(),
        };
        assert_eq!(v6.of(1), (v6.peer, "2001:db8::1:0".parse().unwrap()));
    }
}
