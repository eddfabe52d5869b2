//! Records that a thread reads ahead of those who build the node from them.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

use weft_node_config::{Blueprint, FunctionPlan};
use weft_state::Records;

use crate::agent::state::checkpoints::{hash_of, octets_of};
use crate::agent::state::loading::LateFunction;
use crate::agent::state::{BEARERS, CONTEXTS, DEDICATED, names};
use crate::bearer::record::Reading;
use crate::bearer::{BearerId, NewBearer};
use crate::error::BuildError;
use crate::subscribers::Whose;

/// Bearers or contexts that are handed over at once.
pub(super) const AT_ONCE: usize = 4096;
/// Octets of contexts that are handed over at once, or little more.
const OCTETS_AT_ONCE: usize = 512 << 10;
/// So many times as many are read before they are wanted: while the node is assembled.
const READ_AHEAD: usize = 64;

/// Why nothing more is read.
const GONE: &str = "nothing takes it any more";

/// Of which functions contexts are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// Those whose contexts may be set back: they may also be taken again and again, in any
    /// order.
    Followed,
    /// The others. What belongs to one of their contexts only (a block of NAT, a number of ESP)
    /// may be named by an older checkpoint of another one, so all come at once.
    AtOnce,
}

impl Wanted {
    pub fn has(self, plan: &FunctionPlan) -> bool {
        plan.kind.checkpointed
            && plan.composition.is_at_hand()
            && match self {
                Wanted::All => true,
                Wanted::Followed => plan.kind.rollback,
                Wanted::AtOnce => !plan.kind.rollback,
            }
    }
}

/// Some of what is read.
pub(super) enum Piece {
    Bearers(Vec<NewBearer>),
    /// All of them were read.
    EndOfBearers,
    Contexts(ContextRecords),
}

/// What is to come, or why it does not.
type Read = Result<Piece, BuildError>;

/// Bearers and contexts that a thread reads from their records: default bearers, dedicated
/// bearers, then contexts of one function after the other.
pub(crate) struct ReadAhead {
    pub(super) read: Receiver<Read>,
    /// There are no more records than these.
    pub(super) most: usize,
}

impl ReadAhead {
    /// Begins to read those of `records` that a node of this configuration is to have, without
    /// contexts of users of `late` functions.
    ///
    /// # Errors
    /// [`BuildError::NoThread`].
    pub fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        records: &'scope (dyn Records + Sync),
        (blueprint, late): (&'scope Blueprint, &'scope [LateFunction]),
    ) -> Result<ReadAhead, BuildError> {
        ReadAhead::with(scope, records, move |tell| {
            read_bearers(records, blueprint, tell)?;
            read_contexts(records, (blueprint, late), Wanted::All, tell)
        })
    }

    /// Begins to read bearers only.
    ///
    /// # Errors
    /// [`BuildError::NoThread`].
    pub(super) fn bearers<'scope>(
        scope: &'scope Scope<'scope, '_>,
        records: &'scope (dyn Records + Sync),
        blueprint: &'scope Blueprint,
    ) -> Result<ReadAhead, BuildError> {
        ReadAhead::with(scope, records, move |tell| read_bearers(records, blueprint, tell))
    }

    /// Begins to read contexts only, those that are wanted.
    ///
    /// # Errors
    /// [`BuildError::NoThread`].
    pub(super) fn contexts<'scope>(
        scope: &'scope Scope<'scope, '_>,
        records: &'scope (dyn Records + Sync),
        blueprint: &'scope Blueprint,
        wanted: Wanted,
    ) -> Result<ReadAhead, BuildError> {
        ReadAhead::with(scope, records, move |tell| {
            read_contexts(records, (blueprint, &[]), wanted, tell)
        })
    }

    fn with<'scope>(
        scope: &'scope Scope<'scope, '_>,
        records: &'scope (dyn Records + Sync),
        read_all: impl FnOnce(&SyncSender<Read>) -> Result<(), BuildError> + Send + 'scope,
    ) -> Result<ReadAhead, BuildError> {
        let (tell, told) = sync_channel(READ_AHEAD);
        let read = move || {
            if let Err(error) = read_all(&tell) {
                // Who wanted them may have given up.
                let _ = tell.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name("restore".to_owned());
        thread.spawn_scoped(scope, read).map_err(BuildError::NoThread)?;
        Ok(ReadAhead { read: told, most: records.most() })
    }
}

fn read_bearers(
    records: &dyn Records,
    blueprint: &Blueprint,
    tell: &SyncSender<Read>,
) -> Result<(), BuildError> {
    let mut reading = Reading::new(blueprint);
    for kind in [BEARERS, DEDICATED] {
        let mut some = Vec::with_capacity(AT_ONCE);
        let mut refused = None;
        let read = records.each_of(kind, &mut |key, version, octets| {
            let number = key.try_into().map_err(|_| "a bearer without a number")?;
            let id = BearerId(u64::from_be_bytes(number));
            match reading.read(id, version, octets) {
                Ok(bearer) => some.push(bearer),
                Err(wrong) => {
                    refused = Some(BuildError::Kept { id, reason: wrong.to_string() });
                    return Err(String::new());
                }
            }
            if some.len() < AT_ONCE {
                return Ok(());
            }
            let full = std::mem::replace(&mut some, Vec::with_capacity(AT_ONCE));
            tell.send(Ok(Piece::Bearers(full))).map_err(|_| GONE.to_owned())
        });
        if let Some(refused) = refused {
            return Err(refused);
        }
        read?;
        let _ = tell.send(Ok(Piece::Bearers(some)));
    }
    let _ = tell.send(Ok(Piece::EndOfBearers));
    Ok(())
}

fn read_contexts(
    records: &dyn Records,
    (blueprint, late): (&Blueprint, &[LateFunction]),
    wanted: Wanted,
    tell: &SyncSender<Read>,
) -> Result<(), BuildError> {
    for (function, plan) in blueprint.functions.iter().enumerate() {
        if !wanted.has(plan) {
            continue;
        }
        let mut some = ContextRecords::of(function);
        let is_late = late.iter().any(|one| usize::from(one.number) == function);
        let prefix = match is_late {
            true => names::prefix_of_groups(&plan.name),
            false => names::prefix(&plan.name),
        };
        records.each_beginning(CONTEXTS, &prefix, &mut |key, version, record| {
            let (_, whose) = names::read(key).ok_or("a context without an owner")?;
            // One of another function of that name is none of this one.
            let Some(octets) = octets_of(record, plan.kind.name)? else { return Ok(()) };
            some.add(whose, version, record, octets.len());
            if !some.is_full() {
                return Ok(());
            }
            let full = std::mem::replace(&mut some, ContextRecords::of(function));
            tell.send(Ok(Piece::Contexts(full))).map_err(|_| GONE.to_owned())
        })?;
        let _ = tell.send(Ok(Piece::Contexts(some)));
    }
    Ok(())
}

/// Records of contexts of one function.
pub(super) struct ContextRecords {
    /// Its number.
    pub function: usize,
    pub all: Vec<ContextRecord>,
    octets: Vec<u8>,
}

/// Record of a context, of which others have the octets.
pub(super) struct ContextRecord {
    pub whose: Whose,
    pub version: u8,
    /// What a checkpoint of the same context is compared with.
    pub hash: u32,
    record: Range<usize>,
    /// Where in it what the function has exported begins.
    exported: usize,
}

impl ContextRecords {
    fn of(function: usize) -> ContextRecords {
        ContextRecords { function, all: Vec::new(), octets: Vec::new() }
    }

    /// Adds a record, the last `exported` octets of which its function has exported.
    fn add(&mut self, whose: Whose, version: u8, record: &[u8], exported: usize) {
        let begin = self.octets.len();
        self.octets.extend(record);
        let end = self.octets.len();
        let exported = end - exported;
        let hash = hash_of(&self.octets[exported..]);
        self.all.push(ContextRecord { whose, version, hash, record: begin..end, exported });
    }

    fn is_full(&self) -> bool {
        self.all.len() >= AT_ONCE || self.octets.len() >= OCTETS_AT_ONCE
    }

    /// A record as it was stored.
    pub fn record(&self, one: &ContextRecord) -> &[u8] {
        &self.octets[one.record.clone()]
    }

    /// What its function has exported.
    pub fn exported(&self, one: &ContextRecord) -> &[u8] {
        &self.octets[one.exported..one.record.end]
    }
}
