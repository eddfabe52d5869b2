//! Connections of nodes with controllers.

use std::sync::Arc;
use std::time::Duration;

use weft_mobility_controller::engine::Input;
use weft_mobility_controller::surroundings::Network;
use weft_mobility_protocol::{Envelope, NodeId};
use weft_mobility_transport::note::{Attempt, Note, Process, Registration, Upgrade, UpgradeMethod};
use weft_mobility_transport::{Event as Arrived, PeerAddress, Registered, Statistics};

use super::{Event, Party, Promise, SECOND, Shared, World};

/// How long a node waits for a word of its controller, as nodes of replicas do.
const SILENCE: u64 = 1_500_000;
/// How long a controller waits for one of a node.
const NODE_SILENCE: u64 = 8 * SECOND;

/// The connections of the engine of one replica, in one term.
pub(super) struct Links {
    pub shared: Arc<Shared>,
    pub replica: usize,
    pub term: u64,
}

impl Links {
    fn link(&self, world: &World, node: NodeId) -> Option<u64> {
        let leads = world.replicas[self.replica].leads.as_ref();
        let leads = leads.filter(|leads| leads.term == self.term);
        leads.and_then(|leads| leads.links.get(&node).copied())
    }
}

impl Network for Links {
    fn send(&self, envelope: Envelope) {
        let mut world = self.shared.lock();
        let node = envelope.to;
        if let Some(link) = self.link(&world, node)
            && world.reach(Party::Replica(self.replica), Party::Node(node))
        {
            let at = world.in_order(Party::Replica(self.replica), Party::Node(node));
            world.at(at, Event::ToNode { node, link, envelope });
        }
    }

    fn note(&self, node: NodeId, note: &Note) -> bool {
        let mut world = self.shared.lock();
        let Some(link) = self.link(&world, node) else { return false };
        let event = match note {
            Note::Upgrade(upgrade) => Event::Upgrade { node, link, upgrade: *upgrade },
            Note::Settings { generation, text } => {
                Event::Settings { node, link, told: (*generation, text.clone()) }
            }
            _ => return true,
        };
        if world.reach(Party::Replica(self.replica), Party::Node(node)) {
            let at = world.in_order(Party::Replica(self.replica), Party::Node(node));
            world.at(at, event);
        }
        true
    }

    fn place(&self, place: PeerAddress) {
        let mut world = self.shared.lock();
        let leads = world.replicas[self.replica].leads.as_mut();
        if let Some(leads) = leads.filter(|leads| leads.term == self.term) {
            leads.welcome.push(place.node);
        }
    }

    fn displace(&self, node: NodeId) {
        let mut world = self.shared.lock();
        if let Some(leads) = &mut world.replicas[self.replica].leads {
            leads.welcome.retain(|welcome| *welcome != node);
        }
    }

    fn is_connected(&self, node: NodeId) -> bool {
        self.link(&self.shared.lock(), node).is_some()
    }

    fn last_heard(&self, _node: NodeId) -> Option<Duration> {
        None
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

impl World {
    /// When something that one sends to another now arrives: behind all before it.
    pub(super) fn in_order(&mut self, from: Party, to: Party) -> u64 {
        let soon = self.time() + self.random.between(100, 2000);
        let last = self.last.entry((from, to)).or_default();
        *last = soon.max(*last);
        *last
    }

    /// A node looks for the controller that leads.
    pub(super) fn dial(&mut self, number: NodeId) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.machine.is_none() || node.link.is_some() {
            return;
        }
        node.dials += 1;
        let (replica, life) = (node.dials % self.replicas.len(), node.life);
        let pause = self.random.between(50_000, 300_000);
        self.after(pause, Event::Dial(number));
        let (met, time) = (self.nodes[&number].term, self.time());
        let reaches = self.reach(Party::Replica(replica), Party::Node(number));
        let stands = self.replicas[replica].stands_until > time;
        let Some(leads) = &mut self.replicas[replica].leads else { return };
        if !reaches || stands || leads.process.0 == 0 {
            return;
        }
        if !leads.welcome.contains(&number) {
            let registration = Registration {
                address: format!("192.0.2.{}:1", number.0),
                capacity: 1000,
                version: format!("0.1.{life}"),
            };
            let name = format!("n{}", number.0);
            let said = Registered { node: number, name, registration };
            leads.give(Input::Arrived(Arrived::Registered(said)));
            let process = leads.process;
            return self.notify(process);
        }
        if leads.term < met {
            return;
        }
        self.number += 1;
        let link = self.number;
        let Some(leads) = &mut self.replicas[replica].leads else { return };
        let term = leads.term;
        if leads.links.insert(number, link).is_some() {
            leads.give(Input::Arrived(Arrived::Lost(number)));
        }
        leads.give(Input::Arrived(Arrived::Connected(number)));
        let process = leads.process;
        self.notify(process);
        self.note(|| format!("{number} is with replica {replica} in term {term}"));
        if let Some(node) = self.nodes.get_mut(&number) {
            (node.link, node.term) = (Some((replica, link)), met.max(term));
        }
    }

    /// From a controller to a node.
    pub(super) fn arrive_at_node(&mut self, node: NodeId, link: u64, envelope: Envelope) {
        if self.nodes.get(&node).is_some_and(|node| node.link.is_some_and(|own| own.1 == link)) {
            self.message(node, envelope);
        }
    }

    /// A node is told that a process of it is to go, or asked which one it is.
    pub(super) fn upgrade(&mut self, number: NodeId, link: u64, upgrade: Upgrade) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.link.is_none_or(|own| own.1 != link) {
            return;
        }
        let (request, process) = (upgrade.request, node.process);
        let is_meant = request > 0 && upgrade.process == process;
        let attempt = if is_meant { Attempt::Begun } else { Attempt::On };
        let (version, reason) = (format!("0.1.{process}"), String::new());
        let said = Process { request, process, attempt, version, reason };
        self.send_up(number, Arrived::Process(number, said));
        if !is_meant {
            return;
        }
        self.note(|| format!("{number} goes over to another process, by request {request}"));
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.upgrades.contains(&request) {
            self.violated(Promise::Sound, format!("{number} is upgraded twice by {request}"));
            return;
        }
        node.upgrades.push(request);
        self.statistics.upgrades += 1;
        match upgrade.method {
            UpgradeMethod::TakeOver => {
                node.process += 1;
                self.after(1000, Event::NodeLost { node: number, link });
            }
            UpgradeMethod::End => {
                let owned = self.history.count_of(number.0);
                if owned > 0 {
                    let what = format!("{number} is told to end, and has {owned} users");
                    self.violated(Promise::Placed, what);
                }
                self.kill_node(number);
                let starts = self.random.between(100_000, 2 * SECOND);
                self.after(starts, Event::Restart(number));
            }
        }
    }

    /// From a node to its controller.
    pub(super) fn send_up(&mut self, node: NodeId, arrived: Arrived) {
        let Some((replica, link)) = self.nodes.get(&node).and_then(|node| node.link) else {
            return;
        };
        if self.reach(Party::Replica(replica), Party::Node(node)) {
            let at = self.in_order(Party::Node(node), Party::Replica(replica));
            let arrived = Box::new(arrived);
            self.at(at, Event::ToController { replica, link, node, arrived });
        }
    }

    pub(super) fn arrive_at_controller(
        &mut self,
        replica: usize,
        link: u64,
        node: NodeId,
        arrived: Arrived,
    ) {
        let Some(leads) = &mut self.replicas[replica].leads else { return };
        if leads.links.get(&node) == Some(&link) {
            leads.give(Input::Arrived(arrived));
            let process = leads.process;
            self.notify(process);
        }
    }

    /// A node's connection has ended, for the node.
    pub(super) fn node_lost(&mut self, number: NodeId, link: u64) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.link.is_some_and(|own| own.1 == link) {
            node.link = None;
            self.note(|| format!("{number} has lost its controller"));
            self.after(10_000, Event::Dial(number));
        }
    }

    /// A node's connection has ended, for the controller.
    pub(super) fn controller_lost(&mut self, replica: usize, node: NodeId, link: u64) {
        let Some(leads) = &mut self.replicas[replica].leads else { return };
        if leads.links.get(&node) == Some(&link) {
            leads.links.remove(&node);
            leads.give(Input::Arrived(Arrived::Lost(node)));
            let process = leads.process;
            self.notify(process);
        }
    }

    /// Both ends of a connection notice that they hear nothing, if that lasts.
    pub(super) fn silence(&mut self, replica: usize, node: NodeId, lasts: u64) {
        let Some((own, link)) = self.nodes.get(&node).and_then(|node| node.link) else { return };
        if own != replica {
            return;
        }
        if lasts >= SILENCE {
            self.after(SILENCE, Event::NodeLost { node, link });
        }
        let notices = if lasts >= SILENCE { lasts.min(NODE_SILENCE) } else { return };
        self.after(notices, Event::ControllerLost { replica, node, link });
    }
}
