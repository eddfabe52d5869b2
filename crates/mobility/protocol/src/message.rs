//! What the parties say to one another.

mod encoding;
mod function_step;
pub(crate) mod rest;
mod standby;

pub use encoding::{MAX_CONTEXTS, ParseError, VERSION, VERSION_GIVEN_BACK};
pub use function_step::{FunctionStep, MAX_PIECE, Piece, Side};
pub use standby::{MAX_RECORDS, Position, StandbyStep, Standing};

use crate::identity::{Epoch, Incarnation, Leg, NodeId, User};

/// A message, with its sender and receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The sender.
    pub from: NodeId,
    /// The sender's life; 0 for the controller.
    pub from_incarnation: Incarnation,
    /// The receiver.
    pub to: NodeId,
    /// The life of the receiver that is meant: another one ignores it. 0 for
    /// the controller, and where any is meant.
    pub to_incarnation: Incarnation,
    /// What is said.
    pub message: Message,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A node tells the controller that it lives, and in which incarnation.
    Hello,
    /// The controller asks for a hello.
    Probe,
    /// The controller knows the incarnation.
    Welcome,
    /// A step of a move. Said twice, it does what it did the first time.
    Handover {
        /// Who moves.
        user: User,
        /// The number of the move.
        epoch: Epoch,
        /// The step.
        step: Step,
    },
    /// A step of a function's move. Said twice, it does what it did the first time.
    FunctionMove {
        /// Name of the function, at both nodes.
        function: String,
        /// The number of the move, of this coordinator.
        epoch: Epoch,
        /// The step.
        step: FunctionStep,
    },
    /// What is said about a pair of nodes, of which one stands by the other.
    Standby(StandbyStep),
}

/// A step of a move: request and answer beside each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Controller to target: make an entry, hold what comes.
    Prepare {
        /// The node that will send contexts, if there is one.
        source: Option<Leg>,
        /// Without one: the user is given back. The target may go on with contexts that it has kept
        /// of the ownership, or the move, of this epoch, which is above 0 and below the move's.
        kept: Option<Epoch>,
        /// The user's anchor.
        anchor: NodeId,
        /// No move below this epoch is under way any more.
        settled: Epoch,
    },
    /// The target holds what comes.
    Prepared,
    /// Controller to source: stop, export, forward.
    Move {
        /// To whom; the leg's epoch is the move's.
        target: Leg,
    },
    /// The source has stopped.
    Moved,
    /// Source to target: all that belongs to the user.
    Contexts(Vec<u8>),
    /// The target owns the user; to the source.
    Taken,
    /// Controller to target: no node will send contexts; own the user with those that
    /// [`Prepare`](Step::Prepare) lets it keep, or with new ones.
    Adopt {
        /// There were contexts, and they are lost.
        lost: bool,
    },
    /// The target owns the user; to the controller.
    Imported,
    /// What was asked is not done, and will not be in this epoch.
    Refused(Reason),
    /// Controller to target: do not import.
    Abort,
    /// The target has not imported, and will not.
    Aborted,
    /// Controller to source: own the user again.
    Resume {
        /// Who was to own the user, and may have packets to return.
        target: Leg,
        /// The target never owned the user, so the contexts are the newest.
        certain: bool,
        /// The target is gone, or has refused to prepare, and will return nothing.
        target_gone: bool,
    },
    /// The source owns the user again.
    Resumed,
    /// Between the stations of a move: the user's radio is here, and has left you. The
    /// other answers with its End Marker of uplink (HANDOVER SUCCESS, TS 38.423 §8.2.8).
    Arrived,
    /// Controller to source: forget the user once nothing comes any more.
    Release,
    /// The source has forgotten the user.
    Released,
    /// Controller to stations: the move is over; open the gates and say so.
    Complete,
    /// All gates are open, or the entry is gone.
    Completed,
    /// Controller to owner: forget the user.
    Remove,
    /// The user is forgotten.
    Removed,
    /// Controller to anchor: the user's ways from now on.
    Route {
        /// How far the move is.
        stage: RouteStage,
        /// The way that there was.
        old: Option<Leg>,
        /// The way that is to be.
        new: Option<Leg>,
    },
    /// The anchor steers so.
    Routed(RouteStage),
}

/// How far a move is, as its anchor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteStage {
    /// Downlink goes the old way; uplink of the new one waits for the End Marker.
    Prepare,
    /// Downlink goes the new way, behind an End Marker on the old one.
    Switch,
    /// There is only the new way.
    Complete,
    /// There is only the old way.
    Abort,
    /// There is no way.
    Remove,
}

impl RouteStage {
    /// What a move has come to does not go back.
    pub(crate) fn rank(self) -> u8 {
        match self {
            RouteStage::Prepare => 0,
            RouteStage::Switch => 1,
            RouteStage::Complete | RouteStage::Abort => 2,
            RouteStage::Remove => 3,
        }
    }
}

/// Why a step is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The move was given up, or is older than what the node has.
    #[error("the move is over already")]
    Stale,
    /// The node does not have the user.
    #[error("the node does not have the user")]
    Unknown,
    /// The node is still busy with another move of the user.
    #[error("another move of the user is under way")]
    Busy,
    /// As many users are prepared for as may be.
    #[error("the node prepares for as many users as it may")]
    Full,
    /// A function could not take the contexts.
    #[error("a function could not take the contexts")]
    Import,
}

impl Step {
    /// Whether an answer of an anchor leaves once all that it keeps is durable: a next life must
    /// not take up a route that it has let the user leave.
    pub fn needs_kept(&self) -> bool {
        matches!(self, Step::Routed(RouteStage::Prepare | RouteStage::Remove))
    }

    /// The step's name, as tables and logs have it.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Prepare { .. } => "Prepare",
            Step::Prepared => "Prepared",
            Step::Move { .. } => "Move",
            Step::Moved => "Moved",
            Step::Contexts(_) => "Contexts",
            Step::Taken => "Taken",
            Step::Adopt { .. } => "Adopt",
            Step::Imported => "Imported",
            Step::Refused(_) => "Refused",
            Step::Abort => "Abort",
            Step::Aborted => "Aborted",
            Step::Resume { .. } => "Resume",
            Step::Resumed => "Resumed",
            Step::Arrived => "Arrived",
            Step::Release => "Release",
            Step::Released => "Released",
            Step::Complete => "Complete",
            Step::Completed => "Completed",
            Step::Remove => "Remove",
            Step::Removed => "Removed",
            Step::Route { stage, .. } => match stage {
                RouteStage::Prepare => "Route(Prepare)",
                RouteStage::Switch => "Route(Switch)",
                RouteStage::Complete => "Route(Complete)",
                RouteStage::Abort => "Route(Abort)",
                RouteStage::Remove => "Route(Remove)",
            },
            Step::Routed(_) => "Routed",
        }
    }
}
