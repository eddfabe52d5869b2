//! Which packets are for the node itself, and not for a user.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_compose::{Burst, Positions};
use weft_function::{Headers, Packet};
use weft_wire::{MacAddress, Protocol};

/// What a router looks at before it forwards. A transparent port has none.
#[derive(Clone, Debug)]
pub struct Own {
    /// MAC address of the port.
    pub mac: MacAddress,
    /// IP addresses of the node, at any port.
    pub addresses: Vec<IpAddr>,
}

/// How the packets of a burst divide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Divided {
    /// To be carried.
    pub transit: Positions,
    /// For the node.
    pub local: Positions,
    /// For another station of the link, or for all of them.
    pub foreign: Positions,
}

impl Own {
    /// Divides the IP packets of a burst.
    #[inline]
    pub fn divide(&self, burst: &Burst, packets: Positions) -> Divided {
        let mut divided = Divided { transit: packets, ..Divided::default() };
        for position in packets {
            let packet = &burst.packets[position];
            let to = station(packet);
            if self.is_local(packet) {
                divided.local.insert(position);
                divided.transit.remove(position);
            } else if to != self.mac {
                divided.foreign.insert(position);
                divided.transit.remove(position);
            }
        }
        divided
    }

    #[inline]
    fn is_local(&self, packet: &Packet) -> bool {
        let Some((_, to)) = packet.addresses() else { return false };
        self.addresses.contains(&to) || is_link_scoped(to) && is_discovery(packet)
    }
}

#[inline]
fn station(packet: &Packet) -> MacAddress {
    packet.data().first_chunk().map_or(MacAddress::default(), |bytes| MacAddress(*bytes))
}

/// Addresses that no router forwards to (RFC 4291 §2.5.6, §2.7; RFC 3927 §7).
pub fn is_link_scoped(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address == Ipv4Addr::BROADCAST
                || address.is_link_local()
                || address.octets()[..3] == [224, 0, 0]
        }
        IpAddr::V6(address) => is_link_scoped_v6(address),
    }
}

fn is_link_scoped_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    first & 0xffc0 == 0xfe80 || first & 0xff0f == 0xff02
}

/// Neighbour discovery (RFC 4861 §4): ICMPv6 types 133 to 137.
fn is_discovery(packet: &Packet) -> bool {
    packet.protocol() == Some(Protocol::ICMPV6)
        && packet.transport().and_then(|icmp| icmp.first()).is_some_and(|t| (133..=137).contains(t))
}
