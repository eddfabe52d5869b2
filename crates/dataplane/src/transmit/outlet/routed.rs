//! What a worker knows of a port that routes: where packets go behind it.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use arrayvec::ArrayVec;
use weft_dpdk::{Batch, Packet};
use weft_function::{Headers, Metadata};
use weft_wire::MacAddress;

use super::{Fate, Neighbours};
use crate::counters::DropReason;
use crate::transmit::headers::tunnel_destination;

/// Packets that wait at one port for the MAC addresses of their next hops: of the node's own
/// and of all. Gateways have room beyond: who sends to many neighbours that there are not,
/// takes none from those who send to the networks behind.
pub(super) const OWN_WAITING: usize = 64;
const WAITING: usize = 256;
const GATEWAYS_WAITING: usize = 64;

/// A port that routes.
#[derive(Debug)]
pub struct Routed {
    /// MAC address of the port.
    pub mac: MacAddress,
    /// Where everything goes, if it is always the same.
    pub next_hop: Option<MacAddress>,
    /// Subnets that are reached directly, with prefix lengths.
    pub subnets: Vec<(IpAddr, u8)>,
    /// Next hops beyond the subnets.
    pub gateways: Vec<IpAddr>,
    /// Known MAC addresses.
    pub neighbours: Neighbours,
    /// Packets whose next hop was asked for, in order.
    pub(super) waiting: VecDeque<(IpAddr, Packet)>,
    /// Next hops that were asked for.
    pub(super) asked: Vec<IpAddr>,
    /// Where the last IPv4 packet went, and by which next hop: most of a burst go one way.
    last: Option<Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    to: u32,
    next_hop: IpAddr,
    mac: MacAddress,
}

impl Routed {
    /// A port with this MAC address, and room for so many neighbours.
    pub fn new(mac: MacAddress, neighbours: usize) -> Routed {
        Routed {
            mac,
            next_hop: None,
            subnets: Vec::new(),
            gateways: Vec::new(),
            neighbours: Neighbours::new(neighbours),
            waiting: VecDeque::with_capacity(WAITING + GATEWAYS_WAITING),
            asked: Vec::new(),
            last: None,
        }
    }

    /// The MAC address that a packet goes to, or the next hop that has none yet;
    /// nothing where there is no way.
    #[inline]
    pub(super) fn mac_for(&mut self, packet: &Packet) -> Option<Result<MacAddress, IpAddr>> {
        if let Some(mac) = self.next_hop {
            return Some(Ok(mac));
        }
        if let Some(to) = packet.ipv4_destination() {
            return self.mac_at(to);
        }
        let next_hop = self.next_hop_of(packet.addresses()?.1)?;
        Some(self.neighbours.get(next_hop).ok_or(next_hop))
    }

    /// The same for a packet to an IPv4 address.
    #[inline]
    fn mac_at(&mut self, to: u32) -> Option<Result<MacAddress, IpAddr>> {
        if let Some(last) = self.last.filter(|last| last.to == to) {
            return Some(Ok(last.mac));
        }
        let next_hop = self.next_hop_of(Ipv4Addr::from_bits(to).into())?;
        let known = self.last.filter(|last| last.next_hop == next_hop).map(|last| last.mac);
        let Some(mac) = known.or_else(|| self.neighbours.get(next_hop)) else {
            return Some(Err(next_hop));
        };
        self.last = Some(Last { to, next_hop, mac });
        Some(Ok(mac))
    }

    /// The MAC addresses that packets go to, by themselves or in their tunnels over IPv4; none
    /// where one of them is not known.
    #[inline]
    pub(super) fn macs_for(
        &mut self,
        packets: &Batch,
    ) -> Option<ArrayVec<MacAddress, { Batch::CAPACITY }>> {
        let mut macs = ArrayVec::new();
        for packet in packets.iter() {
            let found = match packet.metadata().outer_offset {
                0 => self.mac_for(packet),
                _ => self.mac_at(tunnel_destination(packet)?),
            };
            // There are no more packets than room.
            macs.try_push(found?.ok()?).ok()?;
        }
        Some(macs)
    }

    /// The MAC address of a neighbour is known, or known no more.
    pub(super) fn set_neighbour(&mut self, address: IpAddr, mac: Option<MacAddress>) {
        self.neighbours.set(address, mac);
        self.last = None;
        self.asked.retain(|asked| *asked != address);
    }

    /// The IP address that a packet to `destination` is handed to.
    #[inline]
    fn next_hop_of(&self, destination: IpAddr) -> Option<IpAddr> {
        if self.subnets.iter().any(|(net, length)| contains(*net, *length, destination)) {
            return Some(destination);
        }
        self.gateways.iter().copied().find(|gw| gw.is_ipv4() == destination.is_ipv4())
    }

    #[cold]
    pub(super) fn wait(
        &mut self,
        hop: IpAddr,
        packet: Packet,
        mut ask: impl FnMut(IpAddr) -> bool,
    ) -> Fate {
        let is_gateway = self.gateways.contains(&hop);
        if self.waiting.len() >= WAITING + if is_gateway { GATEWAYS_WAITING } else { 0 } {
            return Fate::Dropped(DropReason::NeighbourPending, None);
        }
        if !self.asked.contains(&hop) && ask(hop) {
            self.asked.push(hop);
        }
        self.waiting.push_back((hop, packet));
        Fate::Waits
    }
}

/// Whether `address` lies in the prefix of `length` bits around `net`.
pub fn contains(net: IpAddr, length: u8, address: IpAddr) -> bool {
    match (net, address) {
        (IpAddr::V4(net), IpAddr::V4(address)) => {
            let differ = net.to_bits() ^ address.to_bits();
            differ.leading_zeros() >= u32::from(length)
        }
        (IpAddr::V6(net), IpAddr::V6(address)) => {
            let differ = net.to_bits() ^ address.to_bits();
            differ.leading_zeros() >= u32::from(length)
        }
        _ => false,
    }
}
