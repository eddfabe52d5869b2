//! Contexts that are still being read while packets pass: a packet of a user whose contexts are
//! not there yet waits at its worker, and that user is read next.
//!
//! A thread reads records ([`reading`]), the agent finds out where each belongs, and workers
//! import them between two bursts. Until all are there, whatever would see contexts or change
//! users waits: commands, checkpoints, moves.

mod places;
mod reading;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Instant;

use weft_dataplane::command::contexts::{Load, LoadedContext};
use weft_dataplane::command::{Command, Configure};
use weft_function::Scope;
use weft_node_config::Blueprint;
use weft_state::Reader;

use self::places::{Places, Slots};
pub(crate) use self::reading::{LateFunction, late_functions};
use self::reading::{Portion, Reading};
use super::State;
use super::last_life::Goes;
use crate::bearer::{Entry, Subscribers};
use crate::error::BuildError;
use crate::plan::Trials;
use crate::subscribers::{Room, Whose};
use crate::workers::Workers;

/// Contexts that a worker imports between two bursts: each takes it a cache miss or a few.
const AT_ONCE: usize = 64;
/// Users without contexts that a worker is told of at once.
const USERS_AT_ONCE: usize = 1024;
/// Owners of contexts that are looked up at once.
const AHEAD: usize = 16;
/// Lists of contexts that workers have yet to import.
const UNDER_WAY: usize = 128;

/// What the agent knows of contexts that are not all there.
pub(crate) struct Loading {
    reading: Reading,
    /// Numbers of the functions whose contexts are read.
    functions: Vec<u16>,
    has_ended: bool,
    /// Slots, the next one first, of users that are told last to their workers.
    next: u64,
    /// Lists of contexts that workers have, and where they come back.
    under_way: usize,
    answer: Sender<Box<Load>>,
    answers: Receiver<Box<Load>>,
    /// Slots whose contexts workers were given, and users that have all of theirs.
    given: Slots,
    complete: Slots,
    /// Made for the first packet that waits.
    places: Option<Places>,
    counts: Counts,
    goes: Goes,
    /// Lives that may have gone beyond the contexts.
    crashes: u32,
    begun: Instant,
}

/// What has come of it.
#[derive(Debug, Default)]
struct Counts {
    contexts: u64,
    /// Users and bearers whose contexts workers were given.
    owners: u64,
    /// Users whose packets waited.
    wanted: u64,
    /// Those that functions do not take, by function: how many, and why the first.
    refused: BTreeMap<u16, (u64, String)>,
    unread: u64,
}

/// What the agent loads with.
pub(crate) struct Means<'a> {
    pub blueprint: &'a Blueprint,
    pub trials: &'a Trials,
    pub subscribers: &'a Subscribers,
    pub workers: &'a mut Workers,
}

impl Loading {
    /// Begins to read what so many lives may have gone beyond. `goes` says in the end how the
    /// node goes on.
    ///
    /// # Errors
    /// [`BuildError::NoThread`].
    pub fn begin(
        reader: Reader,
        functions: Vec<LateFunction>,
        (goes, crashes): (Goes, u32),
    ) -> Result<Loading, BuildError> {
        let (answer, answers) = channel();
        Ok(Loading {
            functions: functions.iter().map(|function| function.number).collect(),
            reading: Reading::begin(reader, functions)?,
            has_ended: false,
            next: 0,
            under_way: 0,
            answer,
            answers,
            given: Slots::default(),
            complete: Slots::default(),
            places: None,
            counts: Counts::default(),
            goes,
            crashes,
            begun: Instant::now(),
        })
    }

    /// Whether workers were not given the context of a function at this slot: it is in the store as
    /// it was, and no packet has met it.
    pub fn lacks(&self, function: usize, slot: u32) -> bool {
        let is_late = self.functions.iter().any(|one| usize::from(*one) == function);
        is_late && !self.given.has(slot) && !self.complete.has(slot)
    }

    /// A packet waits for the user at this slot.
    pub fn want(&mut self, slot: u32, subscribers: &Subscribers) {
        if self.complete.has(slot) || self.has_ended {
            return;
        }
        let places = self.places.get_or_insert_with(|| Places::of(subscribers));
        self.counts.wanted += 1;
        let owners = places.owners(slot, subscribers);
        // Later most neighbours are there.
        let bearers = subscribers.bearers.count() as u64;
        let has_neighbours = 2 * self.counts.owners < bearers;
        self.reading.want(reading::Wanted { slot, owners, has_neighbours });
    }

    /// Takes what was read, and gives it to workers; whether there is more to do. Once it says
    /// [`Step::Done`] all users have all contexts.
    pub fn go_on(&mut self, means: &mut Means<'_>, state: Option<&mut State>) -> Step {
        let mut busy = self.take_answers(means.blueprint, state);
        while !self.has_ended && self.under_way < UNDER_WAY {
            match self.reading.read.try_recv() {
                Ok(portion) => {
                    busy = true;
                    self.has_ended = portion.is_last;
                    self.give(portion, means);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.note_unread("the thread that read them has ended");
                    self.has_ended = true;
                }
            }
        }
        if self.has_ended {
            let are_told = self.tell_others(means);
            if are_told && self.under_way == 0 {
                return Step::Done;
            }
        }
        if busy { Step::Busy } else { Step::Idle }
    }

    /// Takes back what workers have imported.
    fn take_answers(&mut self, blueprint: &Blueprint, mut state: Option<&mut State>) -> bool {
        let mut busy = false;
        while let Ok(load) = self.answers.try_recv() {
            busy = true;
            self.under_way -= 1;
            self.counts.contexts += (load.contexts.len() - load.refused.len()) as u64;
            let refused = load.refused.iter().map(|(at, _)| *at).collect::<Vec<_>>();
            for (at, why) in &load.refused {
                let function = load.contexts[*at].function;
                let refused = self.counts.refused.entry(function);
                refused.or_insert_with(|| (0, why.to_string())).0 += 1;
            }
            let Some(state) = &mut state else { continue };
            for (at, context) in load.contexts.iter().enumerate() {
                if refused.contains(&at) {
                    continue;
                }
                let name = &blueprint.functions[usize::from(context.function)].name;
                state.checkpoints.note_written(name, context.slot, context.hash);
            }
        }
        busy
    }

    fn note_unread(&mut self, why: &str) {
        if self.counts.unread == 0 {
            tracing::error!(why, "contexts cannot be read: they begin anew");
        }
        self.counts.unread += 1;
    }

    /// Gives workers what was read.
    fn give(&mut self, portion: Portion, means: &mut Means<'_>) {
        portion.failures.iter().for_each(|why| self.note_unread(why));
        let mut lists: Vec<_> = (0..means.workers.count()).map(|_| self.list()).collect();
        let mut begin = 0;
        for (at, (whose, end)) in portion.owners.iter().enumerate() {
            if at % AHEAD == 0 {
                let ahead = &portion.owners[at..];
                look_ahead(means.subscribers, &ahead[..ahead.len().min(AHEAD)]);
            }
            let contexts = &portion.contexts[begin..*end];
            begin = *end;
            let Some(owner) = Owner::find(means.subscribers, whose) else { continue };
            let (slot, is_user) = (owner.slot, owner.is_user);
            // What was wanted is read once more in its turn, and has been used since.
            if self.given.set(slot) {
                continue;
            }
            self.counts.owners += 1;
            let worker = means.workers.owner(slot);
            let list = &mut lists[worker];
            for context in contexts {
                let function = usize::from(context.function);
                let has_context = match means.trials.instance(function).scope() {
                    Scope::Bearer => true,
                    Scope::User => is_user,
                    Scope::Group => false,
                };
                if !has_context {
                    continue;
                }
                let first = list.octets.len();
                list.octets.extend(&portion.octets[context.octets.clone()]);
                let octets = first..list.octets.len();
                let (function, hash) = (context.function, context.hash);
                list.contexts.push(LoadedContext { function, slot, octets, hash });
                list.settings.extend(owner.settings(means.subscribers, function, whose));
            }
            if is_user && !has_dedicated(means.subscribers, whose, slot) {
                self.complete.set(slot);
                list.users.push(slot);
            }
            if list.contexts.len() >= AT_ONCE {
                let full = std::mem::replace(list, self.list());
                self.send(worker, full, means.workers);
            }
        }
        for slot in portion.users {
            if !self.complete.set(slot) {
                lists[means.workers.owner(slot)].users.push(slot);
            }
        }
        for (worker, list) in lists.into_iter().enumerate() {
            self.send(worker, list, means.workers);
        }
    }

    /// All contexts were read: the users that are left have none, or have had theirs for long.
    /// Whether all were told.
    fn tell_others(&mut self, means: &mut Means<'_>) -> bool {
        let Room { users, .. } = means.subscribers.room;
        let (shift, count) = (means.workers.shift(), means.workers.count() as u64);
        let last = u64::from(users) * count;
        while self.next < last && self.under_way < UNDER_WAY {
            let worker = (self.next / u64::from(users)) as usize;
            let mut list = self.list();
            let end = u64::from(users) * (worker as u64 + 1);
            while self.next < end && list.users.len() < USERS_AT_ONCE {
                let index = self.next % u64::from(users);
                let slot = shift.slot(worker, index as usize);
                if !self.complete.set(slot) {
                    list.users.push(slot);
                }
                self.next += 1;
            }
            list.is_last = self.next >= end;
            self.send(worker, list, means.workers);
        }
        self.next >= last
    }

    fn list(&self) -> Box<Load> {
        Box::new(Load {
            contexts: Vec::new(),
            octets: Vec::new(),
            is_last: false,
            crashes: self.crashes,
            settings: Vec::new(),
            users: Vec::new(),
            refused: Vec::new(),
            answer: self.answer.clone(),
        })
    }

    fn send(&mut self, worker: usize, list: Box<Load>, workers: &mut Workers) {
        if !list.contexts.is_empty() || !list.users.is_empty() || list.is_last {
            self.under_way += 1;
            workers[worker].send(Command::Load(list));
        }
    }

    /// Ends: says what has come of it, or nothing where the node ends before. The store is let go.
    pub fn end(self: Box<Self>, blueprint: &Blueprint, state: Option<&mut State>, is_done: bool) {
        let Loading { reading, counts, goes, begun, .. } = *self;
        reading.end();
        if !is_done {
            return;
        }
        for (function, (count, why)) in counts.refused {
            let function = &blueprint.functions[usize::from(function)].name;
            tracing::warn!(
                function,
                contexts = count,
                why,
                "contexts were not taken and begin anew"
            );
        }
        let restored = state.map(|state| state.note_loaded(counts.contexts)).unwrap_or_default();
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(
            contexts = counts.contexts,
            first = counts.wanted,
            unread = counts.unread,
            seconds,
            "all contexts are there; packets have passed since the node started"
        );
        goes.tell(restored);
    }
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing at the moment.
    Idle,
    /// More.
    Busy,
    /// All contexts are there.
    Done,
}

/// Who has contexts: a user or a bearer. Functions have the contexts at its slot, whatever their
/// scope.
struct Owner<'a> {
    slot: u32,
    is_user: bool,
    /// Where commands have added it.
    entry: Option<&'a Entry>,
}

impl Owner<'_> {
    fn find<'a>(subscribers: &'a Subscribers, whose: &Whose) -> Option<Owner<'a>> {
        if let Whose::Added(id) = whose {
            let entry = subscribers.bearers.entries.get(id)?;
            let is_user = entry.has_context(Scope::User);
            return Some(Owner { slot: entry.slot, is_user, entry: Some(entry) });
        }
        let slot = subscribers.context_slot(Scope::Bearer, whose)?;
        let is_user = subscribers.context_slot(Scope::User, whose).is_some();
        Some(Owner { slot, is_user, entry: None })
    }

    fn settings(
        &self,
        subscribers: &Subscribers,
        function: u16,
        whose: &Whose,
    ) -> Option<Configure> {
        let Some(entry) = self.entry else {
            return subscribers.settings_at(function.into(), whose);
        };
        let mut settings = entry.settings.iter();
        Some(settings.find(|one| one.function == function)?.configure(entry.slot))
    }
}

/// Asks for the memory of those who have contexts, ahead of use: lookups that do not depend on
/// each other wait for it at the same time.
fn look_ahead(subscribers: &Subscribers, owners: &[(Whose, usize)]) {
    for (whose, _) in owners {
        if let Whose::Added(id) = whose {
            black_box(subscribers.bearers.entries.contains_key(id));
        }
    }
}

/// Whether a user has dedicated bearers, whose contexts it waits for as well.
fn has_dedicated(subscribers: &Subscribers, whose: &Whose, slot: u32) -> bool {
    let dedicated = &subscribers.bearers.dedicated;
    (!dedicated.is_empty() && dedicated.contains_key(&slot))
        || match whose {
            Whose::User(name) => {
                let member = subscribers.users.member(name);
                member.is_some_and(|member| !member.bearers.is_empty())
            }
            _ => false,
        }
}
