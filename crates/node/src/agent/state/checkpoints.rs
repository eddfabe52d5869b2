//! Contexts that may go back in time, kept in turn.
//!
//! Users and bearers are taken one after the other, so many in a second; workers export the
//! contexts of some between two bursts, and those that have changed since they were last
//! written are written. So a node that dies loses of each context what came since its turn.

mod round;

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use weft_dataplane::command::Command;
use weft_dataplane::command::contexts::Octets;
use weft_function::Scope;
use weft_node_config::Composition;
use weft_state::{Change, Done};

pub(crate) use self::round::Told;
use self::round::{AT_ONCE, Round};
use super::{CONTEXTS, names};
use crate::agent::contexts::FunctionContexts;
use crate::bearer::session::SessionId;
use crate::bearer::{BearerId, Subscribers};
use crate::migration::contexts::PIECE;
use crate::subscribers::Whose;

/// Version of the record of a context.
pub const VERSION: u8 = 1;

/// Octets in front of what a function exports: its version, and the time, which always changes.
const TIME: std::ops::Range<usize> = 2..10;

/// Users that have come and are looked at before it is their turn.
const MOST_FIRST: usize = 1 << 16;

/// Nanoseconds between two looks; longer where functions stand on threads, which come back to
/// their workers for it.
const LOOK: u64 = 10_000_000;
const LOOK_AT_THREADS: u64 = 1_000_000_000;

/// Whose turn it is, and what was written of them.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    rate: u32,
    /// Bearers and sessions that commands have added, in turn, with their slots; some may have
    /// gone.
    added: Vec<(Added, u32)>,
    /// Those that are looked at before those whose turn it is: users that have come.
    first: Vec<(Whose, u32, [bool; 3])>,
    /// Position in turn: users and groups of the configuration, then these.
    next: usize,
    /// When it was looked at last, and how many are due.
    last: u64,
    due: u64,
    /// What workers are asked for.
    reading: Vec<Reading>,
    /// Those that went meanwhile.
    gone: HashSet<Whose>,
    /// What was written last, by function and slot: a hash, or 0.
    written: HashMap<String, Vec<u32>>,
    /// When this round began, and the one before.
    began: [u64; 2],
    /// All contexts are looked at as fast as that goes.
    round: Option<Round>,
}

/// A bearer or session that commands have added: of a million of them no more is noted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Added {
    Bearer(BearerId),
    Session(SessionId),
}

impl From<Added> for Whose {
    fn from(added: Added) -> Whose {
        match added {
            Added::Bearer(id) => Whose::Added(id),
            Added::Session(id) => Whose::Session(id),
        }
    }
}

/// Contexts of one function at one worker.
#[derive(Debug)]
struct Reading {
    function: String,
    kind: &'static str,
    contexts: Vec<(Whose, u32)>,
    octets: Receiver<Octets>,
}

impl Checkpoints {
    pub fn new(rate: u32) -> Checkpoints {
        Checkpoints {
            rate,
            added: Vec::new(),
            first: Vec::new(),
            next: 0,
            last: 0,
            due: 0,
            reading: Vec::new(),
            gone: HashSet::new(),
            written: HashMap::new(),
            began: [0; 2],
            round: None,
        }
    }

    /// Whether there are any.
    pub fn is_at_work(&self) -> bool {
        self.rate > 0
    }

    /// Nanoseconds since the last round began in which all contexts were looked at.
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.began[1])
    }

    /// Whether all contexts were written since the node started.
    pub fn has_all(&self) -> bool {
        // The end of the second round: the last contexts of the first are asked for at its end.
        self.began[1] > 0
    }

    /// Looks at all contexts as fast as that goes; `told` hears of it, unless none are kept.
    pub fn begin_round(&mut self, told: Told) {
        self.round = self.is_at_work().then(|| Round::new(told));
        self.next = 0;
    }

    /// Whether that is under way.
    pub fn is_in_round(&self) -> bool {
        self.round.is_some()
    }

    /// There may be contexts of a function in the store.
    pub fn knows(&mut self, function: &str) {
        self.written.entry(function.to_owned()).or_default();
    }

    /// So many bearers and sessions are about to come.
    pub fn make_room(&mut self, count: usize) {
        self.added.reserve(count);
    }

    /// A bearer or session came to this slot.
    pub fn came(&mut self, added: Added, slot: u32) {
        // What was written for the slot was another's.
        for written in self.written.values_mut() {
            if let Some(hash) = written.get_mut(slot as usize) {
                *hash = 0;
            }
        }
        self.added.push((added, slot));
    }

    /// Other contexts come in the place of these, and are written soon.
    pub fn begin_anew(
        &mut self,
        subjects: Vec<(Whose, u32, [bool; 3])>,
        changes: &mut Vec<Change>,
    ) {
        for (whose, slot, _) in &subjects {
            self.went(whose, changes);
            for written in self.written.values_mut() {
                if let Some(hash) = written.get_mut(*slot as usize) {
                    *hash = 0;
                }
            }
        }
        // Where more have come than that, they have their turn.
        if self.is_at_work() && self.first.len() < MOST_FIRST {
            self.first.extend(subjects);
        }
    }

    /// A bearer or session went, and its contexts with it.
    pub fn went(&mut self, whose: &Whose, changes: &mut Vec<Change>) {
        let functions = self.written.keys();
        changes.extend(
            functions.map(|function| Change::remove(CONTEXTS, &names::key(function, whose))),
        );
        if !self.reading.is_empty() {
            self.gone.insert(whose.clone());
        }
    }

    /// Takes contexts that are due; whether there was anything to do. What is to be called once
    /// `changes` are durable is added to `done`.
    pub fn look_after(
        &mut self,
        (changes, done): (&mut Vec<Change>, &mut Vec<Done>),
        contexts: &mut FunctionContexts<'_>,
        is_moving: bool,
        now: u64,
    ) -> bool {
        let before = changes.len();
        let mut busy = self.take_read(contexts.subscribers, changes);
        if let Some(round) = &mut self.round {
            if changes.len() > before {
                round.written += (changes.len() - before) as u64;
                done.push(round.wait());
            }
            busy |= self.go_on_with_round(contexts, is_moving, now);
            return busy;
        }
        let functions = &contexts.blueprint.functions;
        let has_threads = functions.iter().any(|one| one.composition == Composition::Thread);
        let pause = if has_threads { LOOK_AT_THREADS } else { LOOK };
        let passed = now.saturating_sub(self.last);
        // A worker that is behind is not asked for more, nor a disk that is.
        if !self.is_at_work() || passed < pause || !self.reading.is_empty() {
            return busy;
        }
        self.last = now;
        let due = u64::from(self.rate) * passed.min(LOOK_AT_THREADS) / 1_000_000_000;
        self.due = due.max(1);
        if is_moving || contexts.workers.is_changing() {
            return busy;
        }
        let due = std::mem::take(&mut self.due) as usize;
        let (subjects, _) = self.next_subjects(contexts.subscribers, due, now);
        self.read_for(&subjects, contexts);
        true
    }

    /// Takes the next contexts of a round, once those before are durable; whether there was
    /// anything to do.
    fn go_on_with_round(
        &mut self,
        contexts: &mut FunctionContexts<'_>,
        is_moving: bool,
        now: u64,
    ) -> bool {
        let is_level = self.round.as_ref().is_some_and(Round::is_durable);
        if !is_level || !self.reading.is_empty() {
            return false;
        }
        if let Some(round) = self.round.take_if(|round| round.has_asked) {
            round.finish();
            return true;
        }
        if is_moving || contexts.workers.is_changing() {
            return false;
        }
        let (subjects, are_last) = self.next_subjects(contexts.subscribers, AT_ONCE, now);
        self.read_for(&subjects, contexts);
        if let Some(round) = &mut self.round {
            round.has_asked = are_last;
        }
        true
    }

    /// Those whose turn it is, with their slots and what scopes of contexts they have; and
    /// whether they are the last of all.
    fn next_subjects(
        &mut self,
        subscribers: &Subscribers,
        count: usize,
        now: u64,
    ) -> (Vec<(Whose, u32, [bool; 3])>, bool) {
        let configured = subscribers.users.subjects();
        // As many as users move at once: no more than workers can be asked for.
        let first = self.first.len().min(AT_ONCE);
        let mut subjects: Vec<_> = self.first.drain(..first).collect();
        for _ in subjects.len()..count {
            let at = self.next;
            if at < configured {
                subjects.extend(subscribers.users.subject(at));
            } else {
                let Some((added, slot)) = self.added.get(at - configured).copied() else {
                    // All of them were looked at: the next round begins.
                    self.next = 0;
                    self.began = [now, self.began[0]];
                    return (subjects, true);
                };
                let Some(has) = scopes_of(subscribers, added, slot) else {
                    self.added.swap_remove(at - configured);
                    continue;
                };
                subjects.push((added.into(), slot, has));
            }
            self.next += 1;
        }
        (subjects, false)
    }

    /// Asks workers for the contexts of these.
    fn read_for(
        &mut self,
        subjects: &[(Whose, u32, [bool; 3])],
        contexts: &mut FunctionContexts<'_>,
    ) {
        let FunctionContexts { blueprint, trials, workers, .. } = contexts;
        for number in 0..blueprint.functions.len() {
            let plan = &blueprint.functions[number];
            if !plan.kind.checkpointed || !plan.composition.is_at_hand() {
                continue;
            }
            let scope = trials.instance(number).scope();
            let (name, kind) = (plan.name.clone(), plan.kind.name);
            for worker in 0..workers.count() {
                let own = subjects.iter().filter(|(_, slot, has)| {
                    has[position(scope)] && workers.owner(*slot) == worker
                });
                let own: Vec<_> = own.map(|(whose, slot, _)| (whose.clone(), *slot)).collect();
                for contexts in own.chunks(PIECE) {
                    let (answer, octets) = channel();
                    let slots = contexts.iter().map(|(_, slot)| *slot).collect();
                    let function = number as u16;
                    workers[worker].send(Command::ReadContexts { function, slots, answer });
                    let (function, contexts) = (name.clone(), contexts.to_vec());
                    self.reading.push(Reading { function, kind, contexts, octets });
                }
            }
        }
    }

    /// Takes what workers have read; whether there was anything.
    fn take_read(&mut self, subscribers: &Subscribers, changes: &mut Vec<Change>) -> bool {
        let before = self.reading.len();
        for reading in std::mem::take(&mut self.reading) {
            match reading.octets.try_recv() {
                Ok(octets) => self.note(&reading, octets, subscribers, changes),
                Err(TryRecvError::Empty) => self.reading.push(reading),
                // The function is not there any more.
                Err(TryRecvError::Disconnected) => {}
            }
        }
        if self.reading.is_empty() {
            self.gone.clear();
        }
        self.reading.len() < before
    }

    fn note(
        &mut self,
        reading: &Reading,
        octets: Octets,
        subscribers: &Subscribers,
        changes: &mut Vec<Change>,
    ) {
        let Checkpoints { gone, written, .. } = self;
        let written = written.entry(reading.function.clone()).or_default();
        for ((whose, slot), octets) in reading.contexts.iter().zip(octets) {
            // What was written before stands.
            if matches!(whose, Whose::Session(id) if !subscribers.sessions.is_reported(*id)) {
                continue;
            }
            if !gone.contains(whose) && is_new(written, *slot, &octets) {
                changes.push(record(&reading.function, reading.kind, whose, &octets));
            }
        }
    }

    /// A context of that hash was read from the store, and is as it is there.
    pub fn note_written(&mut self, function: &str, slot: u32, hash: u32) {
        if let Some(written) = self.written.get_mut(function) {
            *hash_at(written, slot) = hash;
        }
    }

    /// What was written last of a function's contexts.
    pub fn written_of(&mut self, function: &str) -> &mut Vec<u32> {
        self.written.entry(function.to_owned()).or_default()
    }
}

/// Whether a context is another than was written last, as is noted with that.
pub fn is_new(written: &mut Vec<u32>, slot: u32, octets: &[u8]) -> bool {
    let hash = hash_of(octets);
    std::mem::replace(hash_at(written, slot), hash) != hash
}

fn hash_at(written: &mut Vec<u32>, slot: u32) -> &mut u32 {
    let slot = slot as usize;
    if written.len() <= slot {
        written.resize(slot + 1, 0);
    }
    &mut written[slot]
}

/// The record of a context: the kind of its function, and what it exports.
pub fn record(function: &str, kind: &str, whose: &Whose, octets: &[u8]) -> Change {
    let mut out = Vec::with_capacity(1 + kind.len() + octets.len());
    out.push(kind.len() as u8);
    out.extend(kind.as_bytes());
    out.extend(octets);
    Change::put(CONTEXTS, &names::key(function, whose), VERSION, &out)
}

/// What a function has exported, in a record of its context; none if it was another function, of
/// another kind.
///
/// # Errors
/// What is wrong with the record.
pub(in crate::agent) fn octets_of<'a>(
    record: &'a [u8],
    kind: &str,
) -> Result<Option<&'a [u8]>, &'static str> {
    let (length, rest) = record.split_first().ok_or("a context without a function")?;
    let split = rest.split_at_checked((*length).into());
    let (of, octets) = split.ok_or("a context without a function")?;
    Ok((of == kind.as_bytes()).then_some(octets))
}

/// A hash of what a function exports without the time; never 0.
pub fn hash_of(octets: &[u8]) -> u32 {
    let before = octets.get(..TIME.start).unwrap_or(octets);
    let behind = octets.get(TIME.end..).unwrap_or_default();
    (foldhash::quality::FixedState::default().hash_one((before, behind)) as u32).max(1)
}

/// Which scopes of contexts a bearer or session has; none if it is not at that slot any more.
fn scopes_of(subscribers: &Subscribers, added: Added, slot: u32) -> Option<[bool; 3]> {
    match added {
        Added::Bearer(id) => {
            let entry = subscribers.bearers.entries.get(&id);
            let entry = entry.filter(|entry| entry.slot == slot)?;
            let scopes = [Scope::Bearer, Scope::User, Scope::Group];
            Some(scopes.map(|scope| entry.has_context(scope)))
        }
        Added::Session(id) => {
            let entry = subscribers.sessions.entries.get(&id);
            entry.filter(|entry| entry.slot == slot).map(|_| [true, true, false])
        }
    }
}

fn position(scope: Scope) -> usize {
    match scope {
        Scope::Bearer => 0,
        Scope::User => 1,
        Scope::Group => 2,
    }
}
