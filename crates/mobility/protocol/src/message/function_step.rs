//! What coordinator and participant of a function's move say to each other.

use crate::identity::Epoch;

/// Octets of contexts that one piece has at most.
pub const MAX_PIECE: usize = 3 << 20;

/// What the participant is in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// It gives contexts: the function comes back from it.
    Source,
    /// It takes contexts: the function goes to it.
    Target,
}

/// A piece of a function's contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Its number, from 0.
    pub number: u32,
    /// None follows.
    pub is_last: bool,
    /// Contexts in it.
    pub count: u32,
    /// The contexts, as the nodes write them.
    pub octets: Vec<u8>,
}

/// A step of a function's move: request and answer beside each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionStep {
    /// Coordinator to participant: a move begins.
    Prepare {
        /// What the participant is in it.
        side: Side,
        /// What function it is.
        kind: String,
    },
    /// The participant has the function.
    Prepared,
    /// Source to target: a piece of the contexts.
    Contexts(Piece),
    /// The target has written the piece of this number.
    Taken(u32),
    /// Coordinator to source: give the piece of this number, and forget those before it.
    Fetch(u32),
    /// The move has come about, and is over.
    Release,
    /// The participant has forgotten the move.
    Released,
    /// The move is given up, and is over.
    Abort,
    /// The participant has forgotten the move.
    Aborted,
    /// What was asked is not done, and will not be in this epoch.
    Refused {
        /// The newest epoch that the participant knows of; where this is not below the move's,
        /// a move needs a higher one.
        newest: Epoch,
        /// Why, for people.
        reason: String,
    },
}

impl FunctionStep {
    /// The step's name, as tables and logs have it.
    pub fn name(&self) -> &'static str {
        match self {
            FunctionStep::Prepare { .. } => "Prepare",
            FunctionStep::Prepared => "Prepared",
            FunctionStep::Contexts(_) => "Contexts",
            FunctionStep::Taken(_) => "Taken",
            FunctionStep::Fetch(_) => "Fetch",
            FunctionStep::Release => "Release",
            FunctionStep::Released => "Released",
            FunctionStep::Abort => "Abort",
            FunctionStep::Aborted => "Aborted",
            FunctionStep::Refused { .. } => "Refused",
        }
    }
}
