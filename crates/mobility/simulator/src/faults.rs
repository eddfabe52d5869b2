//! Deaths and cuts.

use weft_mobility_protocol::{NodeId, User};

use crate::event::Event;
use crate::user::Cause;
use crate::world::{Machine, Phase, World};

impl World {
    pub fn is_dead(&self, node: NodeId) -> bool {
        let station = self.stations.get(&node).map(|node| node.machine.is_none());
        let anchor = self.anchors.get(&node).map(|node| node.machine.is_none());
        station.or(anchor).unwrap_or(self.controller.machine.is_none())
    }

    pub fn is_cut(&self, one: NodeId, other: NodeId) -> bool {
        let pair = (one.min(other), one.max(other));
        self.cuts.get(&pair).is_some_and(|until| self.time < *until)
    }

    /// Packets of the user may be lost from now on.
    pub fn touch(&mut self, user: User) {
        if let Some(state) = self.users.get_mut(&user) {
            state.touched = true;
        }
    }

    /// A fault, and the next one later.
    pub fn fault(&mut self) {
        let faults = self.scenario.faults;
        if self.phase != Phase::Running || !(faults.deaths || faults.cuts) {
            return;
        }
        let gap = self.random.between(1_000, 60_000);
        self.after(gap, Event::Fault);
        if faults.cuts && (!faults.deaths || self.random.one_in_thousand(500)) {
            return self.cut();
        }
        let nodes: Vec<NodeId> = self.stations.keys().chain(self.anchors.keys()).copied().collect();
        let node = match self.random.between(0, 4) {
            0 => NodeId::CONTROLLER,
            _ => self.random.pick(&nodes).unwrap_or_default(),
        };
        self.die(node);
    }

    fn cut(&mut self) {
        let mut nodes: Vec<NodeId> =
            self.stations.keys().chain(self.anchors.keys()).copied().collect();
        nodes.push(NodeId::CONTROLLER);
        let (one, other) = (self.random.pick(&nodes), self.random.pick(&nodes));
        let (Some(one), Some(other)) = (one, other) else { return };
        // Most are short; some outlast all patience of the protocol.
        let most = if self.random.one_in_thousand(100) { 6_000_000 } else { 300_000 };
        let time = self.random.between(1_000, most);
        if one != other {
            self.statistics.cuts += 1;
            self.note(None, || format!("{one} and {other} are cut off for {time} us"));
            self.cuts.insert((one.min(other), one.max(other)), self.time + time);
        }
    }

    fn die(&mut self, node: NodeId) {
        if self.is_dead(node) {
            return;
        }
        self.statistics.deaths += 1;
        self.note(None, || format!("{node} dies"));
        self.timers.retain(|(owner, _), _| *owner != node);
        if node == NodeId::CONTROLLER {
            self.controller.machine = None;
            // Some of what was being written is, though no node was told.
            let writes = self.controller.writes.len() as u64;
            for _ in 0..self.random.between(0, writes + 1) {
                self.write_oldest();
            }
            self.controller.writes.clear();
        } else {
            self.lose_node(node);
        }
        let living = self.stations.values().filter(|node| node.machine.is_some()).count();
        let for_good =
            self.stations.contains_key(&node) && living >= 2 && self.random.one_in_thousand(150);
        if for_good {
            self.gone.insert(node, None);
            let after = self.random.between(20_000, 400_000);
            self.after(after, Event::DeclareGone(node));
        } else {
            let after = self.random.between(500, 300_000);
            self.after(after, Event::Restart(node));
        }
    }

    /// What a station or an anchor had in memory is lost.
    fn lose_node(&mut self, node: NodeId) {
        let mut touched: Vec<User> = Vec::new();
        let mut lost = Vec::new();
        if let Some(station) = self.stations.get_mut(&node) {
            station.machine = None;
            station.functions.clear();
            station.disk.lose_unwritten(self.random.between(0, 3));
            touched.extend(station.plane.users());
            for user in &touched {
                station.plane.discard(*user, |packet| lost.push(packet));
            }
        }
        if let Some(anchor) = self.anchors.get_mut(&node) {
            anchor.machine = None;
            anchor.disk.lose_unwritten(self.random.between(0, 3));
            touched.extend(anchor.plane.users());
            for user in &touched {
                anchor.plane.discard(*user, |packet| lost.push(packet));
            }
        }
        let near = self.users.values().filter(|state| state.radio == node || state.wanted == node);
        touched.extend(near.map(|state| state.user));
        for user in touched {
            self.touch(user);
        }
        for packet in lost {
            self.lose(packet, Cause::Died);
        }
    }

    /// The operator says that a node does not come back, and who takes its users.
    pub fn declare_gone(&mut self, node: NodeId) {
        if !self.gone.contains_key(&node) {
            return;
        }
        let living: Vec<NodeId> = self
            .stations
            .iter()
            .filter(|(_, station)| station.machine.is_some())
            .map(|(node, _)| *node)
            .collect();
        let Some(successor) = self.random.pick(&living) else {
            return self.after(20_000, Event::DeclareGone(node));
        };
        self.gone.insert(node, Some(successor));
        self.say_gone(node, successor);
        // It comes back after all.
        if self.random.one_in_thousand(500) && self.phase == Phase::Running {
            let after = self.random.between(1_000, 400_000);
            self.after(after, Event::Restart(node));
        }
    }

    pub fn say_gone(&mut self, node: NodeId, successor: NodeId) {
        self.note(None, || format!("{node} is declared gone, for {successor}"));
        self.input(NodeId::CONTROLLER, None, |machine, out| {
            if let Machine::Controller(controller) = machine {
                controller.node_gone(node, successor, out);
            }
        });
    }

    /// The end of orders and faults: what is dead and not gone for good starts.
    pub fn drain(&mut self) {
        self.phase = Phase::Draining;
        self.since = self.time;
        self.note(None, || "no orders and no faults any more".to_owned());
        self.cuts.clear();
        let nodes = self.stations.keys().chain(self.anchors.keys()).copied();
        for node in nodes.chain([NodeId::CONTROLLER]).collect::<Vec<_>>() {
            if self.is_dead(node) && !self.gone.contains_key(&node) {
                let after = self.random.between(1_000, 50_000);
                self.after(after, Event::Restart(node));
            }
        }
        for node in self.gone.keys().copied().collect::<Vec<_>>() {
            self.after(100_000, Event::DeclareGone(node));
        }
    }
}
