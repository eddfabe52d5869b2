//! What the node is on a link, and the frames by which it says so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_wire::checksum::PseudoHeader;
use weft_wire::ip::Protocol;
use weft_wire::{EtherType, MacAddress, arp, ethernet, icmpv6, ipv6};

use crate::ports::icmp::is_host;

/// Shortest Ethernet frame without its check sequence (IEEE 802.3 §4A.4.2).
const MIN_FRAME_LENGTH: usize = 60;
/// The group of all IPv6 nodes on a link (RFC 4291 §2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What the node is on the link of one port.
#[derive(Clone, Debug)]
pub struct Link {
    mac: MacAddress,
    addresses: Vec<(IpAddr, u8)>,
    proxied: Vec<(IpAddr, u8)>,
}

impl Link {
    /// A station with a MAC address and IP addresses, each with the prefix
    /// length of its subnet, which answers for the proxied prefixes too. Where
    /// it speaks IPv6, it has the link-local address of its MAC address (RFC
    /// 4291 appendix A) unless it is given another.
    pub fn new(
        mac: MacAddress,
        mut addresses: Vec<(IpAddr, u8)>,
        proxied: Vec<(IpAddr, u8)>,
    ) -> Self {
        let speaks_v6 = addresses.iter().chain(&proxied).any(|(address, _)| address.is_ipv6());
        if speaks_v6 && !addresses.iter().any(|(address, _)| is_link_local(*address)) {
            addresses.push((link_local(mac).into(), 64));
        }
        Self { mac, addresses, proxied }
    }

    /// MAC address of the port.
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    /// Own addresses with prefix lengths, the link-local one included.
    pub fn addresses(&self) -> &[(IpAddr, u8)] {
        &self.addresses
    }

    /// The node has this address here.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// The address is one host's in a subnet of this link.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        is_host(address) && self.addresses.iter().any(|subnet| covers(*subnet, address))
    }

    /// The node answers for the address, which is one host's elsewhere.
    pub(super) fn is_proxied(&self, address: IpAddr) -> bool {
        is_host(address)
            && self.group_mac(address).is_none()
            && self.proxied.iter().any(|prefix| covers(*prefix, address))
    }

    /// MAC address of a group of stations, which needs no request.
    pub(super) fn group_mac(&self, address: IpAddr) -> Option<MacAddress> {
        match address {
            IpAddr::V4(group) if group.is_multicast() => Some(MacAddress::of_ipv4_multicast(group)),
            IpAddr::V6(group) if group.is_multicast() => Some(MacAddress::of_ipv6_multicast(group)),
            IpAddr::V4(address) => self.is_broadcast(address).then_some(MacAddress::BROADCAST),
            IpAddr::V6(_) => None,
        }
    }

    /// The broadcast address of all links, or of a subnet of this one; subnets
    /// of two addresses have none (RFC 3021).
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let ends_subnet = |subnet: &(IpAddr, u8)| {
            let host_bits = u32::MAX.checked_shr(subnet.1.into()).unwrap_or(0);
            host_bits > 1
                && address.to_bits() & host_bits == host_bits
                && covers(*subnet, address.into())
        };
        address.is_broadcast() || self.addresses.iter().any(ends_subnet)
    }

    /// The own address from which `target` is asked for: one of its subnet, or
    /// any of its family.
    pub(super) fn source_for(&self, target: IpAddr) -> Option<IpAddr> {
        let same_family = |own: &&(IpAddr, u8)| own.0.is_ipv4() == target.is_ipv4();
        let candidates = || self.addresses.iter().filter(same_family);
        let (source, _) =
            candidates().find(|own| covers(**own, target)).or_else(|| candidates().next())?;
        Some(*source)
    }

    /// A frame that asks who has `target`: everyone who may have it, or the one
    /// station that had it.
    pub(super) fn request(&self, target: IpAddr, known: Option<MacAddress>) -> Option<Vec<u8>> {
        match (self.source_for(target)?, target) {
            (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) => {
                let request = arp::Repr {
                    operation: arp::Operation::REQUEST,
                    sender_mac: self.mac,
                    sender_ip,
                    target_mac: MacAddress::UNSPECIFIED,
                    target_ip,
                };
                self.arp_frame(known.unwrap_or(MacAddress::BROADCAST), &request)
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                let group = icmpv6::solicited_node(target);
                let (mac, destination) = match known {
                    Some(mac) => (mac, target),
                    None => (MacAddress::of_ipv6_multicast(group), group),
                };
                let source_mac = Some(self.mac);
                let message = icmpv6::Repr::NeighbourSolicitation { target, source_mac };
                self.icmpv6_frame(mac, source, destination, &message)
            }
            _ => None,
        }
    }

    /// A frame that answers an ARP request.
    pub(super) fn arp_reply(&self, request: &arp::Repr) -> Option<Vec<u8>> {
        self.arp_frame(request.sender_mac, &request.reply(self.mac))
    }

    /// A frame that answers a neighbour solicitation for `target`; without an
    /// asker it goes to all nodes (RFC 4861 §7.2.4). Where the node stands in
    /// for the target, the station that really has the address overrides it (§7.2.8).
    pub(super) fn advertisement(
        &self,
        target: Ipv6Addr,
        asker: Option<(Ipv6Addr, MacAddress)>,
    ) -> Option<Vec<u8>> {
        let group = (ALL_NODES, MacAddress::of_ipv6_multicast(ALL_NODES));
        let (destination, mac) = asker.unwrap_or(group);
        let is_own = self.is_own(target.into());
        let source = if is_own { target.into() } else { self.source_for(destination.into())? };
        let IpAddr::V6(source) = source else { return None };
        let message = icmpv6::Repr::NeighbourAdvertisement {
            target,
            target_mac: Some(self.mac),
            router: true,
            solicited: asker.is_some(),
            replaces: is_own,
        };
        self.icmpv6_frame(mac, source, destination, &message)
    }

    /// Frames that say where the own addresses are, and those that the node stands in for, to
    /// stations that have not asked: so many of the latter at most.
    pub fn announcements(&self, most: usize) -> Vec<Vec<u8>> {
        let own = self.addresses.iter().map(|(address, _)| *address);
        let proxied = self.proxied.iter().flat_map(|prefix| hosts(*prefix, most)).take(most);
        let frame = |address| match address {
            IpAddr::V4(address) => {
                let announcement = arp::Repr {
                    operation: arp::Operation::REQUEST,
                    sender_mac: self.mac,
                    sender_ip: address,
                    target_mac: MacAddress::UNSPECIFIED,
                    target_ip: address,
                };
                self.arp_frame(MacAddress::BROADCAST, &announcement)
            }
            IpAddr::V6(address) => self.advertisement_for_all(address),
        };
        own.chain(proxied).filter_map(frame).collect()
    }

    /// An unsolicited advertisement, by which the address is at this station now (RFC 4861 §7.2.6).
    fn advertisement_for_all(&self, target: Ipv6Addr) -> Option<Vec<u8>> {
        let is_own = self.is_own(target.into());
        let source = if is_own { target.into() } else { self.source_for(ALL_NODES.into())? };
        let IpAddr::V6(source) = source else { return None };
        let message = icmpv6::Repr::NeighbourAdvertisement {
            target,
            target_mac: Some(self.mac),
            router: true,
            solicited: false,
            replaces: true,
        };
        self.icmpv6_frame(MacAddress::of_ipv6_multicast(ALL_NODES), source, ALL_NODES, &message)
    }

    fn arp_frame(&self, destination: MacAddress, packet: &arp::Repr) -> Option<Vec<u8>> {
        let mut frame = vec![0; MIN_FRAME_LENGTH];
        let header = ethernet::Repr { source: self.mac, destination, ether_type: EtherType::ARP };
        header.emit(&mut frame).ok()?;
        packet.emit(&mut frame[ethernet::HEADER_LENGTH..]).ok()?;
        Some(frame)
    }

    fn icmpv6_frame(
        &self,
        mac: MacAddress,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        message: &icmpv6::Repr,
    ) -> Option<Vec<u8>> {
        let ethernet =
            ethernet::Repr { source: self.mac, destination: mac, ether_type: EtherType::IPV6 };
        let ip = ipv6::Repr {
            source,
            destination,
            next_header: Protocol::ICMPV6,
            payload_length: message.buffer_len() as u16,
            hop_limit: icmpv6::NEIGHBOUR_HOP_LIMIT,
            ..Default::default()
        };
        let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len() + message.buffer_len()];
        ethernet.emit(&mut frame).ok()?;
        let packet = &mut frame[ethernet::HEADER_LENGTH..];
        ip.emit(packet).ok()?;
        let (_, bytes) = packet.split_at_mut(ipv6::HEADER_LENGTH);
        message.emit(bytes).ok()?;
        let pseudo_header = PseudoHeader::V6 { source, destination };
        icmpv6::Message::new_checked(bytes).ok()?.fill_checksum(&pseudo_header);
        Some(frame)
    }
}

/// Addresses of a prefix, from its first on: so many at most.
fn hosts((prefix, length): (IpAddr, u8), most: usize) -> Box<dyn Iterator<Item = IpAddr>> {
    match prefix {
        IpAddr::V4(prefix) => {
            let mask = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            let (first, last) = (prefix.to_bits() & !mask, prefix.to_bits() | mask);
            Box::new((first..=last).take(most).map(|bits| Ipv4Addr::from_bits(bits).into()))
        }
        IpAddr::V6(prefix) => {
            let mask = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            let (first, last) = (prefix.to_bits() & !mask, prefix.to_bits() | mask);
            Box::new((first..=last).take(most).map(|bits| Ipv6Addr::from_bits(bits).into()))
        }
    }
}

/// The link-local address that goes with a MAC address.
fn link_local(mac: MacAddress) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.octets();
    // The bit says "universally administered" in an interface identifier and
    // the opposite in a MAC address.
    let identifier = u64::from_be_bytes([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(identifier))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Whether a prefix, given by an address in it and its length, covers an address.
fn covers((prefix, length): (IpAddr, u8), address: IpAddr) -> bool {
    let common = match (prefix, address) {
        (IpAddr::V4(prefix), IpAddr::V4(address)) => {
            (prefix.to_bits() ^ address.to_bits()).leading_zeros()
        }
        (IpAddr::V6(prefix), IpAddr::V6(address)) => {
            (prefix.to_bits() ^ address.to_bits()).leading_zeros()
        }
        _ => return false,
    };
    common >= u32::from(length)
}
