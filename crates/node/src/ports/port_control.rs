//! One port as the agent sees it: its device, its neighbours, and what it owes
//! in ICMP.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_dataplane::command::{Command, Punt, Punted};
use weft_dataplane::counters::Ignored;
use weft_dpdk::{Packet, Pool, PortStatistics};
use weft_function::{Headers, Metadata, PacketMetadata};
use weft_node_config::PortPlan;
use weft_wire::{EtherType, MacAddress, ethernet};

use crate::ports::device::{PortDevice, Step};
use crate::ports::flow_rules::RuleCounts;
use crate::ports::gtpu::{self, Heard};
use crate::ports::icmp::{Problem, Silence, answer_echo, report};
use crate::ports::loss::Loss;
use crate::ports::neighbour::{Event, Link, Neighbours, Rejected, Resolution};

/// A neighbour on the link of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NeighbourView {
    /// The port.
    pub port: String,
    /// The neighbour's IP address.
    pub address: String,
    /// Its MAC address, if it is known.
    pub mac: Option<String>,
    /// `permanent`, `reachable`, `probing`, `incomplete` or `stale` (RFC 4861 §7.3.2).
    pub state: String,
    /// Nanoseconds since its last sign of life.
    pub quiet: u64,
}

/// The link of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum LinkState {
    /// Packets can pass.
    Up,
    /// None can.
    #[default]
    Down,
    /// The device does not exist any more, or is about to be opened anew.
    Gone,
}

impl LinkState {
    /// As it is printed.
    pub fn word(self) -> &'static str {
        match self {
            LinkState::Up => "up",
            LinkState::Down => "down",
            LinkState::Gone => "gone",
        }
    }
}

/// What the driver of a port counts beyond what all drivers count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExtendedView {
    /// The port.
    pub port: String,
    /// Counts since the port was opened, by the driver's own names; without what is 0.
    pub counters: BTreeMap<String, u64>,
}

/// A port, off the way of packets.
#[derive(Debug)]
pub struct PortControl {
    number: u16,
    name: String,
    device: PortDevice,
    mac: MacAddress,
    mtu: u16,
    /// Addresses of the node, at any port.
    own: Arc<[IpAddr]>,
    /// None at a port without addresses.
    neighbours: Option<Neighbours>,
    /// Next hops beyond the link.
    gateways: Vec<IpAddr>,
    /// Of what neighbours have said.
    loss: Loss,
    /// Packets of the node's own for which there was no buffer.
    unsent: u64,
    /// Packets of which nothing came.
    ignored: [u64; Ignored::ALL.len()],
    events: Vec<Event>,
    outgoing: Vec<Outgoing>,
    /// None before the first look: many devices have a link only once they run.
    state: Option<LinkState>,
    /// Changes of the link that were seen.
    changes: u64,
}

/// Addresses that a port stands in for of which it says by itself where they are.
const MOST_ANNOUNCED: usize = 64;

/// Something to send, before there is a buffer for it.
#[derive(Debug)]
enum Outgoing {
    Frame(Vec<u8>),
    /// A frame that answers a frame.
    Reply(Vec<u8>),
    /// An IP packet, to be routed.
    Ip(Vec<u8>),
    /// An IP packet that answers a packet.
    IpReply(Vec<u8>),
    /// An IP packet to the user at a slot.
    User(u32, Vec<u8>),
    Neighbour(IpAddr, Option<MacAddress>),
}

impl PortControl {
    /// The station of an open port with this MAC address, at a node with these
    /// addresses.
    pub fn new(
        number: u16,
        plan: &PortPlan,
        mac: MacAddress,
        device: PortDevice,
        own: Arc<[IpAddr]>,
        capacity: usize,
    ) -> PortControl {
        let permanent: Vec<_> =
            plan.neighbours.iter().map(|(address, mac)| (*address, MacAddress(*mac))).collect();
        let neighbours = (!plan.addresses.is_empty()).then(|| {
            let link = Link::new(mac, plan.addresses.clone(), plan.proxy.clone());
            Neighbours::new(link, &permanent, capacity)
        });
        PortControl {
            number,
            name: plan.name.clone(),
            state: None,
            changes: 0,
            device,
            mac,
            mtu: plan.mtu,
            own,
            neighbours,
            gateways: plan.gateways.clone(),
            loss: Loss::default(),
            unsent: 0,
            ignored: Default::default(),
            events: Vec::new(),
            outgoing: Vec::new(),
        }
    }

    /// Name of the port.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its device string.
    pub fn device(&self) -> &str {
        self.device.name()
    }

    /// The MAC address it uses.
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    /// How its link was when it was last looked at.
    pub fn state(&self) -> LinkState {
        self.state.unwrap_or_else(|| self.state_now())
    }

    fn state_now(&self) -> LinkState {
        match (self.device.is_gone(), self.device.link().up) {
            (true, _) => LinkState::Gone,
            (false, true) => LinkState::Up,
            (false, false) => LinkState::Down,
        }
    }

    /// How often the link has changed: as the device tells, or else as was seen.
    pub fn link_changes(&self) -> u64 {
        self.changes.max(self.device.link_changes())
    }

    /// Its neighbours, `now` nanoseconds after the start of the clock.
    pub fn neighbours(&self, now: u64) -> impl Iterator<Item = NeighbourView> + '_ {
        let known = self.neighbours.iter().flat_map(Neighbours::iter);
        known.map(move |(address, state, mac, seen)| NeighbourView {
            port: self.name.clone(),
            address: address.to_string(),
            mac: mac.map(|mac| mac.to_string()),
            state: state.to_owned(),
            quiet: now.saturating_sub(seen),
        })
    }

    /// The device behind this port, for upgrades and for flow rules.
    pub(crate) fn port_device(&self) -> &PortDevice {
        &self.device
    }

    /// The same, to be changed.
    pub(crate) fn port_device_mut(&mut self) -> &mut PortDevice {
        &mut self.device
    }

    /// What its device has counted.
    pub fn statistics(&self) -> PortStatistics {
        self.device.statistics()
    }

    /// What its driver counts, by its own names; without what is 0.
    pub fn extended(&self) -> ExtendedView {
        let counted = self.device.extended_statistics().into_iter();
        ExtendedView {
            port: self.name.clone(),
            counters: counted.filter(|(_, value)| *value > 0).collect(),
        }
    }

    /// Its receive queues, how packets come to them, and flow rules.
    pub fn spreading(&self) -> (u16, String, RuleCounts) {
        self.device.spreading()
    }

    /// What its device does in the place of the processor.
    pub fn offloads(&self) -> Vec<String> {
        self.device.offloads().into_iter().map(str::to_owned).collect()
    }

    /// A worker needs the MAC address of a next hop.
    pub fn resolve(&mut self, address: IpAddr, now: u64) {
        let Some(neighbours) = &mut self.neighbours else {
            return self.outgoing.push(Outgoing::Neighbour(address, None));
        };
        match neighbours.resolve(address, now, &mut self.events) {
            Resolution::Known(mac) => {
                self.outgoing.push(Outgoing::Neighbour(address, Some(mac)));
            }
            Resolution::Pending => {}
            Resolution::Unreachable => self.outgoing.push(Outgoing::Neighbour(address, None)),
        }
    }

    /// A worker gives the node a packet. Returns what it says in GTP-U, if it is
    /// such a message.
    pub fn receive(&mut self, mut packet: Packet, now: u64) -> Option<Heard> {
        let Punted { cause, mtu } = packet.metadata().step.get();
        let problem = match cause {
            Punt::NeighbourRequest | Punt::NeighbourAnswer => {
                self.receive_neighbour(&packet, now);
                return None;
            }
            Punt::Ping => {
                self.answer_ping(&mut packet);
                return None;
            }
            Punt::EchoRequest | Punt::EchoResponse | Punt::GtpuMessage => {
                let heard = gtpu::hear(&packet);
                return self.note(heard).filter(|_| self.neighbours.is_some());
            }
            Punt::TimeExceeded => Problem::TimeExceeded,
            Punt::TooBig => Problem::TooBig { mtu },
            Punt::Unreachable => Problem::HostUnreachable,
            Punt::NoRoute => Problem::NoRoute,
            Punt::UnknownTeid | Punt::UnknownExtension => {
                let complaint = gtpu::complaint(&packet, cause, &self.own);
                self.outgoing.extend(complaint.map(Outgoing::IpReply));
                return None;
            }
        };
        let PacketMetadata { network_offset, flags, user, .. } = *packet.metadata();
        let network = usize::from(network_offset);
        let (Some(own), Some(bytes)) = (self.own_address(&packet), packet.data().get(network..))
        else {
            return None;
        };
        let mut error = Vec::new();
        // An error that may not be sent was a drop with a name already.
        if report(bytes, problem, own, self.mtu, &mut error).is_ok() {
            self.outgoing.push(match flags & PacketMetadata::TUNNELLED {
                0 => Outgoing::IpReply(error),
                // It goes back the way of packets to the user, into the user's tunnel.
                _ => Outgoing::User(user, error),
            });
        }
        None
    }

    /// Sends an IP packet of the node's own.
    pub fn send(&mut self, packet: Vec<u8>) {
        self.outgoing.push(Outgoing::Ip(packet));
    }

    /// Sends an IP packet that answers one.
    pub fn answer(&mut self, packet: Vec<u8>) {
        self.outgoing.push(Outgoing::IpReply(packet));
    }

    /// Whether an address is the port's own.
    pub fn has(&self, address: IpAddr) -> bool {
        self.neighbours.as_ref().is_some_and(|neighbours| neighbours.link().is_own(address))
    }

    fn receive_neighbour(&mut self, packet: &Packet, now: u64) {
        let Some(neighbours) = &mut self.neighbours else { return };
        let is_arp = packet.metadata().ether_type == EtherType::ARP.0;
        let done = match is_arp {
            true => neighbours.receive_arp(packet.data(), now, &mut self.events),
            false => neighbours.receive_nd(packet.data(), now, &mut self.events),
        };
        self.note(done.map_err(|rejected| match rejected {
            Rejected::Malformed(_) => Ignored::NeighbourMalformed,
            _ => Ignored::NeighbourRefused,
        }));
    }

    /// Counts what nothing comes of.
    fn note<T>(&mut self, done: Result<T, Ignored>) -> Option<T> {
        if let Err(ignored) = done {
            self.ignored[ignored as usize] += 1;
        }
        done.ok()
    }

    /// Packets of which nothing came, by the number of [`Ignored`].
    pub fn ignored(&self) -> &[u64; Ignored::ALL.len()] {
        &self.ignored
    }

    fn answer_ping(&mut self, packet: &mut Packet) {
        let Some(neighbours) = &self.neighbours else { return };
        let (link, own) = (neighbours.link(), &self.own);
        let is_own = |address| link.is_own(address) || own.contains(&address);
        let network = usize::from(packet.metadata().network_offset);
        let answered = answer_echo(packet.data_mut(), network, is_own);
        let answered = answered.map_err(|silence| match silence {
            Silence::Malformed(_) => Ignored::IcmpMalformed,
            _ => Ignored::PingRefused,
        });
        if self.note(answered).is_some() {
            self.outgoing.push(Outgoing::Reply(packet.data().to_vec()));
        }
    }

    /// A peer has answered what went out here: the next hop to it is there (RFC 4861 §7.3.1,
    /// RFC 1122 §2.3.2.1).
    pub fn confirm(&mut self, peer: IpAddr, now: u64) {
        let Some(neighbours) = &mut self.neighbours else { return };
        let gateway = || self.gateways.iter().copied().find(|gw| gw.is_ipv4() == peer.is_ipv4());
        let is_on_link = neighbours.link().is_on_link(peer);
        if let Some(next_hop) = if is_on_link { Some(peer) } else { gateway() } {
            neighbours.confirm(next_hop, now);
        }
    }

    /// A neighbour is at this MAC address, as another process of the node has heard.
    pub fn restore(&mut self, address: IpAddr, mac: MacAddress, now: u64) {
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.restore(address, mac, now, &mut self.events);
        }
    }

    /// Says where the addresses are.
    pub fn announce(&mut self) {
        if let Some(neighbours) = &self.neighbours {
            let frames = neighbours.link().announcements(MOST_ANNOUNCED);
            self.outgoing.extend(frames.into_iter().map(Outgoing::Frame));
        }
    }

    /// Packets that the device had no room for.
    pub fn missed(&self) -> u64 {
        let statistics = self.device.statistics();
        statistics.rx_missed + statistics.rx_errors
    }

    /// Packets of the node's own for which there was no buffer.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// The address of the port in the family of a packet; if it has none, of another
    /// port.
    fn own_address(&self, packet: &Packet) -> Option<IpAddr> {
        let (source, _) = packet.addresses()?;
        let own = self.neighbours.as_ref()?.link().addresses();
        let at_port = own.iter().map(|(address, _)| *address);
        at_port.chain(self.own.iter().copied()).find(|own| own.is_ipv4() == source.is_ipv4())
    }

    /// Timers of neighbours, and the state of the link. Workers have dropped so many packets
    /// that may have been neighbours' answers.
    ///
    /// Returns what is to be done about the device, and the state of the link if it has changed.
    pub fn look_after(&mut self, now: u64, lost: u64) -> (Option<Step>, Option<LinkState>) {
        if self.device.is_held() {
            return (None, None);
        }
        self.loss.note(lost + self.missed() + self.unsent, now);
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.tick(now, &self.loss, &mut self.events);
        }
        let step = self.device.look_after(now);
        if matches!(step, Some(Step::Return(_))) {
            // Neighbours may have forgotten where the addresses are.
            self.announce();
        }
        let state = self.state_now();
        let before = self.state.replace(state);
        // That a port is up when the node starts is no news.
        if before.unwrap_or(LinkState::Up) == state {
            return (step, None);
        }
        let was_up = before == Some(LinkState::Up);
        self.changes += u64::from(before.is_some());
        let (port, device) = (&self.name, self.device());
        match state {
            LinkState::Up => tracing::info!(port, "the link is up"),
            LinkState::Down => tracing::warn!(port, device, "the link is down"),
            LinkState::Gone if was_up => {
                tracing::warn!(port, device, "the device is gone: the link is down");
            }
            // It was told that the link is down.
            LinkState::Gone => tracing::info!(port, device, "the device is gone"),
        }
        (step, Some(state))
    }

    /// Takes what is to be told to workers.
    pub fn outgoing(&mut self, pool: &Pool) -> Vec<Command> {
        for event in self.events.drain(..) {
            self.outgoing.push(match event {
                Event::Send(frame) => Outgoing::Frame(frame),
                Event::Resolved(address, mac) => Outgoing::Neighbour(address, Some(mac)),
                Event::Failed(address) => Outgoing::Neighbour(address, None),
            });
        }
        let outgoing = std::mem::take(&mut self.outgoing);
        let mut commands = Vec::with_capacity(outgoing.len());
        for one in outgoing {
            match self.command(one, pool) {
                Some(command) => commands.push(command),
                None => self.unsent += 1,
            }
        }
        commands
    }

    /// None when there is no buffer: too much of the node's own waits to be sent. Answers
    /// leave room for the node's own questions.
    fn command(&self, outgoing: Outgoing, pool: &Pool) -> Option<Command> {
        let port = self.number;
        let has_room = || pool.available() > pool.size() / 4;
        Some(match outgoing {
            Outgoing::Neighbour(address, mac) => {
                Command::Neighbour { port, address, mac: mac.map(|mac| mac.0) }
            }
            Outgoing::Frame(bytes) => Command::Transmit { port, frame: pool.packet(&bytes)? },
            Outgoing::Reply(_) | Outgoing::IpReply(_) | Outgoing::User(..) if !has_room() => {
                return None;
            }
            Outgoing::Reply(bytes) => Command::Transmit { port, frame: pool.packet(&bytes)? },
            Outgoing::User(user, bytes) => {
                let mut packet = self.packet(&bytes, pool)?;
                packet.metadata_mut().user = user;
                Command::Answer(packet)
            }
            Outgoing::Ip(bytes) | Outgoing::IpReply(bytes) => {
                Command::Originate { port, packet: self.packet(&bytes, pool)? }
            }
        })
    }

    /// An IP packet behind room for an Ethernet header.
    fn packet(&self, bytes: &[u8], pool: &Pool) -> Option<Packet> {
        let mut packet = pool.allocate()?;
        packet.append(ethernet::HEADER_LENGTH)?.fill(0);
        packet.append(bytes.len())?.copy_from_slice(bytes);
        let (ether_type, protocol) = match bytes.first()? >> 4 {
            4 => (EtherType::IPV4, bytes.get(9)),
            _ => (EtherType::IPV6, bytes.get(6)),
        };
        *packet.metadata_mut() = PacketMetadata {
            ether_type: ether_type.0,
            network_offset: ethernet::HEADER_LENGTH as u16,
            network_length: bytes.len() as u16,
            port: self.number,
            user: PacketMetadata::NONE,
            protocol: protocol.copied().unwrap_or_default(),
            ..PacketMetadata::default()
        };
        Some(packet)
    }
}
