//! Who has which MAC address on the link of one port: ARP (RFC 826) and the part
//! of neighbour discovery that a router's port needs (RFC 4861 §7).
//!
//! [`Neighbours`] takes frames and the time, and gives [`Event`]s: frames to
//! send, and what has become known. It does no input or output of its own, so it
//! can be tested by bytes alone.
//!
//! An address that was resolved once is kept up to date without being asked for
//! again: each part that remembers its MAC address hears by an event of each change. A
//! neighbour that merely spoke to the node is remembered silently until it is
//! asked for. What may follow what is a table in `table.rs`.

mod link;
mod table;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};

use weft_wire::ethernet::Frame;
use weft_wire::ip::Protocol;
use weft_wire::{EtherType, MacAddress, arp, icmpv6, ipv6};

pub use link::Link;
use table::{Moment, Sign, Table};

use crate::ports::icmp::is_host;
use crate::ports::loss::Loss;

/// What follows from a frame, a question or the passing of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame to send on the link.
    Send(Vec<u8>),
    /// An address that was asked for is at this MAC address, now or anew.
    Resolved(IpAddr, MacAddress),
    /// No station answers for an address that was asked for, or it was forgotten in
    /// favour of others. It may be asked for again.
    Failed(IpAddr),
}

/// What is known of an address that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Packets go to this MAC address.
    Known(MacAddress),
    /// [`Event::Resolved`] or [`Event::Failed`] will follow.
    Pending,
    /// It is the node's own, or the node has no address to ask from.
    Unreachable,
}

/// Why a frame was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// A header is malformed or a checksum wrong.
    #[error("malformed: {0}")]
    Malformed(#[from] weft_wire::Error),
    /// The frame is for another station.
    #[error("for another station")]
    NotForUs,
    /// The frame is neither a question for an address nor an answer.
    #[error("neither a question for an address nor an answer")]
    NotDiscovery,
    /// A MAC or IP address of the sender is not one station's.
    #[error("the sender's address is not one station's")]
    BadSender,
    /// The sender has one of the node's own addresses.
    #[error("the sender has one of the node's own addresses")]
    DuplicateAddress,
    /// The packet came through a router: its hop limit is not 255 (RFC 4861 §7.1).
    #[error("the hop limit is not 255")]
    NotFromLink,
    /// The message comes in fragments (RFC 6980 §5).
    #[error("the message comes in fragments")]
    Fragmented,
    /// Its addresses and flags do not go together (RFC 4861 §7.1).
    #[error("the addresses and flags do not go together")]
    Contradictory,
}

/// The neighbours on the link of one port.
#[derive(Debug)]
pub struct Neighbours {
    link: Link,
    table: Table,
}

impl Neighbours {
    /// Neighbours on `link`: those that are known for ever, and up to `capacity`
    /// others, but at least one. When there is no room, those make room first
    /// that were never asked for, then those that have not answered, then those
    /// that showed no sign of life for longest.
    pub fn new(link: Link, permanent: &[(IpAddr, MacAddress)], capacity: usize) -> Self {
        Self { link, table: Table::new(permanent, capacity) }
    }

    /// All that is known: address, state, MAC address, and the time of the last sign of life.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, &'static str, Option<MacAddress>, u64)> {
        self.table.iter()
    }

    /// What the node is on this link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Asks for the MAC address that packets to `address` go to, which is on the
    /// link. Groups have theirs without being asked. `now` is in nanoseconds,
    /// here and below.
    pub fn resolve(&mut self, address: IpAddr, now: u64, events: &mut Vec<Event>) -> Resolution {
        if let Some(mac) = self.link.group_mac(address) {
            return Resolution::Known(mac);
        }
        let can_ask = || self.link.source_for(address).is_some();
        if self.link.is_own(address) || self.table.mac(address).is_none() && !can_ask() {
            return Resolution::Unreachable;
        }
        match self.table.want(address, &mut Moment { now, link: &self.link, events }) {
            Some(mac) => Resolution::Known(mac),
            None => Resolution::Pending,
        }
    }

    /// Asks again where no answer came, and anew where the last one is old. A neighbour that
    /// was there stays while its answers may have been lost.
    /// Cheap while nothing is due; once in 100 ms is often enough.
    pub fn tick(&mut self, now: u64, loss: &Loss, events: &mut Vec<Event>) {
        self.table.tick(loss, &mut Moment { now, link: &self.link, events });
    }

    /// A neighbour was asked for by another process of the node, and is at this MAC address. It
    /// is asked again, and those who send to it know it meanwhile.
    pub fn restore(&mut self, address: IpAddr, mac: MacAddress, now: u64, events: &mut Vec<Event>) {
        if !self.link.is_on_link(address) || self.check_sender(address, mac).is_err() {
            return;
        }
        let mut moment = Moment { now, link: &self.link, events };
        let sign = Sign { mac: Some(mac), answers: false, replaces: true, introduces: true };
        self.table.hear(address, sign, &mut moment);
        if let Some(mac) = self.table.want(address, &mut moment) {
            events.push(Event::Resolved(address, mac));
        }
    }

    /// What went to the neighbour was answered by the host behind it: it is there.
    pub fn confirm(&mut self, address: IpAddr, now: u64) {
        self.table.confirm(address, now);
    }

    /// Takes an Ethernet frame with ARP: learns from it and answers it.
    ///
    /// # Errors
    /// [`Rejected`] for frames that are ignored.
    pub fn receive_arp(
        &mut self,
        frame: &[u8],
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), Rejected> {
        let frame = self.accept(frame, EtherType::ARP)?;
        let packet = arp::Repr::parse(&arp::Packet::new_checked(frame.payload())?);
        let asks = match packet.operation {
            arp::Operation::REQUEST => true,
            arp::Operation::REPLY => false,
            _ => return Err(Rejected::NotDiscovery),
        };
        let (sender, target) = (packet.sender_ip.into(), packet.target_ip.into());
        self.check_sender(sender, packet.sender_mac)?;
        let is_ours = asks && self.answers_for(target, sender);
        let sign = Sign {
            mac: Some(packet.sender_mac),
            answers: !asks && self.link.is_own(target),
            replaces: true,
            introduces: is_ours && self.link.is_on_link(sender),
        };
        self.table.hear(sender, sign, &mut Moment { now, link: &self.link, events });
        if is_ours {
            events.extend(self.link.arp_reply(&packet).map(Event::Send));
        }
        Ok(())
    }

    /// Takes an Ethernet frame with a neighbour solicitation or advertisement:
    /// learns from it and answers it.
    ///
    /// # Errors
    /// [`Rejected`] for frames that are ignored.
    pub fn receive_nd(
        &mut self,
        frame: &[u8],
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), Rejected> {
        let frame = self.accept(frame, EtherType::IPV6)?;
        let packet = ipv6::Packet::new_checked(frame.payload())?;
        match message(&packet)? {
            icmpv6::Repr::NeighbourSolicitation { target, source_mac } => {
                let solicitation = Solicitation {
                    station: frame.source(),
                    source: packet.source(),
                    destination: packet.destination(),
                    target,
                    source_mac,
                };
                self.receive_solicitation(&solicitation, now, events)
            }
            icmpv6::Repr::NeighbourAdvertisement {
                target,
                target_mac: mac,
                solicited,
                replaces,
                ..
            } => {
                if solicited && packet.destination().is_multicast() {
                    return Err(Rejected::Contradictory);
                }
                self.check_sender(target.into(), mac.unwrap_or(frame.source()))?;
                let sign = Sign { mac, answers: solicited, replaces, introduces: false };
                let moment = &mut Moment { now, link: &self.link, events };
                self.table.hear(target.into(), sign, moment);
                Ok(())
            }
            _ => Err(Rejected::NotDiscovery),
        }
    }

    fn receive_solicitation(
        &mut self,
        solicitation: &Solicitation,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), Rejected> {
        let &Solicitation { station, source, destination, target, source_mac } = solicitation;
        let is_probe = source.is_unspecified();
        let is_asked_of_group = destination == icmpv6::solicited_node(target);
        if is_probe && (source_mac.is_some() || !is_asked_of_group) {
            return Err(Rejected::Contradictory);
        }
        self.check_sender(source.into(), source_mac.unwrap_or(station))?;
        let is_ours = self.answers_for(target.into(), source.into());
        let introduces = is_ours && self.link.is_on_link(source.into());
        let sign = Sign { mac: source_mac, answers: false, replaces: true, introduces };
        self.table.hear(source.into(), sign, &mut Moment { now, link: &self.link, events });
        if is_ours {
            let asker = (!is_probe).then_some((source, source_mac.unwrap_or(station)));
            events.extend(self.link.advertisement(target, asker).map(Event::Send));
        }
        Ok(())
    }

    /// The frame, if it is of this type and may be for the node.
    fn accept<'a>(
        &self,
        frame: &'a [u8],
        ether_type: EtherType,
    ) -> Result<Frame<&'a [u8]>, Rejected> {
        let frame = Frame::new_checked(frame)?;
        if frame.ether_type() != ether_type {
            return Err(Rejected::NotDiscovery);
        }
        let destination = frame.destination();
        if destination != self.link.mac() && !destination.is_multicast() {
            return Err(Rejected::NotForUs);
        }
        Ok(frame)
    }

    /// A sender is one station, or has no IP address yet and asks whether one is
    /// free (RFC 5227 §2.1.1, RFC 4862 §5.4).
    fn check_sender(&self, address: IpAddr, mac: MacAddress) -> Result<(), Rejected> {
        let is_group = self.link.group_mac(address).is_some();
        if !mac.is_unicast() || is_group || !is_host(address) && !address.is_unspecified() {
            return Err(Rejected::BadSender);
        }
        if mac == self.link.mac() || self.link.is_own(address) {
            return Err(Rejected::DuplicateAddress);
        }
        Ok(())
    }

    /// Whether the node answers when `asker` asks for `target`: for its own
    /// addresses, and for those that it stands in for (RFC 1027, RFC 4389). Not
    /// so if the asker means itself or wants to know whether the address is
    /// free, nor if the target was seen on this very link.
    fn answers_for(&self, target: IpAddr, asker: IpAddr) -> bool {
        self.link.is_own(target)
            || self.link.is_proxied(target)
                && !asker.is_unspecified()
                && asker != target
                && self.table.mac(target).is_none()
    }
}

/// A neighbour solicitation, with what is around it.
struct Solicitation {
    /// Source of the frame.
    station: MacAddress,
    /// Source of the packet.
    source: Ipv6Addr,
    /// Destination of the packet.
    destination: Ipv6Addr,
    target: Ipv6Addr,
    source_mac: Option<MacAddress>,
}

/// The neighbour message in a packet that can only come from this link.
fn message(packet: &ipv6::Packet<&[u8]>) -> Result<icmpv6::Repr, Rejected> {
    let upper = packet.upper_layer()?;
    if upper.protocol != Protocol::ICMPV6 {
        return Err(Rejected::NotDiscovery);
    }
    if upper.fragment.is_some() {
        return Err(Rejected::Fragmented);
    }
    if packet.hop_limit() != icmpv6::NEIGHBOUR_HOP_LIMIT {
        return Err(Rejected::NotFromLink);
    }
    let bytes = packet.as_bytes().get(upper.offset..).unwrap_or_default();
    let message = icmpv6::Message::new_checked(bytes)?;
    message.verify_checksum(&packet.pseudo_header())?;
    Ok(icmpv6::Repr::parse(&message))
}
