//! Shares of nodes behind N4 move to spare nodes.
//!
//! Who has a share is decided by one record: the node that gives it says that the other one has all
//! (`Commits`), once it carries no packet any more, and the record that says so is durable before
//! either hears of it. Either node may give the move up before (`Aborts`). So whatever dies, the
//! share is at one node, and a node that does not know asks.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use weft_mobility_protocol::NodeId;
use weft_mobility_transport::note::{Note, Share, ShareStep};

use super::super::Engine;
use super::super::events::Happening;
use crate::n4::N4Node;
use crate::shares::{Holder, Moving, ShareRecord, ShareRecords, ShareView};

/// How often nodes are told again what they are to do.
const AGAIN: Duration = Duration::from_millis(500);
/// A node that has not said for so long that it is spare is none.
const SPARE: Duration = Duration::from_secs(5);
/// A move takes no longer.
const LONGEST: Duration = Duration::from_secs(200);

/// A node that has no share and can take one.
#[derive(Clone, Debug)]
struct Spare {
    /// Where it waits, as `HOST:PORT`.
    at: String,
    /// Where N4 finds it.
    address: IpAddr,
    /// The process that waits there.
    process: u64,
    said: Instant,
}

/// What the engine knows of shares.
#[derive(Debug, Default)]
pub struct Shares {
    records: ShareRecords,
    spares: BTreeMap<NodeId, Spare>,
    /// The process of each node that has taken a share last: its words from before come late.
    took: BTreeMap<NodeId, u64>,
    /// Nodes behind N4, as they were asked for last.
    nodes: Vec<N4Node>,
    /// When each move is given up.
    until: BTreeMap<u16, Instant>,
    failed: BTreeMap<u16, String>,
    /// Packets that the last move of each has dropped.
    dropped: BTreeMap<u16, u32>,
    next: Option<Instant>,
}

impl Shares {
    /// Goes on where records end.
    pub fn new(records: ShareRecords, now: Instant) -> Shares {
        let is_any = records.iter().next().is_some();
        Shares { records, next: is_any.then_some(now), ..Shares::default() }
    }

    /// When there is something to do although nothing happens.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The nodes behind N4 from now on.
    pub(super) fn set_nodes(&mut self, nodes: Vec<N4Node>) {
        self.nodes = nodes;
    }

    /// What is kept of the share of that number.
    pub(super) fn record(&self, number: u16) -> Option<&ShareRecord> {
        self.records.get(number)
    }

    /// The number of another node's share that is at the node of that name.
    pub(super) fn held_by(&self, name: &str) -> Option<u16> {
        let mut records = self.records.iter();
        records.find(|(_, one)| one.is_held_by(name)).map(|(number, _)| number)
    }

    /// The node that has the share of the node of that name, if it is another one.
    pub(in crate::engine) fn elsewhere(&self, name: &str) -> Option<&str> {
        let mut records = self.records.iter().filter(|(_, one)| one.home == name);
        records.find_map(|(_, one)| one.holder.as_ref()).map(|holder| &*holder.name)
    }

    /// Whether a share moves from or to the node of that name.
    pub(in crate::engine) fn moves_at(&self, name: &str) -> bool {
        let mut moving = self.records.iter().filter_map(|(_, one)| one.moving.as_ref());
        moving.any(|moving| moving.from == name || moving.to.name == name)
    }

    /// Whether the share of a node is there, and stays.
    pub(super) fn is_at_home(&self, number: u16, name: &str) -> bool {
        let record = self.records.get(number).filter(|record| record.home == name);
        record.is_none_or(|record| record.holder.is_none() && record.moving.is_none())
    }
}

/// Why no share moves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMoved {
    /// There is none.
    #[error("no share of N4 is at a node `{0}`")]
    None(String),
    /// The node cannot be told.
    #[error(
        "{0} is not connected with the controller, which has to tell it: give its configuration \
         `site`, and run it with --handover-controller"
    )]
    Away(String),
    /// There is no node for it.
    #[error("there is no spare node for it: start one (`weft run --spare`)")]
    NoSpare,
    /// It moves.
    #[error("the share of {0} moves already")]
    Moves(String),
    /// Nodes of a pair move otherwise.
    #[error("it is one of a pair: its standby takes over (`weft ctl switch-over`)")]
    Pair,
}

impl Engine {
    /// All shares.
    pub fn shares(&self) -> Vec<ShareView> {
        let view = |node: &N4Node| {
            let record = self.share_of(node);
            ShareView {
                number: node.number,
                home: record.home.clone(),
                holder: record.at().to_owned(),
                moves_to: record.moving.map(|moving| moving.to.name),
                dropped: self.shares.dropped.get(&node.number).copied().unwrap_or(0),
                failed: self.shares.failed.get(&node.number).cloned(),
            }
        };
        self.shares.nodes.iter().map(view).collect()
    }

    fn share_of(&self, node: &N4Node) -> ShareRecord {
        let kept = self.shares.records.get(node.number).filter(|kept| kept.home == node.name);
        kept.cloned()
            .unwrap_or_else(|| ShareRecord { home: node.name.clone(), ..ShareRecord::default() })
    }

    /// The share at the node of that name goes to a spare node; returns its number. The node takes
    /// no further sessions.
    ///
    /// # Errors
    /// [`NotMoved`]: then nothing has changed.
    pub fn move_share(&mut self, name: &str) -> Result<u16, NotMoved> {
        let mut all = self.shares.nodes.iter().map(|node| (node.number, self.share_of(node)));
        let found = all.find(|(_, record)| record.at() == name);
        let (number, record) = found.ok_or_else(|| NotMoved::None(name.to_owned()))?;
        if record.moving.is_some() {
            return Err(NotMoved::Moves(record.home));
        }
        let from = self.members.named(name).filter(|node| self.transport.is_connected(*node));
        let from = from.ok_or_else(|| NotMoved::Away(name.to_owned()))?;
        if self.pairs.iter().any(|pair| pair.couple.has(from)) {
            return Err(NotMoved::Pair);
        }
        let (to, spare) = self.spare(from).ok_or(NotMoved::NoSpare)?;
        let to = Holder { name: self.name(to), address: spare.address, process: spare.process };
        tracing::info!(number, from = name, to = to.name, "a share of N4 is to move");
        let moving = Moving { id: fresh(), from: name.to_owned(), to, at: spare.at };
        self.shares.failed.remove(&number);
        self.shares.dropped.remove(&number);
        self.shares.until.insert(number, self.clock.now() + LONGEST);
        self.keep_share(number, ShareRecord { moving: Some(moving), ..record });
        Ok(number)
    }

    /// A spare node that takes users, for the share at `from`: the one that can carry most.
    fn spare(&self, from: NodeId) -> Option<(NodeId, Spare)> {
        let now = self.clock.now();
        let taken = |node: NodeId| {
            let name = self.name(node);
            let records = &mut self.shares.records.iter();
            records.any(|(_, one)| one.moving.as_ref().is_some_and(|moving| moving.to.name == name))
        };
        let spares = self.shares.spares.iter().filter(|(node, spare)| {
            now.saturating_duration_since(spare.said) < SPARE
                && **node != from
                && self.transport.is_connected(**node)
                && !self.is_cordoned(**node)
                && !taken(**node)
        });
        let capacity = |node: NodeId| self.members.get(node).map_or(0, |member| member.capacity);
        let best = spares.max_by_key(|(node, _)| capacity(**node));
        best.map(|(node, spare)| (*node, spare.clone()))
    }

    /// A node says something of a share.
    pub(in crate::engine) fn said_share(&mut self, from: NodeId, said: Share) {
        let name = self.name(from);
        match said.step {
            ShareStep::Spare => self.is_spare(from, &name, &said),
            ShareStep::Commits => self.commit_share(from, &name, (said.id, said.dropped)),
            ShareStep::Aborts => self.abort_share(from, &name, (said.id, said.reason)),
            ShareStep::Asks => self.tell_of(from, said.id),
            // Of a controller only.
            _ => {}
        }
    }

    /// A node has no share. One that was at another process of it is lost with that process: it is
    /// at its home again, which may start anew.
    fn is_spare(&mut self, node: NodeId, name: &str, said: &Share) {
        let Some((at, address)) = said.address.split_once(' ') else { return };
        let Ok(address) = address.parse() else { return };
        // A process has 64 bits of what moves are known by.
        let process = said.id as u64;
        let is_holder = |record: &ShareRecord| {
            record.holder.as_ref().is_some_and(|one| one.name == name && one.process == process)
        };
        let holds = self.shares.records.iter().any(|(_, record)| is_holder(record));
        if holds || self.shares.took.get(&node) == Some(&process) {
            return;
        }
        let spare = Spare { at: at.to_owned(), address, process, said: self.clock.now() };
        self.shares.spares.insert(node, spare);
        self.lose_share(name);
        self.waits_as_spare(name);
    }

    /// What a node had of another one's share is lost: the share is at its home.
    pub(in crate::engine) fn lose_share(&mut self, name: &str) {
        let is_lost = |record: &ShareRecord| record.moving.is_none() && record.is_held_by(name);
        let lost = self.shares.records.iter().find(|(_, record)| is_lost(record));
        let lost = lost.map(|(number, record)| (number, record.clone()));
        if let Some((number, record)) = lost {
            tracing::warn!(number, name, "a node has lost a share of N4: it is at its home");
            self.keep_share(number, ShareRecord { holder: None, last: None, ..record });
        }
    }

    /// The node that waits as a spare node at an address.
    pub(super) fn spare_at(&self, address: IpAddr) -> Option<String> {
        let now = self.clock.now();
        let mut spares = self.shares.spares.iter();
        let waits = |spare: &Spare| now.saturating_duration_since(spare.said) < SPARE;
        let found = spares.find(|(_, spare)| spare.address == address && waits(spare));
        found.map(|(node, _)| self.name(*node))
    }

    /// The move of that number that is under way.
    fn moving(&self, id: u128) -> Option<(u16, ShareRecord, Moving)> {
        let id = text_of(id);
        let mut records = self.shares.records.iter();
        records.find_map(|(number, record)| {
            let moving = record.moving.clone().filter(|moving| moving.id == id)?;
            Some((number, record.clone(), moving))
        })
    }

    fn commit_share(&mut self, from: NodeId, name: &str, (id, dropped): (u128, u32)) {
        match self.moving(id) {
            Some((number, record, moving)) if moving.from == name => {
                let (to, home) = (moving.to.clone(), record.home.clone());
                tracing::info!(number, to = to.name, dropped, "a share of N4 has moved");
                self.shares.dropped.insert(number, dropped);
                let holder = (to.name != home).then_some(to);
                let last = Some(moving.id.clone());
                self.shares.until.remove(&number);
                if let Some(node) = self.members.named(&moving.to.name) {
                    self.shares.spares.remove(&node);
                    self.shares.took.insert(node, moving.to.process);
                }
                self.keep_share(number, ShareRecord { home, holder, moving: None, last });
                self.tell_event(Happening::n4(moving.to.name.clone(), "share-moved"));
                self.tell_both(&moving, id, ShareStep::Committed);
            }
            Some(_) => {}
            None => self.tell_of(from, id),
        }
    }

    fn abort_share(&mut self, from: NodeId, name: &str, (id, reason): (u128, String)) {
        match self.moving(id) {
            Some((number, _, moving)) if moving.from == name || moving.to.name == name => {
                self.give_up(number, format!("{name}: {reason}"));
            }
            Some(_) => {}
            None => self.tell_of(from, id),
        }
    }

    /// A move that is under way comes to nothing.
    fn give_up(&mut self, number: u16, reason: String) {
        let Some(record) = self.shares.records.get(number).cloned() else { return };
        let Some(moving) = record.moving.clone() else { return };
        tracing::warn!(number, "a share of N4 stays: {reason}");
        self.shares.until.remove(&number);
        self.shares.failed.insert(number, reason);
        self.keep_share(number, ShareRecord { moving: None, ..record });
        let id = u128::from_str_radix(&moving.id, 16).unwrap_or_default();
        self.tell_event(Happening::n4(moving.from.clone(), "share-stays"));
        self.tell_both(&moving, id, ShareStep::Aborted);
    }

    /// Tells a node what has become of a move; nothing while it is under way.
    fn tell_of(&mut self, node: NodeId, id: u128) {
        if self.moving(id).is_some() {
            return;
        }
        let text = text_of(id);
        let is_of = |(_, record): (u16, &ShareRecord)| record.last.as_deref() == Some(&text);
        let is_done = self.shares.records.iter().any(is_of);
        let step = if is_done { ShareStep::Committed } else { ShareStep::Aborted };
        self.tell_share(node, Share { id, step, ..Share::default() });
    }

    fn tell_both(&mut self, moving: &Moving, id: u128, step: ShareStep) {
        for name in [&moving.from, &moving.to.name] {
            if let Some(node) = self.members.named(name) {
                self.tell_share(node, Share { id, step, ..Share::default() });
            }
        }
    }

    /// Tells a node, once it is durable; what is lost is asked for again.
    fn tell_share(&mut self, node: NodeId, share: Share) {
        let sender = self.transport.clone();
        self.answers.push(Box::new(move || _ = sender.note(node, &Note::Share(share))));
    }

    fn keep_share(&mut self, number: u16, record: ShareRecord) {
        let change = self.shares.records.put(number, record);
        self.changes.push(change);
        self.shares.next = Some(self.clock.now());
    }

    /// Says again what nodes are to do, and gives up what takes too long.
    pub(in crate::engine) fn go_on_with_shares(&mut self, now: Instant) {
        if self.shares.next.is_none_or(|next| next > now) {
            return;
        }
        let all: Vec<_> =
            self.shares.records.iter().map(|(number, one)| (number, one.clone())).collect();
        self.shares.next = (!all.is_empty()).then_some(now + AGAIN);
        for (number, record) in all {
            let Some(moving) = &record.moving else {
                self.shut_out(number, &record, now);
                continue;
            };
            let until = *self.shares.until.entry(number).or_insert(now + LONGEST);
            if until <= now {
                let seconds = LONGEST.as_secs();
                self.give_up(number, format!("it takes longer than {seconds} s"));
                continue;
            }
            let id = u128::from_str_radix(&moving.id, 16).unwrap_or_default();
            let take = (&moving.to.name, ShareStep::Take, &moving.from);
            for (to, step, name) in [take, (&moving.from, ShareStep::Give, &moving.to.name)] {
                let Some(node) = self.members.named(to) else { continue };
                let (name, address) = (name.clone(), moving.at.clone());
                let share = Share { id, step, number, name, address, ..Share::default() };
                self.tell_share(node, share);
            }
        }
    }

    /// The home of a share that is elsewhere must not have its addresses.
    fn shut_out(&mut self, number: u16, record: &ShareRecord, now: Instant) {
        let home = self.members.named(&record.home);
        let (Some(home), Some(holder)) = (home, &record.holder) else { return };
        let spare = self.shares.spares.get(&home);
        let is_spare = spare.is_some_and(|one| now.saturating_duration_since(one.said) < SPARE);
        let holds_another = self.shares.records.iter().any(|(_, other)| other.at() == record.home);
        if is_spare || holds_another || !self.transport.is_connected(home) {
            return;
        }
        let (step, name) = (ShareStep::Elsewhere, holder.name.clone());
        self.tell_share(home, Share { step, number, name, ..Share::default() });
    }
}

fn text_of(id: u128) -> String {
    format!("{id:032x}")
}

/// A number that no other move has, and that cannot be guessed: hashes under keys of the system's
/// random numbers.
fn fresh() -> String {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    text_of(half() << 64 | half())
}
