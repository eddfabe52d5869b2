//! Disks of stations: which users they own, and checkpoints of contexts. A write takes its time,
//! and a station that dies loses those that are not done, from some of them on.

use std::collections::{BTreeMap, VecDeque};

use weft_mobility_protocol::{Contexts, Kept, NodeId, User};

use crate::check::Promise;
use crate::event::Event;
use crate::scenario::Mutation;
use crate::user::Context;
use crate::world::World;

#[derive(Debug)]
enum Write {
    User(User, Option<Kept>),
    NoContext(User),
    Contexts(Vec<(User, Context)>),
}

/// The disk of one station.
#[derive(Debug, Default)]
pub(crate) struct Disk {
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

    pub fn context(&self, user: User) -> Option<Context> {
        self.contexts.get(&user).copied()
    }

    /// The station dies when this many of its writes are done.
    pub fn lose_unwritten(&mut self, done: u64) {
        self.given.clear();
        let writes = std::mem::take(&mut self.waiting).into_iter().take(done as usize);
        writes.for_each(|one| self.write(one));
    }

    fn write(&mut self, one: Write) {
        match one {
            Write::User(user, Some(kept)) => _ = self.users.insert(user, kept),
            Write::User(user, None) => _ = self.users.remove(&user),
            Write::NoContext(user) => _ = self.contexts.remove(&user),
            Write::Contexts(contexts) => self.contexts.extend(contexts),
        }
    }
}

impl World {
    /// A station keeps by what it owns a user.
    pub fn keep(&mut self, node: NodeId, user: User, kept: Option<Kept>) {
        self.note(Some(user), || format!("{node} keeps {kept:?}"));
        self.begin_to_write(node, Write::User(user, kept));
    }

    fn begin_to_write(&mut self, node: NodeId, write: Write) {
        let (now, delay) = (self.time, self.random.between(50, 3_000));
        let Some(station) = self.stations.get_mut(&node) else { return };
        let (life, disk) = (station.life, &mut station.disk);
        disk.waiting.push_back(write);
        disk.last = disk.last.max(now + delay);
        let time = disk.last;
        self.at(time, Event::Kept { node, life });
    }

    /// The oldest write is done.
    pub fn kept(&mut self, node: NodeId, life: u32) {
        let Some(station) = self.stations.get_mut(&node) else { return };
        if station.life == life
            && station.machine.is_some()
            && let Some(oldest) = station.disk.waiting.pop_front()
        {
            station.disk.write(oldest);
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
