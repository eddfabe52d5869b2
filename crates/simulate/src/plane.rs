//! What the data planes of stations and anchors hold for a user.

use std::collections::BTreeMap;

use weft_handover::gate::{Gate, Room};
use weft_handover::{AnchorPosture, Epoch, Posture, User};

use crate::event::Packet;
use crate::user::Context;

/// A user at a station.
#[derive(Debug)]
pub(crate) struct StationEntry {
    /// Tells entries of one user apart that follow one another.
    pub number: u64,
    pub posture: Posture,
    pub fresh: [Gate<Packet>; 2],
    pub forwarded: [Gate<Packet>; 2],
    pub context: Option<Context>,
    /// Packets inside functions.
    pub inside: u32,
    /// When the last packet of a direction comes out of functions.
    pub out: [u64; 2],
    pub exporting: Option<Epoch>,
}

/// The data plane of a station, in one life.
#[derive(Debug)]
pub(crate) struct StationPlane {
    pub users: BTreeMap<User, StationEntry>,
    pub room: Room,
}

/// A user at an anchor.
#[derive(Debug)]
pub(crate) struct AnchorEntry {
    pub posture: AnchorPosture,
    pub gate: Gate<Packet>,
}

/// The data plane of an anchor, in one life.
#[derive(Debug)]
pub(crate) struct AnchorPlane {
    pub users: BTreeMap<User, AnchorEntry>,
    pub room: Room,
}

impl StationEntry {
    pub fn new(number: u64, posture: Posture) -> StationEntry {
        StationEntry {
            number,
            posture,
            fresh: Default::default(),
            forwarded: Default::default(),
            context: None,
            inside: 0,
            out: [0; 2],
            exporting: None,
        }
    }

    pub fn held(&self) -> usize {
        self.fresh.iter().chain(&self.forwarded).map(Gate::len).sum()
    }

    /// All that waits, taken out.
    pub fn take_held(&mut self, room: &mut Room) -> Vec<Packet> {
        let gates = self.forwarded.iter_mut().chain(&mut self.fresh);
        gates
            .flat_map(|gate| std::iter::from_fn(|| gate.release(room)).collect::<Vec<_>>())
            .collect()
    }
}
