//! One N4 for several nodes: a state machine without input and output.
//!
//! To a control plane the proxy is one user plane. To a node it speaks for control planes: each
//! datagram says for which one, by the element [`Forwarded`], and nodes answer and report with the
//! same word. So the proxy has no record of a session:
//!
//! - **Requests of control planes** about a session go to the node whose number the SEID begins
//!   with, with the sequence number that they came with, and so do their repetitions: the node
//!   knows what it has answered. A new session goes to a node that placement chooses.
//! - **Requests of nodes** get a number of the proxy, which is remembered until their response has
//!   had its time.
//! - **Requests about the whole** (associations, PFDs, sets of sessions) go to all nodes, and
//!   their answers become one.
//! - A node that has lost its sessions, or is not heard for its lease, is told of by a Session Set
//!   Deletion Request: each session has the node's number as FQ-CSID (TS 23.007 §23).
//!
//! Times are nanoseconds since the proxy started.

mod associations;
mod elements;
mod expiring;
mod fan_out;
mod load;
mod nodes;
mod place;
mod records;
mod relay;
pub mod server;
mod settle;
pub mod show;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::associations::{NodeKey, is_within};
use crate::codec::element::{Text, Time};
use crate::codec::message::MessageType;
use crate::codec::vendor::Forwarded;
use crate::codec::{Defect, Error, Frame, Header, Message, frames};
use crate::interfaces::Entropy;
use crate::refusal::Refusal;
use crate::transactions::{Incoming, Outgoing, Overdue, TransactionId};
use crate::user_plane::Datagram;
use crate::user_plane::refusing::refusing;

use self::associations::ControlPlane;

use self::fan_out::FanOuts;
use self::load::Load;
use self::nodes::{Node, NodeRecord};
use self::records::Kept;
use self::relay::Relays;
use self::show::Counts;

/// Requests of the proxy itself that wait for a response at once, to nodes and to control planes.
const OUTGOING: usize = 65_536;
/// Requests about associations and sets whose responses are remembered.
const INCOMING: usize = 4096;

/// How the proxy is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Addresses at which it listens, one or one of each family.
    pub listen: Vec<IpAddr>,
    /// UDP port.
    pub port: u16,
    /// Node ID: an address or a domain name.
    pub node_id: ProxyId,
    /// Networks of control planes; none for any.
    pub peers: Vec<(IpAddr, u8)>,
    /// Time between Heartbeat Requests to nodes and control planes, ns.
    pub heartbeat: u64,
    /// T1, ns.
    pub t1: u64,
    /// N1.
    pub n1: u8,
    /// How long a node may be silent before it is given up, ns.
    pub lease: u64,
    /// Most control planes.
    pub associations: usize,
}

/// The identity of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyId {
    /// An address.
    Address(IpAddr),
    /// A domain name.
    Name(String),
}

/// A node behind the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// Its number: the first 16 bits of its SEIDs.
    pub number: u16,
    /// Its name.
    pub name: Arc<str>,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it takes no further sessions.
    pub is_cordoned: bool,
    /// Whether its sessions go to another node just now: it is silent meanwhile.
    pub is_moving: bool,
    /// What it can carry, in packets a second; 0 where that is not known.
    pub capacity: u64,
}

/// Where the proxy stands when it starts.
pub struct Start {
    /// Seconds since 1970: its Recovery Time Stamp, if none is kept.
    pub unix: u64,
    /// Numbers that nothing outside can predict.
    pub entropy: Entropy,
    /// What was kept, by key.
    pub kept: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What requests of the proxy to nodes are about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ToNode {
    Heartbeat(u16),
    Setup(u16, NodeKey),
    Release(u16, NodeKey),
    Applications(u16, u64),
    /// A session that no control plane knows.
    Deletion,
}

/// What requests of the proxy to control planes are about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ToPeer {
    Heartbeat(NodeKey),
    /// That the sessions of a node are gone.
    Loss(u16, NodeKey),
}

/// One user plane in front of several nodes.
pub struct Proxy {
    settings: Settings,
    /// The Node ID as octets of labels, if it is a name.
    name: Vec<u8>,
    recovery: Time,
    nodes: BTreeMap<u16, Node>,
    by_address: HashMap<IpAddr, u16>,
    /// Nodes of the last life that are not among the nodes yet, and those that are not any more.
    remembered: BTreeMap<u16, NodeRecord>,
    peers: BTreeMap<NodeKey, ControlPlane>,
    /// Elements of applications (Application ID's PFDs), by name, and how often they have changed.
    applications: BTreeMap<Vec<u8>, Vec<u8>>,
    applications_version: u64,
    incoming: Incoming,
    to_nodes: Outgoing<ToNode>,
    to_peers: Outgoing<ToPeer>,
    relays: Relays,
    fan_outs: FanOuts,
    datagrams: Vec<Datagram>,
    kept: Vec<Kept>,
    counts: Counts,
    load: Load,
    /// When anything was heard last, and since when that is without a pause.
    heard: u64,
    reached: u64,
}

impl Proxy {
    /// A proxy without nodes, with the associations that were kept.
    #[must_use]
    pub fn new(settings: Settings, start: Start) -> Proxy {
        let Start { unix, mut entropy, kept } = start;
        let keep = settings.t1.saturating_mul(u64::from(settings.n1) + 1);
        let (first, second) = (entropy() as u32, entropy() as u32);
        let (most, t1, n1) = (OUTGOING, settings.t1, settings.n1);
        let mut proxy = Proxy {
            name: match &settings.node_id {
                ProxyId::Address(_) => Vec::new(),
                ProxyId::Name(name) => Text::labels_of(name),
            },
            recovery: Time::from_unix(unix),
            nodes: BTreeMap::new(),
            by_address: HashMap::new(),
            remembered: BTreeMap::new(),
            peers: BTreeMap::new(),
            applications: BTreeMap::new(),
            applications_version: 1,
            incoming: Incoming::new(INCOMING, keep),
            to_nodes: Outgoing::new(most, t1, n1, first),
            to_peers: Outgoing::new(most, t1, n1, second),
            relays: Relays::new(keep.saturating_mul(4)),
            fan_outs: FanOuts::default(),
            datagrams: Vec::new(),
            kept: Vec::new(),
            counts: Counts::default(),
            load: Load::new(unix),
            heard: 0,
            reached: 0,
            settings,
        };
        proxy.restore(kept);
        proxy
    }

    /// The nodes from now on. One that is not among them any more is given up.
    pub fn set_nodes(&mut self, now: u64, plans: Vec<NodePlan>) {
        let gone: Vec<u16> = self.nodes.keys().copied().collect();
        let stays = |number: &u16| plans.iter().any(|plan| plan.number == *number);
        for number in gone.into_iter().filter(|number| !stays(number)) {
            self.forget_node(now, number);
        }
        for plan in plans {
            self.by_address.retain(|_, number| *number != plan.number);
            self.by_address.insert(plan.address.ip(), plan.number);
            match self.nodes.get_mut(&plan.number) {
                Some(node) => node.plan = plan,
                None => self.add_node(now, plan),
            }
        }
        self.forget_remembered(now);
    }

    /// A datagram has come.
    pub fn receive(&mut self, now: u64, from: SocketAddr, datagram: &[u8]) {
        if let Some(number) = self.by_address.get(&from.ip()).copied() {
            self.counts.of_nodes += 1;
            self.note_heard(now);
            return self.take_of_node(now, number, from, datagram);
        }
        let peers = &self.settings.peers;
        if !peers.is_empty() && !is_within(peers, from.ip()) {
            self.counts.unlisted += 1;
            return;
        }
        self.counts.received += 1;
        self.note_heard(now);
        for frame in frames(datagram) {
            match frame {
                Ok(frame) => self.take_of_peer(now, from, &frame),
                Err(error) => self.take_unreadable(from, error, datagram),
            }
        }
    }

    fn note_heard(&mut self, now: u64) {
        if now.saturating_sub(self.heard) > self.patience() {
            self.reached = now;
        }
        self.heard = now;
    }

    /// How long an answer is waited for, ns.
    fn patience(&self) -> u64 {
        self.settings.t1.saturating_mul(u64::from(self.settings.n1))
    }

    fn take_unreadable(&mut self, from: SocketAddr, error: Error, datagram: &[u8]) {
        self.counts.unreadable += 1;
        if error.defect == Defect::Version
            && let Some(sequence) = Frame::foreign_sequence(datagram)
        {
            let answer = Message::VersionNotSupported(Default::default());
            self.send(from, &Header { seid: None, sequence, priority: None }, &answer);
        }
    }

    fn take_of_peer(&mut self, now: u64, from: SocketAddr, frame: &Frame<'_>) {
        let Some(kind) = MessageType::from_number(frame.message) else {
            self.counts.unknown_messages += 1;
            return;
        };
        if kind.has_seid() != frame.header.seid.is_some() {
            self.counts.unreadable += 1;
            return;
        }
        match kind {
            MessageType::HeartbeatRequest => self.take_heartbeat(now, from, frame),
            MessageType::SessionEstablishmentRequest => self.place(now, from, frame),
            MessageType::SessionModificationRequest | MessageType::SessionDeletionRequest => {
                self.pass_to_node(from, kind, frame);
            }
            MessageType::SessionReportResponse | MessageType::NodeReportResponse => {
                self.pass_back(now, from, frame);
            }
            kind if kind.is_request() => self.take_of_all(now, from, kind, frame),
            _ => self.take_peer_response(now, from, frame),
        }
    }

    /// A request about the whole: an association, applications, a set of sessions.
    fn take_of_all(&mut self, now: u64, from: SocketAddr, kind: MessageType, frame: &Frame<'_>) {
        let id = TransactionId { from, sequence: frame.header.sequence };
        let content = (frame.message, frame.header.seid, frame.body);
        use crate::transactions::Seen;
        match self.incoming.note(id, content, now) {
            Seen::New => {}
            Seen::Pending => return self.counts.repeated += 1,
            Seen::Answered(response) => {
                let octets = response.to_vec();
                self.counts.repeated += 1;
                self.datagrams.push(Datagram { to: from, octets, waits: true });
                return;
            }
            Seen::NoRoom => return self.counts.no_transaction += 1,
        }
        if let Err(refusal) = self.begin(now, id, kind, frame) {
            self.refuse(id, kind, frame.header.seid.map(|_| 0), refusal);
        }
    }

    /// What is due by now.
    pub fn poll(&mut self, now: u64) {
        while let Some(overdue) = self.to_nodes.overdue(now) {
            match overdue {
                Overdue::Again(to, octets) => self.again(to, octets),
                Overdue::Failed(what) => self.node_is_silent(now, what),
            }
        }
        while let Some(overdue) = self.to_peers.overdue(now) {
            match overdue {
                Overdue::Again(to, octets) => self.again(to, octets),
                Overdue::Failed(what) => self.peer_is_silent(now, what),
            }
        }
        self.look_after_peers(now);
        self.look_after_nodes(now);
        self.look_after_fan_outs(now);
        self.look_after_relays(now);
        self.settle(now);
        self.sum_up_load();
    }

    fn again(&mut self, to: SocketAddr, octets: Box<[u8]>) {
        self.counts.sent_again += 1;
        self.datagrams.push(Datagram { to, octets: octets.into(), waits: false });
    }

    /// The datagrams to be sent. Those that wait may go once what was to be kept is durable.
    pub fn take_datagrams(&mut self) -> Vec<Datagram> {
        std::mem::take(&mut self.datagrams)
    }

    /// Its address for a peer.
    fn own_address(&self, peer: IpAddr) -> IpAddr {
        let same = self.settings.listen.iter().find(|own| own.is_ipv4() == peer.is_ipv4());
        same.or(self.settings.listen.first()).copied().unwrap_or(peer)
    }

    fn send(&mut self, to: SocketAddr, header: &Header, message: &Message<'_>) {
        let mut octets = Vec::with_capacity(128);
        message.emit(header, &mut octets);
        self.counts.sent += 1;
        self.datagrams.push(Datagram { to, octets, waits: false });
    }

    /// Answers a request about the whole, once what it has changed is durable.
    fn respond(&mut self, id: TransactionId, seid: Option<u64>, message: &Message<'_>) {
        let header = Header { seid, sequence: id.sequence, priority: None };
        let mut octets = Vec::with_capacity(128);
        message.emit(&header, &mut octets);
        self.incoming.answer(id, &octets);
        self.counts.sent += 1;
        self.datagrams.push(Datagram { to: id.from, octets, waits: true });
    }

    fn refuse(&mut self, id: TransactionId, kind: MessageType, seid: Option<u64>, why: Refusal) {
        self.counts.refused += 1;
        self.answer(id, kind, seid, why);
    }

    /// Answers a request with a cause: the one that accepts it, or a refusal.
    fn answer(&mut self, id: TransactionId, kind: MessageType, seid: Option<u64>, why: Refusal) {
        let (recovery, name) = (self.recovery, self.name.clone());
        let node = elements::node_id(&self.settings.node_id, &name);
        if let Some(message) = refusing(kind, node, recovery, why) {
            self.respond(id, seid, &message);
        }
    }

    /// Sends a message to a node, for a control plane.
    fn forward(&mut self, node: u16, peer: SocketAddr, message: &[u8]) {
        let Some(to) = self.nodes.get(&node).map(|node| node.plan.address) else { return };
        match (Forwarded { peer, node }).wrap(message) {
            Some(octets) => {
                self.counts.forwarded += 1;
                self.datagrams.push(Datagram { to, octets, waits: false });
            }
            None => self.counts.unreadable += 1,
        }
    }

    /// Asks a node something, for a control plane or by itself.
    fn ask_node(&mut self, now: u64, peer: Option<IpAddr>, node: u16, ask: Ask<'_>, what: ToNode) {
        let Some(to) = self.nodes.get(&node).map(|node| node.plan.address) else { return };
        let Some(sequence) = self.to_nodes.sequence() else {
            self.counts.no_transaction += 1;
            return;
        };
        let mut octets = match ask {
            Ask::Message(seid, message) => {
                let mut octets = Vec::with_capacity(128);
                message.emit(&Header { seid, sequence, priority: None }, &mut octets);
                octets
            }
            Ask::Body(kind, body) => {
                let header = Header { seid: None, sequence, priority: None };
                Frame { header, message: kind as u8, body }.alone()
            }
        };
        if let Some(peer) = peer {
            // Port 0 is no control plane's: so these requests are none of its own.
            let forwarded = Forwarded { peer: SocketAddr::new(peer, 0), node };
            let Some(wrapped) = forwarded.wrap(&octets) else { return };
            octets = wrapped;
        }
        self.to_nodes.note(sequence, to, &octets, what, now);
        self.counts.forwarded += 1;
        self.datagrams.push(Datagram { to, octets, waits: false });
    }

    fn ask_peer(&mut self, now: u64, to: SocketAddr, message: &Message<'_>, what: ToPeer) {
        let Some(sequence) = self.peer_sequence() else { return };
        let mut octets = Vec::with_capacity(64);
        message.emit(&Header { seid: None, sequence, priority: None }, &mut octets);
        self.to_peers.note(sequence, to, &octets, what, now);
        self.counts.sent += 1;
        self.datagrams.push(Datagram { to, octets, waits: false });
    }

    /// A sequence number that no request to control planes has.
    fn peer_sequence(&mut self) -> Option<u32> {
        // Reports that wait have numbers of the same row.
        for _ in 0..=relay::REPORTS {
            let sequence = self.to_peers.sequence()?;
            if !self.relays.is_taken(sequence) {
                return Some(sequence);
            }
        }
        self.counts.no_transaction += 1;
        None
    }
}

/// What a node is asked.
enum Ask<'m> {
    Message(Option<u64>, &'m Message<'m>),
    Body(MessageType, &'m [u8]),
}

#[cfg(test)]
mod tests;
