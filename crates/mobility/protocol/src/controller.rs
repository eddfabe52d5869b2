//! The controller: it drives each move, keeps the epochs, and brings users back
//! whose owner is gone.
//!
//! What it must not forget is one record for each user. A record is durable
//! before any node hears of the move that it begins; a controller that starts
//! again takes each move that is not settled up from its beginning, which all
//! parties take as what it is, since every step can be repeated.

mod by_node;
mod course;
mod reply;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use crate::identity::{Epoch, Incarnation, Leg, NodeId, User};
use crate::message::{Envelope, Message, Step};
use crate::output::{Counter, Output, TimerKey, TimerKind};
pub use crate::record::{Intent, Notice, Record, Refusal};
use crate::settings::Settings;
use by_node::ByNode;
use turns::{Turn, Turns};

/// Where the controller is with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The user has an owner, and nothing is to be done.
    Settled,
    /// The record becomes durable.
    Storing,
    /// The target makes an entry.
    PreparingTarget,
    /// The anchor makes a gate.
    PreparingAnchor,
    /// The source sends contexts to the target; or the target adopts the user.
    Moving,
    /// The anchor switches downlink.
    Switching,
    /// The source goes.
    Releasing,
    /// Target and anchor open their gates.
    Completing,
    /// The target is asked not to import.
    AbortingTarget,
    /// The source owns the user again.
    AbortingSource,
    /// What the target held goes back to the source.
    AbortClosing,
    /// Owner and anchor forget the user.
    Removing,
}

impl Stage {
    /// The stage's name in tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Settled => "Settled",
            Stage::Storing => "Storing",
            Stage::PreparingTarget => "PreparingTarget",
            Stage::PreparingAnchor => "PreparingAnchor",
            Stage::Moving => "Moving",
            Stage::Switching => "Switching",
            Stage::Releasing => "Releasing",
            Stage::Completing => "Completing",
            Stage::AbortingTarget => "AbortingTarget",
            Stage::AbortingSource => "AbortingSource",
            Stage::AbortClosing => "AbortClosing",
            Stage::Removing => "Removing",
        }
    }
}

/// Parties whose answer is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wants {
    source: bool,
    target: bool,
    anchor: bool,
}

impl Wants {
    fn nothing(self) -> bool {
        self == Wants::default()
    }
}

#[derive(Debug)]
struct Managed {
    record: Record,
    stage: Stage,
    wants: Wants,
    attempt: u32,
    /// The target has surely never owned the user in this move.
    certain: bool,
    /// The target has refused, and never had the user.
    target_absent: bool,
    /// The target refused what no other node can do: begin again, with a new epoch.
    renew: bool,
    /// Counts for the window.
    counted: bool,
    /// What it waits for before it begins.
    turn: Turn,
    /// To be removed once nothing is under way.
    removal: bool,
    /// The last epoch that it was given, and how far behind it the next one's tag is.
    last: (Epoch, u64),
}

impl Managed {
    fn new(record: Record, stage: Stage) -> Managed {
        Managed {
            record,
            stage,
            wants: Wants::default(),
            attempt: 0,
            certain: false,
            target_absent: false,
            renew: false,
            counted: false,
            turn: Turn::Come,
            removal: false,
            last: (record.epoch(), 1),
        }
    }

    /// The number of what is under way.
    fn epoch(&self) -> Epoch {
        self.record.epoch()
    }

    fn target(&self) -> Option<Leg> {
        match self.record.intent {
            Intent::Move { target, .. } => Some(target),
            _ => None,
        }
    }

    /// From which epoch the target is given the user back.
    fn kept(&self) -> Option<Epoch> {
        match self.record.intent {
            Intent::Move { kept, .. } => kept,
            _ => None,
        }
    }
}

/// The machine of the controller.
#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    /// The incarnations that nodes are known to be in.
    nodes: BTreeMap<NodeId, Incarnation>,
    /// Nodes that do not come back, the incarnation that they had, and who takes
    /// their users.
    gone: BTreeMap<NodeId, (Incarnation, NodeId)>,
    /// Nodes that came back as they were, and were told to begin anew, since they were probed.
    told: BTreeSet<NodeId>,
    users: BTreeMap<User, Managed>,
    by_node: ByNode,
    next_epoch: Epoch,
    active: BTreeSet<Epoch>,
    turns: Turns,
    running: usize,
    /// The last epochs of users that were removed and may come back soon.
    removed: BTreeMap<User, Epoch>,
}

type Outputs = Vec<Output>;

impl Controller {
    /// A controller with what was durable when it last stopped: a record for
    /// each user, and the epoch that no move has been given yet, which is below [`Epoch::END`].
    pub fn new(
        settings: Settings,
        records: impl IntoIterator<Item = (User, Record)>,
        next_epoch: Epoch,
        out: &mut Outputs,
    ) -> Controller {
        let mut controller = Controller {
            settings,
            nodes: BTreeMap::new(),
            gone: BTreeMap::new(),
            told: BTreeSet::new(),
            users: BTreeMap::new(),
            by_node: ByNode::default(),
            next_epoch: next_epoch.max(Epoch(1)),
            active: BTreeSet::new(),
            turns: Turns::default(),
            running: 0,
            removed: BTreeMap::new(),
        };
        let mut nodes = BTreeSet::new();
        for (user, record) in records {
            nodes.insert(record.anchor);
            nodes.extend(record.owner.map(|leg| leg.node));
            let mut managed = Managed::new(record, Stage::Settled);
            // Moves that were given up since are not known any more: half way round is far
            // from them.
            managed.last.1 = 1 << (Epoch::TAG_BITS - 1);
            if record.intent != Intent::Settled {
                controller.active.insert(managed.epoch());
            }
            nodes.extend(managed.target().map(|leg| leg.node));
            controller.insert(user, managed);
        }
        for node in nodes {
            controller.send(node, Incarnation(0), Message::Probe, out);
        }
        let unsettled = |(user, managed): (&User, &Managed)| match managed.record.intent {
            Intent::Settled => None,
            Intent::Move { .. } => Some((*user, Stage::PreparingTarget)),
            Intent::Remove { .. } => Some((*user, Stage::Removing)),
        };
        let unsettled: Vec<_> = controller.users.iter().filter_map(unsettled).collect();
        for (user, stage) in controller.first_of(unsettled) {
            controller.enter(user, stage, "Start", out);
        }
        controller
    }

    /// Where the controller is with a user.
    pub fn stage(&self, user: User) -> Option<Stage> {
        self.users.get(&user).map(|managed| managed.stage)
    }

    /// The owner of a user, where it is settled.
    pub fn owner(&self, user: User) -> Option<Leg> {
        let managed = self.users.get(&user)?;
        managed.record.owner.filter(|_| managed.stage == Stage::Settled)
    }

    /// What is durable of a user, or becomes so.
    pub fn record(&self, user: User) -> Option<Record> {
        self.users.get(&user).map(|managed| managed.record)
    }

    /// How many users there are.
    pub fn user_count(&self) -> usize {
        self.users.len()
    }

    /// All users with their records and where the controller is with them, in
    /// order, from one on.
    pub fn users_from(&self, first: User) -> impl Iterator<Item = (User, Record, Stage)> {
        let users = self.users.range(first..);
        users.map(|(user, managed)| (*user, managed.record, managed.stage))
    }

    /// The incarnation that a node said hello in.
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.nodes.get(&node).copied()
    }

    /// The lowest epoch that has not been given.
    pub fn next_epoch(&self) -> Epoch {
        self.next_epoch
    }

    /// Asks a node to say hello, as after a connection with it has come to be.
    pub fn probe(&mut self, node: NodeId, out: &mut Outputs) {
        self.told.remove(&node);
        self.send(node, Incarnation(0), Message::Probe, out);
    }

    /// Nothing is under way and nothing waits to be.
    pub fn is_idle(&self) -> bool {
        let idle = |managed: &Managed| managed.stage == Stage::Settled && managed.wants.nothing();
        self.turns.is_empty() && self.users.values().all(idle)
    }

    /// The user is to exist: behind an anchor, owned by a node.
    pub fn add(&mut self, user: User, anchor: NodeId, node: NodeId, out: &mut Outputs) {
        let Some(&incarnation) = self.nodes.get(&node) else {
            return out.push(Output::Tell(Notice::Refused(user, Refusal::UnknownNode)));
        };
        if self.users.contains_key(&user) {
            return out.push(Output::Tell(Notice::Refused(user, Refusal::KnownUser)));
        }
        let epoch = self.raise(user);
        let target = Leg { node, incarnation, epoch };
        let intent = Intent::Move { target, lost: false, kept: None };
        let record = Record { anchor, owner: None, intent };
        self.insert(user, Managed::new(record, Stage::Settled));
        self.enter(user, Stage::Storing, "Add", out);
    }

    /// The users are to be owned by a node: in this order, as many at once as the
    /// window allows. Records of some more are made durable before their turn.
    pub fn move_users(
        &mut self,
        users: impl IntoIterator<Item = User>,
        to: NodeId,
        out: &mut Outputs,
    ) {
        self.turns.queue(users, to);
        self.begin_queued(out);
    }

    /// The user is to be forgotten; a move that is under way is ended first.
    pub fn remove(&mut self, user: User, out: &mut Outputs) {
        let Some(managed) = self.users.get_mut(&user) else {
            return out.push(Output::Tell(Notice::Refused(user, Refusal::UnknownUser)));
        };
        managed.removal = true;
        if managed.stage == Stage::Settled {
            self.begin_removal(user, out);
        }
    }

    /// The node has stopped for good, as its operator knows: its
    /// users are its successor's. What is still to be sent to it is not waited for.
    pub fn node_gone(&mut self, node: NodeId, successor: NodeId, out: &mut Outputs) {
        // Whatever life has to do with a user; others may come.
        let users = self.by_node.users(node, User(0)).filter_map(|user| self.users.get(&user));
        let legs = users.flat_map(|managed| [managed.record.owner, managed.target()]);
        let lives = legs.flatten().filter(|leg| leg.node == node).map(|leg| leg.incarnation);
        let incarnation = lives.chain(self.nodes.get(&node).copied()).max().unwrap_or_default();
        self.still_gone(node, incarnation, successor, out);
    }

    /// The same, of a node whose last incarnation was found out before the controller
    /// stopped.
    pub fn still_gone(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        successor: NodeId,
        out: &mut Outputs,
    ) {
        self.gone.insert(node, (incarnation, successor));
        self.check_those_of(node, out);
    }

    /// Nodes that do not come back, with their last incarnations and successors.
    pub fn gone(&self) -> impl Iterator<Item = (NodeId, Incarnation, NodeId)> {
        let gone = self.gone.iter();
        gone.map(|(node, (incarnation, successor))| (*node, *incarnation, *successor))
    }

    /// A timer has fired.
    pub fn timer(&mut self, key: TimerKey, out: &mut Outputs) {
        let Some(user) = key.user else { return };
        let Some(managed) = self.users.get_mut(&user) else { return };
        if managed.wants.nothing() {
            return;
        }
        managed.attempt += 1;
        let (attempt, renew) = (managed.attempt, managed.renew);
        let lost = is_lost(managed);
        if attempt == self.settings.attempts {
            // One that takes its time is not to keep others waiting.
            self.uncount(user);
            self.give_up(user, out);
            self.begin_queued(out);
        }
        if renew {
            return self.restore(user, lost, "Refused", out);
        }
        out.push(Output::Count(Counter::Resent));
        self.request(user, out);
    }

    /// The record of a user with this epoch is durable.
    pub fn persisted(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        let Some(managed) = self.users.get(&user) else { return };
        if managed.stage == Stage::Storing && managed.epoch() == epoch {
            self.turns.hurries = false;
            if managed.turn != Turn::Come {
                return self.wait_for_turn(user, epoch, out);
            }
            let stage = match managed.record.intent {
                Intent::Remove { .. } => Stage::Removing,
                _ => Stage::PreparingTarget,
            };
            self.enter(user, stage, "Stored", out);
        }
    }

    /// A message has come.
    pub fn message(&mut self, envelope: Envelope, out: &mut Outputs) {
        let Envelope { from, from_incarnation, message, .. } = envelope;
        let known = self.nodes.get(&from).copied().unwrap_or_default();
        if from_incarnation < known {
            return out.push(Output::Count(Counter::Stale));
        }
        if from_incarnation > known {
            self.nodes.insert(from, from_incarnation);
            self.anchor_is_new(from);
            self.check_those_of(from, out);
            self.request_all(from, out);
        }
        match message {
            Message::Hello => self.welcome(from, from_incarnation, out),
            Message::Handover { user, epoch, step } => self.reply(from, user, epoch, step, out),
            _ => out.push(Output::Count(Counter::Stale)),
        }
    }

    /// A node has said hello. One that was given up while it was cut off is to begin anew: its
    /// users are another node's. It is told once, as releases that cannot say hello again.
    fn welcome(&mut self, node: NodeId, incarnation: Incarnation, out: &mut Outputs) {
        let is_given_up = self.gone.get(&node).is_some_and(|(last, _)| *last >= incarnation);
        let welcome = match is_given_up && self.told.insert(node) {
            true => Incarnation(incarnation.0.saturating_add(1)),
            false => incarnation,
        };
        self.send(node, welcome, Message::Welcome, out);
    }

    fn begin_move(&mut self, user: User, to: NodeId, out: &mut Outputs) {
        let refusal = match (self.users.get(&user), self.nodes.get(&to)) {
            (None, _) => Some(Refusal::UnknownUser),
            (_, None) => Some(Refusal::UnknownNode),
            (Some(managed), _) if managed.stage != Stage::Settled => Some(Refusal::Busy),
            (Some(managed), _) if managed.record.owner.is_some_and(|leg| leg.node == to) => {
                Some(Refusal::AlreadyThere)
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return out.push(Output::Tell(Notice::Refused(user, refusal)));
        }
        let incarnation = self.nodes.get(&to).copied().unwrap_or_default();
        let target = Leg { node: to, incarnation, epoch: self.raise(user) };
        let Some(managed) = self.users.get_mut(&user) else { return };
        managed.certain = true;
        managed.target_absent = false;
        self.turns.taken(managed);
        let intent = Intent::Move { target, lost: false, kept: None };
        self.change_record(user, |record| record.intent = intent);
        self.enter(user, Stage::Storing, "Move", out);
    }

    fn begin_removal(&mut self, user: User, out: &mut Outputs) {
        let epoch = self.raise(user);
        self.change_record(user, |record| record.intent = Intent::Remove { epoch });
        self.enter(user, Stage::Storing, "Remove", out);
    }

    /// An epoch that no move has had, with the user's next tag.
    fn raise(&mut self, user: User) -> Epoch {
        let removed = self.removed.remove(&user).map(|epoch| (epoch, 1));
        let known = self.users.get_mut(&user).map(|managed| &mut managed.last);
        let last = known.as_deref().copied().or(removed);
        let epoch = last
            .map_or(self.next_epoch, |(before, steps)| self.next_epoch.following(before, steps));
        if let Some(last) = known {
            *last = (epoch, 1);
        }
        self.next_epoch = Epoch(epoch.0 + 1);
        self.active.insert(epoch);
        epoch
    }

    fn settled_below(&self) -> Epoch {
        self.active.first().copied().unwrap_or(self.next_epoch)
    }

    fn send(&self, to: NodeId, life: Incarnation, message: Message, out: &mut Outputs) {
        out.push(Output::Send(Envelope {
            from: NodeId::CONTROLLER,
            from_incarnation: Incarnation(0),
            to,
            to_incarnation: life,
            message,
        }));
    }

    fn say(&self, leg: Leg, user: User, epoch: Epoch, step: Step, out: &mut Outputs) {
        let message = Message::Handover { user, epoch, step };
        self.send(leg.node, leg.incarnation, message, out);
    }
}

fn is_lost(managed: &Managed) -> bool {
    matches!(managed.record.intent, Intent::Move { lost: true, .. })
}

fn resend(user: User) -> TimerKey {
    TimerKey { user: Some(user), kind: TimerKind::Resend }
}
