//! What controller, station and anchor store of a user, and what a controller tells of it.

mod kept;
mod route;

pub use self::kept::Kept;
pub use self::route::Route;
use crate::identity::{Epoch, Leg, NodeId, User};

/// What the controller must know of a user after it has started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The user's anchor.
    pub anchor: NodeId,
    /// Who owned the user before the intent; `None` when no node did, or it is gone.
    pub owner: Option<Leg>,
    /// What is to be done.
    pub intent: Intent,
}

impl Record {
    /// The number of what is to be done, or else of the ownership; 0 when there is
    /// neither.
    pub fn epoch(&self) -> Epoch {
        match self.intent {
            Intent::Settled => self.owner.map_or(Epoch(0), |leg| leg.epoch),
            Intent::Move { target, .. } => target.epoch,
            Intent::Remove { epoch } => epoch,
        }
    }
}

/// What is to be done with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Nothing.
    Settled,
    /// The target is to own the user.
    Move {
        /// The target; its epoch is the move's.
        target: Leg,
        /// There were contexts, and they are lost.
        lost: bool,
        /// The target is given the user back: it may go on with contexts that it has kept of the
        /// ownership, or the move, of this epoch, since no other node has had the user behind it.
        kept: Option<Epoch>,
    },
    /// The user is to be forgotten.
    Remove {
        /// Of the removal.
        epoch: Epoch,
    },
}

/// What the controller tells the program that gives it orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The target owns the user: the radio may go there. One that goes earlier
    /// loses nothing unless the move is given up.
    Ready(User, NodeId),
    /// The node owns the user, and the move is complete.
    Moved(User, NodeId),
    /// The move is given up: the radio had better be at the node.
    Aborting(User, NodeId),
    /// The node still owns the user, and the move is over.
    Aborted(User, NodeId),
    /// The owner is gone.
    NoOwner(User),
    /// The node owns the user, which is new or had no owner.
    Owned(User, NodeId),
    /// The user is forgotten.
    Removed(User),
    /// The order is not carried out.
    Refused(User, Refusal),
}

/// Why an order is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such user.
    #[error("there is no such user")]
    UnknownUser,
    /// There is such a user already.
    #[error("there is such a user already")]
    KnownUser,
    /// The node has not said hello.
    #[error("the node is not connected")]
    UnknownNode,
    /// The user is there already.
    #[error("the user is at that node already")]
    AlreadyThere,
    /// Another order for the user is being carried out.
    #[error("another move of the user is under way")]
    Busy,
}
