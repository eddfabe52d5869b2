//! Which packets are for the node itself, and not for a user.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_compose::{Burst, Positions};
use weft_function::{Headers, Packet};
use weft_wire::{MacAddress, Protocol};

/// What a router looks at before it forwards. A transparent port has none.
#[derive(Clone, Debug)]
pub struct OwnAddresses {
    /// MAC address of the port.
    pub mac: MacAddress,
    /// IP addresses of the node, at any port.
    pub addresses: Vec<IpAddr>,
    /// Those of IPv4.
    pub ipv4: Vec<Ipv4Addr>,
    /// Broadcast addresses of the subnets of all ports.
    pub broadcasts: Vec<Ipv4Addr>,
    /// Both of these, to be asked first.
    pub known: AddressFilter,
    /// The least MTU of all ports that route, in bytes.
    pub least_mtu: u16,
    /// Whether service paths lead through the node.
    pub service: bool,
}

/// A set of IPv4 addresses, of which it may be said to have more than it has: a bit for each of 64
/// classes of addresses. Nearly all packets go to none of the few that a node has.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressFilter(u64);

impl AddressFilter {
    /// The set of these.
    pub fn of<'a>(addresses: impl IntoIterator<Item = &'a Ipv4Addr>) -> AddressFilter {
        let bits = addresses.into_iter().map(|address| 1 << Self::class(*address));
        AddressFilter(bits.fold(0, |all, bit: u64| all | bit))
    }

    /// Whether the address may be in the set; a no is sure.
    #[inline(always)]
    pub fn may_have(self, address: Ipv4Addr) -> bool {
        self.0 >> Self::class(address) & 1 != 0
    }

    #[inline(always)]
    fn class(address: Ipv4Addr) -> u32 {
        // Fibonacci hashing; the order of the octets does not matter.
        u32::from_ne_bytes(address.octets()).wrapping_mul(0x9e37_79b1) >> 26
    }
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
    /// With an address that no router forwards.
    pub martian: Positions,
    /// Of those to be carried, what may be refused as it leaves: on its last
    /// hop, or longer than some port takes.
    pub doubtful: Positions,
    /// With a service header behind a UDP header.
    pub service: Positions,
    /// Of those to be carried, what came in a tunnel that ends here.
    pub tunnelled: Positions,
    /// What came in a tunnel and is not to be carried; see
    /// [`reason_of`](crate::parse::reason_of).
    pub refused: Positions,
}

impl Divided {
    /// Those that go no further.
    #[inline]
    pub fn ending(&self) -> Positions {
        self.local.or(self.foreign).or(self.martian).or(self.refused).or(self.service)
    }
}

impl OwnAddresses {
    /// Divides the IP packets of a burst.
    #[inline]
    pub fn divide(&self, burst: &mut Burst, packets: Positions) -> Divided {
        let mut divided = Divided::default();
        for position in packets {
            let packet = &burst.packets[position];
            let Some((from, to)) = packet.addresses() else { continue };
            if self.addresses.contains(&to) || is_link_scoped(to) && is_discovery(packet) {
                divided.local.insert(position);
            } else if station(packet) != self.mac {
                divided.foreign.insert(position);
            } else if self.is_martian(from, to) {
                divided.martian.insert(position);
            } else if is_on_last_hop(packet) || packet.ip_length() > usize::from(self.least_mtu) {
                divided.doubtful.insert(position);
            }
        }
        if !divided.local.is_empty() {
            self.open_tunnels(burst, &mut divided);
        }
        divided.transit = packets.without(divided.ending());
        divided
    }

    /// Whether a router must not forward between these addresses: one of them
    /// names no host beyond a link (RFC 1812 §5.3.7, RFC 4291 §2, RFC 6890
    /// §2.2), or all hosts of a subnet (RFC 2644).
    #[inline]
    pub(crate) fn is_martian(&self, from: IpAddr, to: IpAddr) -> bool {
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                if is_usual(from.octets()[0]) && is_usual(to.octets()[0]) {
                    return self.broadcasts.contains(&to);
                }
                let is_no_host = |address: Ipv4Addr| matches!(address.octets()[0], 0 | 127 | 240..);
                is_no_host(from)
                    || is_no_host(to)
                    || from.is_multicast()
                    || from.is_link_local()
                    || is_link_scoped(to.into())
                    || self.broadcasts.contains(&to)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => is_martian_v6(from, to),
            _ => true,
        }
    }
}

/// Whether an IPv4 address with this first octet names a host beyond a link, unless
/// it is a subnet's own: nearly all do.
#[inline(always)]
pub(crate) fn is_usual(first: u8) -> bool {
    USUAL[usize::from(first)]
}

static USUAL: [bool; 256] = {
    let (mut usual, mut first) = ([false; 256], 0);
    while first < usual.len() {
        usual[first] = !matches!(first, 0 | 127 | 169 | 224..);
        first += 1;
    }
    usual
};

/// The address of all hosts of a subnet; subnets of two addresses have none
/// (RFC 3021).
pub fn broadcast_of(address: IpAddr, prefix_length: u8) -> Option<Ipv4Addr> {
    let IpAddr::V4(address) = address else { return None };
    let hosts = u32::MAX.checked_shr(prefix_length.into()).unwrap_or(0);
    (hosts > 1).then(|| Ipv4Addr::from_bits(address.to_bits() | hosts))
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

fn is_martian_v6(from: Ipv6Addr, to: Ipv6Addr) -> bool {
    let is_no_host = |address: Ipv6Addr| {
        address.is_unspecified() || address.is_loopback() || address.to_ipv4_mapped().is_some()
    };
    is_no_host(from)
        || is_no_host(to)
        || from.is_multicast()
        // Groups of the reserved scope, and of one interface.
        || to.is_multicast() && to.segments()[0] & 0x000f < 2
        || is_link_scoped_v6(from)
        || is_link_scoped_v6(to)
}

/// Whether no router may forward the packet any more.
#[inline]
fn is_on_last_hop(packet: &Packet) -> bool {
    packet.hop_limit().is_some_and(|hops| hops <= 1)
}

/// Neighbour discovery (RFC 4861 §4): ICMPv6 types 133 to 137.
pub(crate) fn is_discovery(packet: &Packet) -> bool {
    packet.protocol() == Some(Protocol::ICMPV6)
        && packet.transport().and_then(|icmp| icmp.first()).is_some_and(|t| (133..=137).contains(t))
}
