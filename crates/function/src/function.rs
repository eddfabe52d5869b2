//! The interface between a function and whatever runs it.

use crate::metadata::PacketMetadata;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use weft_dpdk::Packet;

use crate::emit::Emit;
use crate::error::{ConfigError, ContextError};
use crate::event::EventSender;
use crate::tag::{Tag, TagSlot, TagTable};
use crate::tunnel::TunnelEnds;
use crate::verdict::{Reason, Verdict};

/// A small user plane function.
///
/// One value of the type exists per worker and instance, so it needs no locks.
pub trait UserPlaneFunction: Sized + Send + 'static {
    /// Name in configurations: lower case, words joined by hyphens.
    const NAME: &'static str;
    /// One sentence for the list of functions.
    const SUMMARY: &'static str;
    /// Tags it reads.
    const READS: &'static [Tag] = &[];
    /// Tags it writes. A rule behind the function that looks at one of them is
    /// decided packet by packet; all other rules are decided beforehand.
    const WRITES: &'static [Tag] = &[];
    /// Reasons for which it drops packets.
    const DROPS: &'static [Reason] = &[];
    /// Version of the bytes that [`export`](Self::export) writes.
    const CONTEXT_VERSION: u16 = 1;
    /// Oldest version that [`export_as`](Self::export_as) writes. Where it is that of the release
    /// before, that release takes a node back from this one.
    const OLDEST_VERSION: u16 = Self::CONTEXT_VERSION;
    /// Whether a context may be set back to an earlier checkpoint after a
    /// failure. A counter may; a sequence number that must never be used twice
    /// may not.
    const ROLLBACK: bool = true;
    /// Whether contexts are written to the node's store in turn, and a node that starts again
    /// goes on with them: all contexts of the function at once, and before any packet.
    const CHECKPOINTED: bool = Self::ROLLBACK && size_of::<Self::Context>() > 0;

    /// Octets of a context, from the first on, that every packet needs: they
    /// are asked for before the packets of a burst are handled. 0 where most packets
    /// need none.
    const HOT_CONTEXT: usize = size_of::<Self::Context>();
    /// Whether contexts refer to records that [`prefetch`](Self::prefetch) asks
    /// for ahead of use.
    const PREFETCHES: bool = false;
    /// Whether packets that it keeps are handed to it again when the settings of their context
    /// change.
    const RETRIES_KEPT: bool = false;
    /// How many times [`look_ahead`](Self::look_ahead) is shown each packet.
    const STAGES: usize = 0;

    /// Configuration of an instance.
    type Config: DeserializeOwned + JsonSchema;
    /// What can be set for one bearer, user or group. [`NoSettings`] for a
    /// function that treats all alike.
    type Settings: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// What the function keeps for one bearer, user or group; `()` for nothing.
    /// Large things belong in an arena of the function, bounded, with an index
    /// here: there is one context per user the node has room for.
    type Context: Default + Send + 'static;

    /// Makes an instance.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of the value that is wrong.
    fn new(config: Self::Config, setup: &Setup<'_>) -> Result<Self, ConfigError>;

    /// Whose context it is that [`process`](Self::process) is given.
    fn scope(&self) -> Scope {
        Scope::User
    }

    /// Handles one packet. The packet is linear, was parsed, and belongs to a
    /// user; see [`Headers`](crate::Headers) for its fields.
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Self::Context,
        emit: &mut Emit<'_>,
    ) -> Verdict;

    /// Asks the processor for what a packet of this context will need beyond the
    /// context itself. Called for all packets of a burst before the first of them
    /// is handled, where [`PREFETCHES`](Self::PREFETCHES) says so.
    fn prefetch(&self, _context: &Self::Context) {}

    /// Asks the processor for what looking up this packet will need. All packets of
    /// a burst are shown before the first of them is handled, once for each of the
    /// [`STAGES`](Self::STAGES), so that their cache misses overlap; a later stage
    /// finds what an earlier one asked for. It may note what it has found out: the next
    /// stage is given the note, and behind the last one [`Emit::note`] has it. The note
    /// is 0 at first; packets that are handled in between may have changed what it says
    /// of the function, but not what it says of the packet.
    fn look_ahead(&self, _stage: usize, _packet: &Packet, note: u64) -> u64 {
        note
    }

    /// Called when a timer runs out that was asked for with
    /// [`Emit::wake_at`].
    fn timer(&mut self, _context: &mut Self::Context, _emit: &mut Emit<'_>) {}

    /// Checks settings that are to hold for `count` users in a row.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of the value that is wrong.
    fn check(&self, _settings: &Self::Settings, _count: u32) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Tells the time before settings change, in nanoseconds on the clock of
    /// [`Emit::now`]. Only a function whose settings begin or end something has something
    /// to do here.
    fn tell_time(&mut self, _now: u64) {}

    /// Gives a context its settings: those of the `nth` user (from 0) of the
    /// users they were written for. Called on a fresh context, and on one in
    /// use when its settings change.
    fn configure(&mut self, _context: &mut Self::Context, _settings: &Self::Settings, _nth: u32) {}

    /// The tunnels that a context with these settings, of the `nth` user, sends
    /// packets into. The node watches the paths to their peers.
    fn tunnels(&self, _settings: &Self::Settings, _nth: u32) -> TunnelEnds {
        TunnelEnds::new()
    }

    /// Sends an End Marker (TS 29.281 §7.3.2) down each tunnel of the context that
    /// it will not have any more with `settings`, which it gets next. The packets
    /// are made with the metadata of `like`: uplink, then downlink.
    fn end_tunnels(
        &mut self,
        _context: &mut Self::Context,
        _settings: &Self::Settings,
        _nth: u32,
        _like: &[PacketMetadata; 2],
        _emit: &mut Emit<'_>,
    ) {
    }

    /// Answers what the node's agent asks of a context, between bursts; it may change the
    /// context. What questions and answers mean is the function's own.
    fn ask(
        &mut self,
        _context: &mut Self::Context,
        _now: u64,
        _question: &[u8],
        _answer: &mut Vec<u8>,
    ) {
    }

    /// Writes a context as bytes: compact, little endian, settings included.
    fn export(&self, context: &Self::Context, out: &mut Vec<u8>);

    /// Writes a context as `version` has it, from [`OLDEST_VERSION`](Self::OLDEST_VERSION) on:
    /// an earlier release goes on with it. What that has no place for is left out.
    fn export_as(&self, _version: u16, context: &Self::Context, out: &mut Vec<u8>) {
        self.export(context, out);
    }

    /// The same at the time `now` of [`Emit::now`]: a function whose times go on while no node has
    /// the context notes beside which time of day that is.
    fn export_at(&self, context: &Self::Context, _now: u64, out: &mut Vec<u8>) {
        self.export(context, out);
    }

    /// Writes what a context has beside its settings at the time `now`, for one that has the same
    /// settings in another process. False where it is written whole only.
    fn export_state(&self, _context: &Self::Context, _now: u64, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Reads into a context what [`export_state`](Self::export_state) wrote.
    ///
    /// # Errors
    /// [`ContextError`]; the context is then as it was.
    fn import_state(
        &mut self,
        _context: &mut Self::Context,
        _bytes: &[u8],
    ) -> Result<(), ContextError> {
        Err(ContextError::Damaged)
    }

    /// Makes a context from bytes that `export` wrote, perhaps of an earlier
    /// version, perhaps on another node. [`Fields`](crate::Fields) reads them.
    ///
    /// # Errors
    /// [`ContextError`]; bytes from outside are not to be trusted.
    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Self::Context, ContextError>;

    /// Moves the times in a context that was just imported on to the clock of
    /// [`Emit::now`]: the exporting node's showed `then` as it exported, this
    /// one's shows `now`, both in nanoseconds. Only a function that keeps times
    /// has something to do here.
    fn rebase(&mut self, _context: &mut Self::Context, _then: u64, _now: u64) {}

    /// Takes over what contexts refer to in `previous`, an instance of the same
    /// function under another configuration, whose contexts are this one's from
    /// now on. Only a function with an arena has something to do here.
    fn adopt(&mut self, _previous: &mut Self) {}

    /// Gives back what a context holds beyond itself, as its user leaves.
    fn release(&mut self, _context: Self::Context) {}

    /// Gives back what it can of what a context holds beyond itself, after a panic
    /// over it: it may be half changed, and must not be trusted.
    fn abandon(&mut self, _context: Self::Context) {}

    /// The node has died and goes on: `contexts` are those of the last checkpoints, or fresh
    /// ones, and what happened since is not known. Called before the first packet, at the time
    /// `now` in nanoseconds, once for each life that may have gone beyond those checkpoints. A
    /// function that must not do again what it may have done skips ahead here. Contexts that may
    /// be [rolled back](Self::ROLLBACK) can come later, each before its first packet: then it is
    /// called with that one.
    fn go_on(&mut self, _contexts: &mut [Self::Context], _now: u64) {}

    /// What the function shows of a context to an operator.
    fn show(&self, _context: &Self::Context) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The settings of a function that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}

/// Whose context a function keeps.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    serde::Deserialize,
    serde::Serialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One for each bearer (TS 23.401 §4.7.2) of each user.
    Bearer,
    /// One for each user.
    #[default]
    User,
    /// One for each group of users. A packet whose user is in no group passes
    /// the function untouched.
    Group,
}

/// What surrounds an instance as it is made.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Name of the instance.
    pub instance: &'a str,
    /// The node's tags; all that the function declares are among them.
    pub tags: &'a TagTable,
    /// Contexts there will be at most.
    pub contexts: usize,
    /// The worker this instance is for, from 0.
    pub worker: usize,
    /// Cycles per second of the time-stamp counter.
    pub tsc_hz: u64,
    /// Whether the instance is made to see whether it can be: it checks its
    /// configuration and settings, and never meets a packet. One that needs
    /// much memory or time does without.
    pub trial: bool,
    /// Where the instance tells what is to be exported from the node; none where nothing is.
    pub events: Option<&'a EventSender>,
}

impl Setup<'_> {
    /// The slot of a tag that the function declares.
    ///
    /// # Errors
    /// [`ConfigError`] when it does not declare it.
    pub fn tag(&self, tag: &Tag) -> Result<TagSlot, ConfigError> {
        self.tags.slot(tag.name).ok_or_else(|| {
            ConfigError::at(
                "",
                format!("the function uses tag {} but does not declare it", tag.name),
            )
        })
    }
}
