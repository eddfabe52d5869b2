//! What came of the classification of a burst.

use arrayvec::ArrayVec;
use weft_compose::Positions;
use weft_dpdk::Batch;
use weft_function::TAG_SLOTS;

/// Packets that came in at one port, of users that are alike for the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The port.
    pub port: u16,
    /// The class of the users.
    pub class: u16,
    /// The packets.
    pub positions: Positions,
}

/// What came of a burst.
#[derive(Debug, Default)]
pub struct Classified {
    /// Packets of this worker's users.
    pub entries: ArrayVec<Entry, { Batch::CAPACITY }>,
    /// Packets of other workers' users.
    pub elsewhere: Positions,
    /// Packets without a user.
    pub unknown: Positions,
    /// Packets of this worker's users that are not to be forwarded now: the
    /// [`Action`](super::Action) is left in them.
    pub held: Positions,
    /// Packets of this worker's users that go through a gate.
    pub gated: Positions,
}

/// The packets at hand of one port and class, and the tags that they get.
pub(super) struct Run<'a> {
    pub entry: Entry,
    pub tags: Option<&'a [u32; TAG_SLOTS]>,
}

impl Run<'_> {
    /// Of no packets, and of no port that there is.
    pub const NONE: Self =
        Run { entry: Entry { port: u16::MAX, class: 0, positions: Positions::NONE }, tags: None };
}

impl Classified {
    /// Makes it ready for the next burst.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.elsewhere = Positions::NONE;
        self.unknown = Positions::NONE;
        self.held = Positions::NONE;
        self.gated = Positions::NONE;
    }

    /// Whether every packet of this worker's users is to be forwarded.
    #[inline]
    pub fn is_usual(&self) -> bool {
        self.unknown.is_empty() && self.held.is_empty()
    }

    /// Adds a run of packets of one port and class.
    #[inline]
    pub(super) fn add(&mut self, run: Entry) {
        if run.positions.is_empty() {
            return;
        }
        let same = |entry: &&mut Entry| (entry.port, entry.class) == (run.port, run.class);
        match self.entries.iter_mut().find(same) {
            Some(entry) => entry.positions = entry.positions.or(run.positions),
            None => self.entries.push(run),
        }
    }
}
