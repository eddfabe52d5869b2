//! The thread that reads contexts while packets pass: user by user, and those first whose packets
//! wait.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::{self, JoinHandle};

use weft_node_config::{Blueprint, Composition};
use weft_state::{Found, FoundRecord, Reader, Snapshot, StateError};

use crate::agent::state::checkpoints::{VERSION, hash_of, octets_of};
use crate::agent::state::{CONTEXTS, names};
use crate::bearer::session::SessionFunctions;
use crate::error::BuildError;
use crate::subscribers::Whose;

/// Contexts that are read at once, where no packet waits for them.
const AT_ONCE: usize = 2048;

/// Users whose packets wait that are read before the others have their turn again: contexts that
/// are read one by one take several times as long, so a flood of packets of users that are not
/// there yet costs the others little.
const WANTED_AT_ONCE: usize = 64;

/// Owners that are read with one that is wanted.
const NEIGHBOURS: usize = 16;

/// Portions that are read before they are taken.
const AHEAD: usize = 2;

/// A function whose contexts are read while packets pass.
#[derive(Clone, Debug)]
pub(crate) struct LateFunction {
    /// Its number.
    pub(in crate::agent) number: u16,
    name: String,
    kind: &'static str,
}

/// Functions of which contexts may come behind the first packet: those whose contexts are each
/// for itself and may be set back. A block of NAT or a number of ESP must not be used before it is
/// known who has it. Nodes whose users move, or are those of a pair, have all contexts first.
/// None where the store has no context of any of them.
///
/// # Errors
/// What is wrong with the store.
pub(crate) fn late_functions(
    blueprint: &Blueprint,
    records: &Snapshot,
) -> Result<Vec<LateFunction>, StateError> {
    let late = may_be_late(blueprint);
    let has_any = has_any(&records.reader()?, &late)?;
    Ok(if has_any { late } else { Vec::new() })
}

fn may_be_late(blueprint: &Blueprint) -> Vec<LateFunction> {
    let has_threads =
        blueprint.functions.iter().any(|plan| plan.composition == Composition::Thread);
    if has_threads || blueprint.handover.is_some() || blueprint.standby.is_some() {
        return Vec::new();
    }
    let of_sessions = SessionFunctions::of(blueprint);
    let configured = blueprint.users.iter().map(|plan| &plan.settings);
    let bearers = blueprint.bearer_profiles.iter().flatten().map(|plan| &plan.settings);
    let with_settings: Vec<_> =
        configured.chain(bearers).flatten().map(|(function, _)| *function).collect();
    let functions = blueprint.functions.iter().enumerate();
    let late = functions.filter(|(number, plan)| {
        plan.kind.checkpointed
            && plan.kind.rollback
            && plan.composition.is_at_hand()
            && of_sessions.all().all(|one| usize::from(one) != *number)
            // Those of the configuration hold in place of those in contexts, for all at once.
            && !with_settings.contains(number)
    });
    let late = late.map(|(number, plan)| {
        let (name, kind) = (plan.name.clone(), plan.kind.name);
        LateFunction { number: number as u16, name, kind }
    });
    late.collect()
}

fn has_any(reader: &Reader, functions: &[LateFunction]) -> Result<bool, StateError> {
    for function in functions {
        let mut found = reader.beginning(CONTEXTS, &names::prefix(&function.name))?;
        if found.next().transpose()?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A user whose packets wait.
pub(super) struct Wanted {
    /// Its slot.
    pub slot: u32,
    /// It, and its dedicated bearers.
    pub owners: Vec<Whose>,
    /// Those who stand behind it in the store are read with it: to find a record takes as long as
    /// to read many that follow.
    pub has_neighbours: bool,
}

/// Contexts that were read: all that their owners have.
#[derive(Default)]
pub(super) struct Portion {
    /// Whose they are, and where the last of each stands.
    pub owners: Vec<(Whose, usize)>,
    pub contexts: Vec<ReadContext>,
    pub octets: Vec<u8>,
    /// Users all of whose contexts are among them.
    pub users: Vec<u32>,
    /// All contexts were read, or it could not be gone on.
    pub is_last: bool,
    /// What could not be read, and why.
    pub failures: Vec<String>,
}

/// A context that was read.
pub(super) struct ReadContext {
    pub function: u16,
    /// What a checkpoint of it is compared with; 0 for none.
    pub hash: u32,
    pub octets: Range<usize>,
}

impl Portion {
    /// Adds a context of the owner that was added last.
    fn add(&mut self, function: &LateFunction, version: u8, record: &[u8]) {
        let octets = match octets_of(record, function.kind) {
            Ok(Some(octets)) => octets,
            // That of another function of that name is none of this one.
            Ok(None) => return,
            Err(why) => return self.failures.push(why.to_owned()),
        };
        if version > VERSION || version == 0 {
            return self.failures.push(format!("version {version}, of a newer release"));
        }
        let begin = self.octets.len();
        self.octets.extend(octets);
        let octets = begin..self.octets.len();
        let hash = hash_of(&self.octets[octets.clone()]);
        self.contexts.push(ReadContext { function: function.number, hash, octets });
    }

    fn end_owner(&mut self, whose: Whose) {
        self.owners.push((whose, self.contexts.len()));
    }
}

/// The thread, and how it is spoken with.
pub(super) struct Reading {
    pub read: Receiver<Portion>,
    wanted: Sender<Wanted>,
    thread: JoinHandle<()>,
}

impl Reading {
    pub fn begin(reader: Reader, functions: Vec<LateFunction>) -> Result<Reading, BuildError> {
        let (wanted, wants) = channel();
        let (give, read) = sync_channel(AHEAD);
        let thread = thread::Builder::new().name("loading".to_owned());
        let run = move || read_all(&reader, &functions, &wants, &give);
        let thread = thread.spawn(run).map_err(BuildError::NoThread)?;
        Ok(Reading { read, wanted, thread })
    }

    /// Has a user read before the others.
    pub fn want(&self, wanted: Wanted) {
        // Behind the last portion none is wanted any more.
        drop(self.wanted.send(wanted));
    }

    /// Ends, whether all was read or not: the store is let go.
    pub fn end(self) {
        let Reading { read, wanted, thread } = self;
        drop((read, wanted));
        // It has said what there was to say.
        drop(thread.join());
    }
}

fn read_all(
    reader: &Reader,
    functions: &[LateFunction],
    wants: &Receiver<Wanted>,
    give: &SyncSender<Portion>,
) {
    let mut others = match Others::begin(reader, functions) {
        Ok(others) => others,
        Err(error) => return drop(give.send(failed(&error))),
    };
    loop {
        let mut wanted = Vec::new();
        while wanted.len() < WANTED_AT_ONCE {
            match wants.try_recv() {
                Ok(one) => wanted.push(one),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        if !wanted.is_empty() {
            let portion = read_wanted(reader, functions, wanted);
            let portion = portion.unwrap_or_else(|error| failed(&error));
            if portion.is_last || give.send(portion).is_err() {
                return;
            }
        }
        let portion = others.next_portion().unwrap_or_else(|error| failed(&error));
        let is_last = portion.is_last;
        if give.send(portion).is_err() || is_last {
            return;
        }
    }
}

fn failed(error: &StateError) -> Portion {
    Portion { is_last: true, failures: vec![error.to_string()], ..Portion::default() }
}

fn read_wanted(
    reader: &Reader,
    functions: &[LateFunction],
    wanted: Vec<Wanted>,
) -> Result<Portion, StateError> {
    let mut portion = Portion::default();
    for Wanted { slot, owners, has_neighbours } in wanted {
        if let ([whose], true) = (&owners[..], has_neighbours) {
            // If it has none, those of others come.
            let mut others = Others::from(reader, functions, &names::owner(whose))?;
            others.read(&mut portion, 1 + NEIGHBOURS)?;
            portion.users.push(slot);
            continue;
        }
        for whose in owners {
            for function in functions {
                let key = names::key(&function.name, &whose);
                reader.get(CONTEXTS, &key, |version, record| {
                    portion.add(function, version, record);
                })?;
            }
            portion.end_owner(whose);
        }
        portion.users.push(slot);
    }
    Ok(portion)
}

/// All contexts, by their owners.
struct Others<'a> {
    functions: Vec<(&'a LateFunction, usize, Peekable<Found>)>,
}

impl<'a> Others<'a> {
    fn begin(reader: &Reader, functions: &'a [LateFunction]) -> Result<Others<'a>, StateError> {
        Others::from(reader, functions, &[])
    }

    /// Those of this owner, and of the ones behind it.
    fn from(
        reader: &Reader,
        functions: &'a [LateFunction],
        first: &[u8],
    ) -> Result<Others<'a>, StateError> {
        let begin = |function: &'a LateFunction| {
            let prefix = names::prefix(&function.name);
            let found = reader.beginning_from(CONTEXTS, &prefix, first)?;
            Ok((function, prefix.len(), found.peekable()))
        };
        Ok(Others { functions: functions.iter().map(begin).collect::<Result<_, StateError>>()? })
    }

    /// Those of the next owners.
    fn next_portion(&mut self) -> Result<Portion, StateError> {
        let mut portion = Portion::default();
        while portion.contexts.len() < AT_ONCE && portion.failures.len() < AT_ONCE {
            if !self.read(&mut portion, 1)? {
                portion.is_last = true;
                break;
            }
        }
        Ok(portion)
    }

    /// Adds those of so many owners that come next; false where there are no more.
    fn read(&mut self, portion: &mut Portion, count: usize) -> Result<bool, StateError> {
        for _ in 0..count {
            let Some(owner) = self.next_owner()? else { return Ok(false) };
            for (function, prefix, found) in &mut self.functions {
                let is_its = |found: &Result<FoundRecord, StateError>| {
                    found.as_ref().is_ok_and(|one| one.key()[*prefix..] == owner[..])
                };
                if let Some(Ok(record)) = found.next_if(is_its) {
                    let (version, record) = record.record();
                    portion.add(function, version, record);
                }
            }
            match names::read_owner(&owner) {
                Some(whose) => portion.end_owner(whose),
                None => {
                    let begin = portion.owners.last().map_or(0, |(_, end)| *end);
                    portion.contexts.truncate(begin);
                    portion.failures.push("a context without an owner".to_owned());
                }
            }
        }
        Ok(true)
    }

    /// The owner that comes first of those that have contexts yet to be read.
    fn next_owner(&mut self) -> Result<Option<Vec<u8>>, StateError> {
        let mut first: Option<&[u8]> = None;
        for (_, prefix, found) in &mut self.functions {
            if let Some(Err(error)) = found.next_if(Result::is_err) {
                return Err(error);
            }
            let Some(Ok(record)) = found.peek() else { continue };
            let owner = &record.key()[*prefix..];
            if first.is_none_or(|first| owner < first) {
                first = Some(owner);
            }
        }
        Ok(first.map(<[u8]>::to_vec))
    }
}
