//! Finds the slots of packets by their keys, a burst at a time.

use std::net::{IpAddr, Ipv6Addr};

use weft_compose::{Burst, Positions};
use weft_dpdk::{Batch, Table};
use weft_function::{Direction, Headers, Metadata, Packet};
use weft_wire::gtpu::Teid;
use weft_wire::{EtherType, Protocol, esp, pppoe};

use super::key::{
    flow_key, ipv4_key, ipv6_key, mapped, port_key, route_key, session_key, spi_key, teid_key,
    vlan_key,
};
use super::{Classifier, PortClass, Scratch, Search};
use crate::parse::usual::Known;

/// A table of more bytes than this lies beyond the caches of a core.
const LARGE_TABLE: usize = 1 << 20;

/// Asks for where users are looked up, as soon as it is known what by.
#[derive(Clone, Copy)]
pub(crate) struct Ahead<'a> {
    table: &'a Table<u64>,
    network: u32,
    direction: Direction,
}

impl Ahead<'_> {
    /// Asks for where the user of a packet is looked up.
    #[inline(always)]
    pub fn ask(self, known: &Known) {
        let address = match (known, self.direction) {
            (Known::Teid(teid), _) => {
                return self.table.prefetch(&teid_key(self.network, teid.0));
            }
            (Known::Ipv4(from, _), Direction::Uplink) => from,
            (Known::Ipv4(_, to), Direction::Downlink) => to,
        };
        self.table.prefetch(&ipv4_key(self.network, u32::from_be_bytes(*address)));
    }
}

impl Classifier {
    /// What asks for the users of packets that come in at `port`, where the table is large.
    #[inline]
    pub(crate) fn ahead(&self, port: u16) -> Option<Ahead<'_>> {
        let PortClass { network, direction } = *self.ports.get(usize::from(port))?;
        let is_large = self.linear.is_none() && self.tables.narrow.memory_bytes() > LARGE_TABLE;
        is_large.then_some(Ahead { table: &self.tables.narrow, network, direction })
    }

    /// Finds the users of packets in tunnels.
    pub(super) fn look_up_teids(&mut self, burst: &Burst, tunnelled: Positions, search: Search) {
        let Scratch { slots, keys, places, found } = &mut *self.scratch;
        let mut count = 0;
        for position in tunnelled {
            keys[count] =
                teid_key(search.network, burst.packets[position].metadata().step.get::<Teid>().0);
            places[count] = position as u8;
            count += 1;
        }
        if count == burst.packets.len() {
            // All of the burst, so the places are the positions.
            return self.tables.narrow.lookup_bulk(&keys[..count], &mut slots[..count]);
        }
        self.tables.narrow.lookup_bulk(&keys[..count], &mut found[..count]);
        for (slot, place) in found[..count].iter().zip(&*places) {
            slots[usize::from(*place)] = *slot;
        }
    }

    /// Finds the users of other packets, by the most telling key that they have.
    pub(super) fn look_up(&mut self, burst: &Burst, selected: Positions, search: Search) {
        let mut rest = selected;
        if rest.is_empty() {
            return;
        }
        if self.tables.kinds.flow > 0 {
            self.look_up_flows(burst, &mut rest, search);
        }
        if self.tables.kinds.spi > 0 {
            self.look_up_spis(burst, &mut rest, search);
        }
        self.look_up_ipv4(burst, &mut rest, search);
        if rest.is_empty() {
            return;
        }
        if self.tables.kinds.ipv6_address + self.tables.kinds.ipv6_prefix > 0 {
            self.look_up_ipv6(burst, &mut rest, search);
        }
        if !rest.is_empty() && self.tables.routes.lengths().next().is_some() {
            self.look_up_routes(burst, &mut rest, search);
        }
        let kinds = &self.tables.kinds;
        if kinds.vlan + kinds.session + kinds.port > 0 {
            self.look_up_entry(burst, &mut rest, search);
        }
    }

    #[inline]
    fn look_up_ipv4(&mut self, burst: &Burst, rest: &mut Positions, search: Search) {
        let Scratch { slots, keys, places, found } = &mut *self.scratch;
        let mut count = 0;
        for position in *rest {
            if let Some(address) = user_ipv4(&burst.packets[position], search.direction) {
                keys[count] = ipv4_key(search.network, address);
                places[count] = position as u8;
                count += 1;
            }
        }
        if count == burst.packets.len() {
            // All of the burst, so the places are the positions.
            self.tables.narrow.lookup_bulk(&keys[..count], &mut slots[..count]);
            for (position, slot) in slots[..count].iter().enumerate() {
                if *slot != Table::<u64>::MISS {
                    rest.remove(position);
                }
            }
            return;
        }
        self.tables.narrow.lookup_bulk(&keys[..count], &mut found[..count]);
        for (slot, place) in found[..count].iter().zip(&*places) {
            slots[usize::from(*place)] = *slot;
            if *slot != Table::<u64>::MISS {
                rest.remove(usize::from(*place));
            }
        }
    }

    fn look_up_ipv6(&mut self, burst: &Burst, rest: &mut Positions, search: Search) {
        let lengths = [(self.tables.kinds.ipv6_address, 128), (self.tables.kinds.ipv6_prefix, 64)];
        for (_, length) in lengths.into_iter().filter(|(users, _)| *users > 0) {
            let mut keys = [[0; 3]; Batch::CAPACITY];
            let mut places = [0u8; Batch::CAPACITY];
            let mut count = 0;
            for position in *rest {
                if let Some(address) = user_ipv6(&burst.packets[position], search.direction) {
                    keys[count] = ipv6_key(search.network, address, length);
                    places[count] = position as u8;
                    count += 1;
                }
            }
            let mut found = [0; Batch::CAPACITY];
            self.tables.ipv6.lookup_bulk(&keys[..count], &mut found[..count]);
            for (slot, place) in found[..count].iter().zip(&places) {
                if *slot != Table::<u64>::MISS {
                    self.scratch.slots[usize::from(*place)] = *slot;
                    rest.remove(usize::from(*place));
                }
            }
        }
    }

    /// Finds the users whose networks addresses lie in, by the longest prefix.
    #[cold]
    fn look_up_routes(&mut self, burst: &Burst, rest: &mut Positions, search: Search) {
        for position in *rest {
            let Some((from, to)) = burst.packets[position].addresses() else { continue };
            let address = mapped(match search.direction {
                Direction::Uplink => from,
                Direction::Downlink => to,
            });
            let by_length =
                |length| self.tables.ipv6.get(&route_key(search.network, address, length));
            let slot = self.tables.routes.lengths().find_map(by_length);
            if let Some(slot) = slot {
                self.scratch.slots[position] = slot;
                rest.remove(position);
            }
        }
    }

    fn look_up_flows(&mut self, burst: &Burst, rest: &mut Positions, search: Search) {
        for position in *rest {
            let Some(flow) = burst.packets[position].flow() else { continue };
            let uplink = match search.direction {
                Direction::Uplink => flow,
                Direction::Downlink => flow.reversed(),
            };
            if let Some(slot) = self.tables.flows.get(&flow_key(search.network, &uplink)) {
                self.scratch.slots[position] = slot;
                rest.remove(position);
            }
        }
    }

    fn look_up_spis(&mut self, burst: &Burst, rest: &mut Positions, search: Search) {
        for position in *rest {
            let Some(spi) = spi(&burst.packets[position]) else { continue };
            if let Some(slot) = self.tables.narrow.get(&spi_key(search.network, spi)) {
                self.scratch.slots[position] = slot;
                rest.remove(position);
            }
        }
    }

    fn look_up_entry(&mut self, burst: &Burst, rest: &mut Positions, search: Search) {
        for position in *rest {
            let packet = &burst.packets[position];
            let vlan = packet.metadata().vlan;
            let narrow = &self.tables.narrow;
            let by_session = || narrow.get(&session_key(search.port, session(packet)?));
            let by_vlan = || narrow.get(&vlan_key(search.port, vlan));
            let by_port = || narrow.get(&port_key(search.port));
            let slot = by_session().or_else(by_vlan).or_else(by_port);
            if let Some(slot) = slot {
                self.scratch.slots[position] = slot;
                rest.remove(position);
            }
        }
    }
}

#[inline(always)]
fn user_ipv4(packet: &Packet, direction: Direction) -> Option<u32> {
    match direction {
        Direction::Uplink => packet.ipv4_source(),
        Direction::Downlink => packet.ipv4_destination(),
    }
}

/// The security parameters index of an ESP packet.
pub(super) fn spi(packet: &Packet) -> Option<u32> {
    let is_esp = Protocol(packet.metadata().protocol) == Protocol::ESP;
    let payload = packet.transport().filter(|_| is_esp)?;
    esp::Packet::new_checked(payload).ok().map(|packet| packet.spi().0)
}

/// The session of a PPPoE frame.
pub(super) fn session(packet: &Packet) -> Option<u16> {
    let start = usize::from(packet.metadata().network_offset);
    let is_session = packet.metadata().ether_type == EtherType::PPPOE_SESSION.0;
    let frame = packet.data().get(start..).filter(|_| is_session)?;
    pppoe::Frame::new_checked(frame).ok().map(|frame| frame.session())
}

fn user_ipv6(packet: &Packet, direction: Direction) -> Option<Ipv6Addr> {
    let addresses = packet.addresses()?;
    let address = match direction {
        Direction::Uplink => addresses.0,
        Direction::Downlink => addresses.1,
    };
    match address {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    }
}
