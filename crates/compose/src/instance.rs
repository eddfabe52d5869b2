//! The one interface through which the forwarding element sees a function, and what is
//! known of a function before there is an instance of it.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrayvec::ArrayVec;
use serde::Serialize;
use serde_json::Value;
use weft_dpdk::{Batch, Pool};
use weft_function::lower::Program;
use weft_function::{
    ConfigError, ContextError, Emissions, PacketMetadata, Reason, Scope, Setup, Tag, TunnelEnds,
};

use crate::positions::Positions;
use crate::slab::SlotShift;

/// Reason of the drop of a packet in whose handling a function panicked.
pub const PANIC: Reason = Reason::new("function_panic", "the function panicked over the packet");

/// Reason of the drop of a packet that was to be kept, when the function has
/// asked for more during the burst than can be noted.
pub const KEEP_REFUSED: Reason =
    Reason::new("keep_refused", "to be kept, but the burst has no room to note it");

/// Reason of a drop for which the function gave a reason that it does not
/// declare.
pub const UNDECLARED: Reason =
    Reason::new("reason_undeclared", "the function gave a reason that it does not declare");

/// What is wrong with configuration or settings that a function panicked over.
pub(crate) const PANICKED: &str = "the function panicked over this";

/// Reasons of the loop around a function, which any function may meet.
pub const REASONS: [Reason; 3] = [PANIC, KEEP_REFUSED, UNDECLARED];

/// The packets of one burst and the time they are handled at.
#[derive(Debug)]
pub struct Burst {
    /// The packets, in the order they came; a position stays what it is until
    /// the burst is done.
    pub packets: Batch,
    /// Nanoseconds since the node started.
    pub now: u64,
    /// Where emitted packets come from.
    pub pool: Pool,
}

/// What came of a visit.
#[derive(Debug)]
pub struct Outcome {
    /// Positions that were dropped.
    pub dropped: Positions,
    /// Why: for each dropped position an index into
    /// [`Kind::reasons`](crate::Kind::reasons).
    pub reasons: [u8; Batch::CAPACITY],
    /// Positions that are kept.
    pub kept: Positions,
    /// What the function asked for, in order.
    pub emissions: Emissions,
    /// Packets that could not be emitted for want of room.
    pub refused: u64,
    /// Slots whose contexts were reset, one for each panic that was caught.
    pub resets: ArrayVec<u32, { Batch::CAPACITY }>,
}

impl Default for Outcome {
    #[inline]
    fn default() -> Self {
        Outcome {
            dropped: Positions::NONE,
            reasons: [0; Batch::CAPACITY],
            kept: Positions::NONE,
            emissions: Emissions::new(),
            refused: 0,
            resets: ArrayVec::new(),
        }
    }
}

impl Outcome {
    /// Makes it ready for the next visit.
    #[inline]
    pub fn clear(&mut self) {
        self.dropped = Positions::NONE;
        self.kept = Positions::NONE;
        self.emissions.clear();
        self.refused = 0;
        self.resets.clear();
    }
}

/// A function at work in a worker, whatever its composition.
pub trait Instance: Send {
    /// What function it is.
    fn kind(&self) -> &'static Kind;

    /// Whose contexts it keeps.
    fn scope(&self) -> Scope;

    /// Asks the processor for the contexts of packets that will soon be given to
    /// [`visit`](Self::visit). Only speed depends on it.
    #[inline]
    fn prefetch(&self, _packets: &Batch, _selected: Positions) {}

    /// Handles the packets at `selected`. Those that are neither dropped nor
    /// kept in `outcome` go on.
    fn visit(&mut self, burst: &mut Burst, selected: Positions, outcome: &mut Outcome);

    /// A timer of the context at `slot` has run out.
    fn timer(&mut self, slot: u32, now: u64, pool: &Pool, outcome: &mut Outcome);

    /// Checks settings for `count` users in a row, without applying them.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of what is wrong.
    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError>;

    /// Tells the time, in nanoseconds since the node started, before contexts are configured.
    #[inline]
    fn tell_time(&mut self, _now: u64) {}

    /// Whether packets that it keeps are given to [`visit`](Self::visit) again when the
    /// settings of their context change.
    #[inline]
    fn retries_kept(&self) -> bool {
        false
    }

    /// Answers what the agent asks of the context at `slot`.
    #[inline]
    fn ask(&mut self, _slot: u32, _now: u64, _question: &[u8], _answer: &mut Vec<u8>) {}

    /// Gives the context at `slot` its settings, those of the `nth` user of
    /// the users they were written for.
    fn configure(&mut self, slot: u32, settings: &Settings, nth: u32);

    /// The tunnels that a context with these settings sends packets into.
    fn tunnels(&self, settings: &Settings, nth: u32) -> TunnelEnds;

    /// Sends End Markers down the tunnels of the context at `slot` that it will
    /// not have with its `next` settings, in packets with the metadata of `like` by
    /// direction; they are in `outcome`, and have no parent.
    fn end_tunnels(
        &mut self,
        slot: u32,
        next: (&Settings, u32),
        like: &[PacketMetadata; 2],
        pool: &Pool,
        outcome: &mut Outcome,
    );

    /// Gives back the context at `slot` and leaves a fresh one.
    fn release(&mut self, slot: u32);

    /// Writes the context at `slot`: the version, the time (nanoseconds since
    /// the node started), and then the bytes of
    /// [`UserPlaneFunction::export`](weft_function::UserPlaneFunction::export).
    fn export(&self, slot: u32, now: u64, out: &mut Vec<u8>);

    /// The same as `version` has it, see
    /// [`UserPlaneFunction::export_as`](weft_function::UserPlaneFunction::export_as).
    #[inline]
    fn export_as(&self, _version: u16, slot: u32, now: u64, out: &mut Vec<u8>) {
        self.export(slot, now, out);
    }

    /// The same without settings, for a context that has the same, where the function writes
    /// that; [`import`](Self::import) takes it.
    #[inline]
    fn export_state(&self, slot: u32, now: u64, out: &mut Vec<u8>) {
        self.export(slot, now, out);
    }

    /// Puts an exported context at `slot`, at the time `now` of this node.
    ///
    /// # Errors
    /// [`ContextError`]; the context at `slot` is then as it was.
    fn import(&mut self, slot: u32, now: u64, bytes: &[u8]) -> Result<(), ContextError>;

    /// The node has died and goes on with the contexts that were imported.
    fn go_on(&mut self, _now: u64) {}

    /// The same of one context that was imported behind the others.
    fn go_on_at(&mut self, _slot: u32, _now: u64) {}

    /// Takes over all contexts of `previous`, an instance of the same function
    /// under another configuration. False, and nothing happens, when `previous`
    /// is something else.
    fn adopt(&mut self, previous: &mut dyn Instance) -> bool;

    /// What an operator sees of the context at `slot`.
    fn show(&self, slot: u32) -> Vec<(&'static str, u64)>;

    /// What it does, in micro-operations. None for a function that cannot be
    /// fused.
    #[inline]
    fn lower(&self) -> Option<Program> {
        None
    }

    /// The bytes of its contexts, one after the other; those of a function that
    /// cannot be fused are not shown.
    #[inline]
    fn contexts(&mut self) -> &mut [u8] {
        &mut []
    }

    /// For [`adopt`](Self::adopt).
    fn as_any(&mut self) -> &mut dyn Any;
}

/// Settings of one function for some users, checked by their own kind. Two are
/// equal when they were written alike.
#[derive(Clone)]
pub struct Settings {
    pub(crate) typed: Arc<dyn Any + Send + Sync>,
    pub(crate) written: Written,
}

/// How settings are written.
#[derive(Clone)]
pub(crate) enum Written {
    /// They were read: JSON, with keys in order. As text it takes a tenth of the memory, and there
    /// is one for each bearer.
    Read(Arc<str>),
    /// They were made, and can be written.
    Made(fn(&(dyn Any + Send + Sync)) -> Value),
}

impl Settings {
    /// Settings that nothing was written of: `S` is the settings type of their function.
    pub fn of<S: Serialize + Send + Sync + 'static>(settings: Arc<S>) -> Settings {
        let write = |settings: &(dyn Any + Send + Sync)| {
            let settings = settings.downcast_ref::<S>();
            settings.and_then(|one| serde_json::to_value(one).ok()).unwrap_or_default()
        };
        Settings { typed: settings, written: Written::Made(write) }
    }

    /// The settings as they were written, or would be.
    pub fn written(&self) -> Value {
        match &self.written {
            // It was written from a value.
            Written::Read(text) => serde_json::from_str(text).unwrap_or_default(),
            Written::Made(write) => write(&*self.typed),
        }
    }

    /// The same as JSON, with keys in order.
    pub fn text(&self) -> Arc<str> {
        match &self.written {
            Written::Read(text) => text.clone(),
            Written::Made(write) => write(&*self.typed).to_string().into(),
        }
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Settings) -> bool {
        Arc::ptr_eq(&self.typed, &other.typed) || self.text() == other.text()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Settings").field(&self.written()).finish()
    }
}

pub(crate) type Make = fn(&Value, &Setup<'_>, SlotShift) -> Result<Box<dyn Instance>, ConfigError>;

/// A function as the registry lists it.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Name in configurations.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Tags it reads.
    pub reads: &'static [Tag],
    /// Tags it writes.
    pub writes: &'static [Tag],
    /// Reasons for which it drops packets.
    pub drops: &'static [Reason],
    /// Whether contexts may be set back to a checkpoint.
    pub rollback: bool,
    /// Whether they outlive the node.
    pub checkpointed: bool,
    /// Version of contexts as they are exported; all up to it are read.
    pub context_version: u16,
    /// Oldest version that they can be exported as.
    pub oldest_version: u16,
    pub(crate) config_schema: fn() -> schemars::Schema,
    pub(crate) settings_schema: fn() -> schemars::Schema,
    pub(crate) settings: fn(&Value) -> Result<Settings, ConfigError>,
    pub(crate) settings_of_text: fn(&str) -> Result<Settings, ConfigError>,
    pub(crate) make: Make,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}

impl Kind {
    /// All reasons for which packets are dropped at the function: its own, and
    /// behind them [`REASONS`].
    pub fn reasons(&self) -> impl Iterator<Item = &'static Reason> + use<> {
        self.drops.iter().chain(&REASONS)
    }

    /// JSON schema of the configuration of an instance.
    pub fn config_schema(&self) -> schemars::Schema {
        (self.config_schema)()
    }

    /// JSON schema of the settings for a bearer, user or group.
    pub fn settings_schema(&self) -> schemars::Schema {
        (self.settings_schema)()
    }

    /// Reads settings.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of what is wrong.
    pub fn settings(&self, value: &Value) -> Result<Settings, ConfigError> {
        (self.settings)(value)
    }

    /// The same as [`Settings::text`] has written them.
    ///
    /// # Errors
    /// As [`settings`](Self::settings).
    pub fn settings_of_text(&self, text: &str) -> Result<Settings, ConfigError> {
        (self.settings_of_text)(text)
    }

    /// Makes an instance that is called in its worker's thread.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of what is wrong.
    pub fn make(
        &self,
        config: &Value,
        setup: &Setup<'_>,
        shift: SlotShift,
    ) -> Result<Box<dyn Instance>, ConfigError> {
        let make = AssertUnwindSafe(|| (self.make)(config, setup, shift));
        catch_unwind(make).unwrap_or_else(|_| Err(ConfigError::at("", PANICKED)))
    }
}
