//! What goes to a stage of one burst, and what came of it there.

use arrayvec::ArrayVec;
use weft_compose::{Burst, Outcome, Positions};
use weft_dpdk::{Batch, Packet, Pool};
use weft_function::EmissionKind;

use crate::offload::ResumePoint;
use crate::offload::states::StateGroups;

/// Packets on their way to a stage and back, or a timer that has run out.
pub struct Parcel {
    /// The packets, and when they came.
    pub burst: Burst,
    /// Where each stands: on the way back, what it was handled in last.
    pub places: [ResumePoint; Batch::CAPACITY],
    /// How long each was when it entered the element.
    pub lengths: [u16; Batch::CAPACITY],
    /// Some of them as they came in.
    pub originals: ArrayVec<(usize, Packet), { Batch::CAPACITY }>,
    /// Number of the last order before it.
    pub order: u32,
    /// Instead of packets: the function and slot whose timer has run out.
    pub timer: Option<(u16, u32)>,
    /// Packets that functions there dropped, and counted.
    pub dropped: Positions,
    /// Packets that have yet to be handled in the state where they stand.
    pub waiting: Positions,
    /// Packets that were sent round a loop of rules.
    pub looped: Positions,
    /// Contexts that were reset: function and slot.
    pub resets: ArrayVec<(u16, u32), { Batch::CAPACITY }>,
    /// Packets that could not be emitted for want of room.
    pub refused: u64,
    /// What functions asked for that concerns no packet's order: function, slot, and what.
    pub notes: ArrayVec<(u16, u32, EmissionKind), { Batch::CAPACITY }>,
    /// The function that asked for more than a verdict, by what packets it visited,
    /// which stand in the group.
    pub asked: Option<u16>,
    /// Those packets, by state.
    pub group: StateGroups,
    /// What it asked for.
    pub outcome: Outcome,
}

const NOWHERE: ResumePoint = ResumePoint { state: 0, plan: 0, onward: 0 };

impl Parcel {
    /// An empty one.
    pub fn new(pool: &Pool) -> Parcel {
        Parcel {
            burst: Burst { packets: Batch::new(), now: 0, pool: pool.clone() },
            places: [NOWHERE; Batch::CAPACITY],
            lengths: [0; Batch::CAPACITY],
            originals: ArrayVec::new(),
            order: 0,
            timer: None,
            dropped: Positions::NONE,
            waiting: Positions::NONE,
            looped: Positions::NONE,
            resets: ArrayVec::new(),
            refused: 0,
            notes: ArrayVec::new(),
            asked: None,
            group: StateGroups::new(),
            outcome: Outcome::default(),
        }
    }

    /// Makes it empty again.
    pub fn clear(&mut self) {
        self.burst.packets.clear();
        self.originals.clear();
        self.timer = None;
        self.dropped = Positions::NONE;
        self.waiting = Positions::NONE;
        self.looped = Positions::NONE;
        self.resets.clear();
        self.refused = 0;
        self.notes.clear();
        self.asked = None;
        self.group.clear();
    }

    /// Packets that count as away with it: a timer counts as one.
    pub fn weight(&self) -> usize {
        self.burst.packets.len() + usize::from(self.timer.is_some())
    }
}
