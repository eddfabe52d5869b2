//! Nodes come to run the program that is installed at them, one after another.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use weft_mobility_protocol::controller::Stage;
use weft_mobility_protocol::{NodeId, User};
use weft_mobility_transport::note::{Attempt, Note, Process, Upgrade as Order, UpgradeMethod};
use weft_site::history::Phase as Rollout;
use weft_site::upgrade::{Action, Answer, Method, Records, Standing, Upgrade, View};

use super::Engine;
use super::events::Happening;
use crate::surroundings::Clock;

/// How often it is looked what is to be done.
const LOOK: Duration = Duration::from_millis(200);
/// The first release whose nodes can be upgraded by their site.
const FIRST: [u64; 3] = [0, 1, 0];

/// The upgrade of the site that is under way, or the last one.
#[derive(Debug)]
pub struct Upgrading {
    plan: Upgrade,
    records: Records,
    began: Instant,
    next: Instant,
}

/// Why no upgrade begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// One goes on.
    #[error("an upgrade is under way: wait for it, or end it (`weft upgrade site --cancel`)")]
    Running,
    /// Nodes are being changed.
    #[error("documents are being rolled out: wait for that (`weft wait --for rollout`)")]
    Rolling,
    /// There is no such node.
    #[error("there is no node `{0}`")]
    Unknown(String),
    /// A node cannot be asked.
    #[error("{0} is {1}: start it, or name the nodes that are to be upgraded (`--node`)")]
    Away(String, &'static str),
    /// A node is of a release that knows nothing of it.
    #[error("{0} runs a release that cannot be upgraded by its site: {1}")]
    Old(String, String),
}

impl Upgrading {
    /// Goes on where records end.
    pub fn new(records: Records, clock: &Clock) -> Upgrading {
        let (now, mut plan) = (clock.now(), records.upgrade());
        plan.number_from(fresh(clock));
        Upgrading { plan, records, began: now, next: now }
    }

    /// When there is something to do although nothing happens.
    pub fn next(&self) -> Option<Instant> {
        self.plan.is_running().then_some(self.next)
    }

    /// Whether a node is being upgraded.
    pub fn is_busy(&self) -> bool {
        self.plan.is_busy()
    }

    /// A node has connected.
    pub fn connected(&mut self, node: &str, now: Instant) {
        self.plan.connected(node);
        self.next = now;
    }
}

/// Requests of one upgrade have numbers behind its own, so many at most.
const REQUESTS: u64 = 1 << 20;

/// A number that none had before, and no controller before this one: of its seconds.
fn fresh(clock: &Clock) -> u64 {
    (clock.since_1970().as_secs() & 0xffff_ffff) * REQUESTS
}

impl Engine {
    /// These nodes, or all, are to be upgraded one after another.
    ///
    /// # Errors
    /// [`NotBegun`]: then nothing has changed.
    pub fn begin_upgrade(&mut self, method: Method, names: &[String]) -> Result<(), NotBegun> {
        if self.upgrading.plan.is_running() {
            return Err(NotBegun::Running);
        }
        if matches!(self.desired.phase(), Rollout::Rolling | Rollout::RollingBack) {
            return Err(NotBegun::Rolling);
        }
        let mut all = self.members.all();
        // Those of the file first, in its order.
        all.sort_by_key(|one| if one.has_registered { one.number.0 } else { 0 });
        if let Some(name) = names.iter().find(|name| all.iter().all(|one| one.name != **name)) {
            return Err(NotBegun::Unknown(name.clone()));
        }
        let is_meant = |name: &String| names.is_empty() || names.contains(name);
        let mut nodes = Vec::new();
        for member in all.into_iter().filter(|member| is_meant(&member.name)) {
            let skipped = self.is_skipped(member.number, method);
            if skipped.is_none() {
                match (self.is_connected(&member.name), self.has_expired_named(&member.name)) {
                    (true, _) => {}
                    (false, true) => return Err(NotBegun::Away(member.name, "expired")),
                    (false, false) => return Err(NotBegun::Away(member.name, "not connected")),
                }
                if is_before(&member.version, FIRST) {
                    return Err(NotBegun::Old(member.name, member.version));
                }
            }
            nodes.push((member.name, skipped));
        }
        // This clock may be behind that of the controller before.
        let number = fresh(&self.clock).max(self.upgrading.plan.number + REQUESTS);
        tracing::info!(number, "nodes are upgraded one after another");
        self.upgrading.plan = Upgrade::begin(number, method, nodes);
        self.look_at_upgrade();
        Ok(())
    }

    /// The upgrade ends with the node that is in progress.
    /// False if none is under way.
    pub fn cancel_upgrade(&mut self) -> bool {
        let is_running = self.upgrading.plan.is_running();
        if is_running {
            self.upgrading.plan.cancel();
            self.look_at_upgrade();
        }
        is_running
    }

    /// The upgrade that is under way, or the last one.
    pub fn upgrade(&self) -> &Upgrade {
        &self.upgrading.plan
    }

    /// Why a node is not upgraded, if it is not.
    fn is_skipped(&self, node: NodeId, method: Method) -> Option<String> {
        if self.pairs.iter().any(|pair| pair.couple.has(node)) {
            return Some("it is one of a pair with a standby: upgrade it at the node".to_owned());
        }
        let is_anchor = method == Method::Drain && self.machine.is_anchor(node);
        is_anchor.then(|| {
            "it is the anchor of users, who cannot leave it: upgrade it in place".to_owned()
        })
    }

    /// Does what is to be done for nodes to be upgraded.
    pub(super) fn go_on_with_upgrade(&mut self, now: Instant) {
        if self.upgrading.next().is_some_and(|next| next <= now) {
            self.look_at_upgrade();
        }
    }

    fn look_at_upgrade(&mut self) {
        let now = self.clock.now();
        self.upgrading.next = now + LOOK;
        let passed = now.saturating_duration_since(self.upgrading.began);
        let mut plan = std::mem::take(&mut self.upgrading.plan);
        let mut actions = plan.step(passed, &*self);
        self.upgrading.plan = plan;
        while !actions.is_empty() {
            let action = actions.remove(0);
            actions.extend(self.carry_out_upgrade(action));
        }
        let Upgrading { plan, records, .. } = &mut self.upgrading;
        self.changes.extend(records.follow(plan));
    }

    fn carry_out_upgrade(&mut self, action: Action) -> Vec<Action> {
        match action {
            Action::Tell { node, request } => self.tell_upgrade(&node, request),
            Action::Drain(name) => {
                let Some(node) = self.members.named(&name) else { return Vec::new() };
                let (was_cordoned, first) = (self.is_cordoned(node), self.orders.next_number());
                match self.drain(node, false) {
                    Ok(_) => self.upgrading.plan.leaves(first, was_cordoned),
                    Err(error) => return self.upgrading.plan.fail(&error.to_string()),
                }
            }
            Action::Uncordon(name) => {
                if let Some(node) = self.members.named(&name) {
                    self.cordon(node, false);
                }
            }
            Action::Return(name) => self.bring_back(&name),
            Action::Upgraded(node) => {
                tracing::info!(node, "a node is upgraded");
                self.tell_event(Happening::upgrade("upgraded", Some(node), String::new()));
            }
            Action::Over(phase, reason) => {
                let said = serde_json::to_value(phase).unwrap_or_default();
                let said = format!("upgrade-{}", said.as_str().unwrap_or_default());
                tracing::info!(reason, "{said}");
                self.tell_event(Happening::upgrade(&said, None, reason));
            }
        }
        Vec::new()
    }

    /// A node is told once it is durable what it is told.
    fn tell_upgrade(&mut self, name: &str, request: Option<(u64, u64)>) {
        let Some(node) = self.members.named(name) else { return };
        let method = match self.upgrading.plan.method {
            Method::InPlace => UpgradeMethod::TakeOver,
            Method::Drain => UpgradeMethod::End,
        };
        let (request, process) = request.unwrap_or_default();
        let note = Note::Upgrade(Order { request, process, method });
        let sender = self.transport.clone();
        // What is lost is said again.
        self.answers.push(Box::new(move || _ = sender.note(node, &note)));
    }

    /// As many users as have left a node come back from where they went, those first that came
    /// there last.
    fn bring_back(&mut self, name: &str) {
        if self.desired.rebalance().is_some() {
            return;
        }
        let Some(node) = self.members.named(name) else { return };
        let nodes = &self.upgrading.plan.nodes;
        let first = nodes.iter().find(|one| one.node == name).map_or(0, |one| one.orders);
        let left = self.orders.iter().filter(|order| order.number >= first);
        let left = left.filter(|order| order.from == Some(node) && order.moved > 0);
        let left: Vec<_> = left.map(|order| (order.to, order.moved)).collect();
        for (from, count) in left {
            let mut users = self.users_of(from);
            let newest = |user: &User| {
                let owner = self.machine.record(*user).and_then(|record| record.owner);
                Reverse(owner.map(|leg| leg.epoch))
            };
            users.sort_by_cached_key(newest);
            users.truncate(count);
            if !users.is_empty() {
                self.open_order(node, from, &users);
                self.drive(|machine, out| machine.move_users(users, node, out));
            }
        }
    }

    /// A node says which process it is, and what has become of what it was told.
    pub(super) fn said_process(&mut self, node: NodeId, said: Process) {
        let Process { request, process, attempt, version, reason } = said;
        let standing = match attempt {
            Attempt::On => Standing::Runs,
            Attempt::Begun => Standing::Begun,
            Attempt::Refused => Standing::Refused,
        };
        let name = self.name(node);
        let answer = Answer { request, process, standing, version, reason };
        self.upgrading.plan.answered(&name, answer);
        self.upgrading.next = self.clock.now();
    }

    fn has_expired_named(&self, name: &str) -> bool {
        self.members.named(name).is_some_and(|node| Engine::has_expired(self, node))
    }
}

impl View for Engine {
    fn is_held(&self) -> bool {
        self.desired.is_restless(self.clock.now())
    }

    fn is_connected(&self, node: &str) -> bool {
        self.members.named(node).is_some_and(|node| self.transport.is_connected(node))
    }

    fn has_expired(&self, node: &str) -> bool {
        self.has_expired_named(node)
    }

    fn incarnation(&self, node: &str) -> u32 {
        let node = self.members.named(node);
        node.and_then(|node| self.machine.incarnation(node)).map_or(0, |number| number.0)
    }

    fn users(&self, node: &str) -> [usize; 2] {
        let Some(node) = self.members.named(node) else { return [0, 0] };
        let mut counts = [0, 0];
        for (_, _, stage) in self.machine.users_at(node, User(0)) {
            counts[usize::from(stage != Stage::Settled)] += 1;
        }
        counts
    }

    fn under_way(&self, node: &str, orders: u64) -> usize {
        let Some(node) = self.members.named(node) else { return 0 };
        let own = self.orders.iter().filter(|order| order.number >= orders);
        let own = own.filter(|order| order.from == Some(node) || order.to == node);
        own.map(super::Order::under_way).sum()
    }
}

/// Whether a version is of an earlier release; one that was not said, or does not read, is not.
fn is_before(version: &str, first: [u64; 3]) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let parts: Result<Vec<u64>, _> = core.split('.').map(str::parse).collect();
    parts.is_ok_and(|parts| parts.len() == 3 && parts < first.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told_apart_by_their_numbers() {
        for version in ["0.0.9", "0.1.9", "0.1.9-rc.1", "0.2.0"] {
            assert!(is_before(version, [0, 10, 0]), "{version}");
        }
        for version in ["0.10.0", "0.10.0-rc.1", "1.0.0", "", "new", "0.1"] {
            assert!(!is_before(version, [0, 10, 0]), "{version}");
        }
    }
}
