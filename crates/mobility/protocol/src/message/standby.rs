//! What two nodes, of which one stands by the other, and their controller say to each other.

use crate::identity::{Epoch, Incarnation, NodeId};

/// Octets of records that one message carries at most.
pub const MAX_RECORDS: usize = 4 << 20;

/// What a node is in a pair, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It owns the users.
    Owns,
    /// It stands by, or does not know yet.
    Stands,
    /// It has owned the users, has stopped, and says nothing more.
    Leaves,
}

/// What is said about a pair of nodes. Times are of the clock of who measures them: a *stamp*
/// goes to the other side and comes back as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandbyStep {
    /// Node to controller: what it is.
    Claim {
        /// By which it owns the users; of a standby the one that it has heard of.
        epoch: Epoch,
        /// When it says so.
        stamp: u64,
        /// What it is.
        standing: Standing,
        /// Of an owner: the standby has all records, and answers wait for it. Of a standby: it
        /// has all records, and may own the users.
        whole: bool,
        /// It hears the other node.
        hears: bool,
        /// Of a standby: its node is built, with all users, and carries packets as soon as it
        /// owns them.
        built: bool,
    },
    /// Controller to node: it owns the users.
    Grant {
        /// By which.
        epoch: Epoch,
        /// That of the claim.
        stamp: u64,
        /// For how long from the stamp on, in milliseconds.
        lease: u32,
        /// That the standby has all records is durable at the controller.
        whole: bool,
        /// The other node.
        peer: NodeId,
    },
    /// Controller to node: the other one owns the users.
    Deny {
        /// By which.
        epoch: Epoch,
        /// That of the claim.
        stamp: u64,
        /// For how long a node owns users without a word, in milliseconds.
        lease: u32,
        /// The other node.
        peer: NodeId,
    },
    /// Controller to owner: it is to stop, and to give the users to the other node.
    Leave {
        /// By which it owns them.
        epoch: Epoch,
    },
    /// Owner to standby: it lives.
    Alive {
        /// By which it owns the users.
        epoch: Epoch,
        /// When it says so.
        stamp: u64,
        /// The number of the newest records.
        newest: u64,
        /// It has stopped: nothing follows, and it owns no users any more.
        leaves: bool,
    },
    /// Standby to owner: how far it is, and that it will not own the users for as long as a
    /// lease.
    Attend {
        /// By which the other owns the users.
        epoch: Epoch,
        /// The newest that was heard; 0 for none.
        stamp: u64,
        /// How far it is.
        position: Position,
    },
    /// Owner to standby: some records, or changes of records.
    Records {
        /// By which it owns the users.
        epoch: Epoch,
        /// Where they belong.
        at: Position,
        /// What belongs together ends here; of a copy, the copy.
        is_last: bool,
        /// The records, as the store writes them.
        octets: Vec<u8>,
    },
}

/// How far a standby is, or where records belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The life of the owner; 0 for none.
    pub stream: Incarnation,
    /// Whether all records are there: `number` counts changes then, and pieces of a copy
    /// otherwise.
    pub whole: bool,
    /// Number of the changes at which the copy was made.
    pub base: u64,
    /// Of changes: the number of the last. Of a copy: how many pieces are before.
    pub number: u64,
}

impl StandbyStep {
    /// The step's name, as logs have it.
    pub fn name(&self) -> &'static str {
        match self {
            StandbyStep::Claim { .. } => "Claim",
            StandbyStep::Grant { .. } => "Grant",
            StandbyStep::Deny { .. } => "Deny",
            StandbyStep::Leave { .. } => "Leave",
            StandbyStep::Alive { .. } => "Alive",
            StandbyStep::Attend { .. } => "Attend",
            StandbyStep::Records { .. } => "Records",
        }
    }
}
