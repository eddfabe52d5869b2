//! Disks: which users stations own, checkpoints of contexts, and anchors' routes to users. A write
//! takes its time, and a node that dies loses those that are not done, from some of them on.

use std::collections::{BTreeMap, VecDeque};

use weft_mobility_protocol::{Contexts, Envelope, Kept, Message, NodeId, Route, Step, User};

use crate::check::Promise;
use crate::event::Event;
use crate::random::Random;
use crate::scenario::Mutation;
use crate::user::Context;
use crate::world::World;

/// A write, or an answer that waits for those before it.
#[derive(Debug)]
enum Write {
    Answer(Envelope),
    Route(User, Option<Route>),
    User(User, Option<Kept>),
    NoContext(User),
    Contexts(Vec<(User, Context)>),
}

/// The disk of one station or anchor.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    routes: BTreeMap<User, Route>,
    users: BTreeMap<User, Kept>,
    contexts: BTreeMap<User, Context>,
    waiting: VecDeque<Write>,
    /// Contexts as they were given to it last.
    given: BTreeMap<User, Context>,
    /// When the last write is done.
    last: u64,
}

impl Disk {
    pub fn users(&self) -> impl Iterator<Item = (User, Kept)> {
        self.users.iter().map(|(user, kept)| (*user, *kept))
    }

    pub fn routes(&self) -> Vec<(User, Route)> {
        self.routes.iter().map(|(user, route)| (*user, *route)).collect()
    }

    pub fn context(&self, user: User) -> Option<Context> {
        self.contexts.get(&user).copied()
    }

    /// The node dies when this many of its writes are done.
    pub fn lose_unwritten(&mut self, done: u64) {
        self.given.clear();
        let waiting = std::mem::take(&mut self.waiting);
        let writes = waiting.into_iter().filter(|one| !matches!(one, Write::Answer(_)));
        writes.take(done as usize).for_each(|one| drop(self.write(one)));
    }

    fn write(&mut self, one: Write) -> Option<Envelope> {
        match one {
            Write::Answer(envelope) => return Some(envelope),
            Write::Route(user, Some(route)) => _ = self.routes.insert(user, route),
            Write::Route(user, None) => _ = self.routes.remove(&user),
            Write::User(user, Some(kept)) => _ = self.users.insert(user, kept),
            Write::User(user, None) => _ = self.users.remove(&user),
            Write::NoContext(user) => _ = self.contexts.remove(&user),
            Write::Contexts(contexts) => self.contexts.extend(contexts),
        }
        None
    }

    /// The oldest write is done, and answers that have waited for it leave.
    fn write_oldest(&mut self) -> Vec<Envelope> {
        let mut answers = Vec::new();
        let mut oldest = self.waiting.pop_front();
        while let Some(one) = oldest {
            answers.extend(self.write(one));
            oldest = match self.waiting.front() {
                Some(Write::Answer(_)) => self.waiting.pop_front(),
                _ => None,
            };
        }
        answers
    }
}

impl World {
    /// A station keeps by what it owns a user.
    pub fn keep(&mut self, node: NodeId, user: User, kept: Option<Kept>) {
        self.note(Some(user), || format!("{node} keeps {kept:?}"));
        self.begin_to_write(node, Write::User(user, kept));
    }

    /// An anchor keeps the only route to a user.
    pub fn keep_route(&mut self, node: NodeId, user: User, route: Option<Route>) {
        self.note(Some(user), || format!("{node} keeps {route:?}"));
        self.begin_to_write(node, Write::Route(user, route));
    }

    fn begin_to_write(&mut self, node: NodeId, write: Write) {
        let now = self.time;
        // Of its own: what else happens in a run does not depend on how many writes there are.
        let delay = Random::new(now << 16 | u64::from(node.0)).between(50, 3_000);
        let Some((life, disk)) = self.disk(node) else { return };
        disk.waiting.push_back(write);
        disk.last = disk.last.max(now + delay);
        let time = disk.last;
        self.at(time, Event::Kept { node, life });
    }

    /// The disk of a node that lives, and which life that is.
    fn disk(&mut self, node: NodeId) -> Option<(u32, &mut Disk)> {
        if let Some(station) = self.stations.get_mut(&node) {
            return station.machine.is_some().then_some((station.life, &mut station.disk));
        }
        let anchor = self.anchors.get_mut(&node)?;
        anchor.machine.is_some().then_some((anchor.life, &mut anchor.disk))
    }

    /// The oldest write is done.
    pub fn kept(&mut self, node: NodeId, of: u32) {
        let Some((_, disk)) = self.disk(node).filter(|(life, _)| *life == of) else { return };
        for envelope in disk.write_oldest() {
            self.send_message(envelope);
        }
    }

    /// A message leaves, or waits for the disk.
    pub fn send_behind_kept(&mut self, node: NodeId, envelope: Envelope) {
        let is_early = self.is(Mutation::AnswerEarly);
        let waits =
            matches!(&envelope.message, Message::Handover { step, .. } if step.needs_kept());
        match self.disk(node).filter(|(_, disk)| waits && !is_early && !disk.waiting.is_empty()) {
            Some((_, disk)) => disk.waiting.push_back(Write::Answer(envelope)),
            None => self.send_message(envelope),
        }
    }

    /// Contexts that a station is to make. Checkpoints from before belong to none of the user's
    /// packets that have come since, unless it goes on with them.
    pub fn kept_or(&mut self, node: NodeId, user: User, contexts: Contexts) -> Contexts {
        let has = self.stations.get(&node).is_some_and(|one| one.disk.context(user).is_some());
        let trusts = self.is(Mutation::TrustCheckpoints) && has && contexts == Contexts::New;
        if trusts || contexts == Contexts::Kept {
            return Contexts::Kept;
        }
        if let Some(station) = self.stations.get_mut(&node) {
            station.disk.given.remove(&user);
        }
        self.begin_to_write(node, Write::NoContext(user));
        contexts
    }

    /// A station takes itself for the one that is given the user back, whatever the controller says.
    pub fn trust_records(&self, node: NodeId, message: &mut Message) {
        let Message::Handover { user, epoch, step } = message else { return };
        let Some(station) = self.stations.get(&node) else { return };
        let mut users = station.disk.users();
        if let Step::Prepare { source: None, kept, .. } = step
            && let Some((_, known)) = users.find(|(one, known)| one == user && known.last < *epoch)
        {
            *kept = Some(known.last);
        }
    }

    /// A station owns a user. It may go on with kept contexts only if it has had the user last.
    pub fn owns_by(&mut self, node: NodeId, user: User, is_kept: bool) {
        if is_kept {
            self.statistics.kept += 1;
        }
        let Some(state) = self.users.get_mut(&user) else { return };
        // One that had imported and died has it, too: what the source did since is lost with that.
        let before = [state.owner.replace(node), state.importer.replace(node)];
        if is_kept && !before.contains(&Some(node)) {
            let what = format!("{node} goes on with what it kept, and {before:?} were the last");
            self.violated(Promise::Contexts, Some(user), what);
        }
    }

    /// A station owns a user again.
    pub fn owns_again(&mut self, node: NodeId, user: User) {
        if let Some(state) = self.users.get_mut(&user) {
            state.owner = Some(node);
        }
    }

    /// Stations write contexts of users that they own, where they have changed.
    pub fn checkpoint(&mut self) {
        let mut all = Vec::new();
        for (node, station) in &mut self.stations {
            let Some(machine) = &station.machine else { continue };
            let owned = station.functions.iter().filter(|(user, _)| machine.owns(**user));
            let contexts = owned.filter_map(|(user, entry)| Some((*user, entry.context?)));
            let given = &mut station.disk.given;
            let mut is_new =
                |(user, context): &(User, Context)| given.insert(*user, *context) != Some(*context);
            let contexts: Vec<_> = contexts.filter(|one| is_new(one)).collect();
            if !contexts.is_empty() {
                all.push((*node, Write::Contexts(contexts)));
            }
        }
        all.into_iter().for_each(|(node, write)| self.begin_to_write(node, write));
    }
}
