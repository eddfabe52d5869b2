//! How a function moves from one node to another, with all its contexts, while its packets
//! wait.
//!
//! Two machines speak, both in the manner of those that move users. The [`Coordinator`] runs at
//! the node whose rules name the function: this node steers the packets, so this node alone
//! decides where the function is. The [`Participant`] runs at the node that serves the function,
//! and takes contexts or gives them. Either node may be the source:
//!
//! ```text
//! coordinator                                    participant
//!   prepare   ── Prepare ──────────────────────▶   checks that it has the function
//!             ◀───────────────────── Prepared ──
//!   gate         packets wait; none is at the function
//!   copy      ── Contexts 0, 1, … ─────────────▶   target: writes each piece
//!             ◀────────────────────── Taken n ──
//!      or     ── Fetch 0, 1, … ────────────────▶   source: reads each piece
//!             ◀─────────────────── Contexts n ──
//!   switch       packets go on, at the destination
//!   release   ── Release ──────────────────────▶   forgets the move
//!             ◀───────────────────── Released ──
//! ```
//!
//! The switch is the point of no return. Before it, any refusal, failure or silence leaves the
//! function where it was: the coordinator opens the gate there and says Abort. What the target
//! has of contexts then is a copy that no packet meets, since packets go where the coordinator
//! steers them, and the next move writes all of it again.
//!
//! A move has an [`Epoch`]. A participant follows only the newest of a coordinator's moves of one
//! function, so that a message that comes late cannot begin a move again, or end another one.

mod coordinator;
mod participant;
mod state;

pub use coordinator::{Coordinator, OrderOutcome, Outcome};
pub use participant::Participant;
pub use state::State;

pub use crate::message::{FunctionStep, MAX_PIECE, Piece, Side};

use std::time::Duration;

use crate::identity::{Epoch, NodeId};
use crate::message::Envelope;
use crate::transition::Transition;

/// How a coordinator's node finds the other one; the machines only compare addresses.
pub type Address = String;

/// Where a function is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// At the other node, the participant's.
    Peer,
    /// At this node, the coordinator's.
    Here,
}

/// What a coordinator is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Where the function is to be.
    pub destination: Destination,
    /// The other node. Without it a function comes back without its contexts.
    pub peer: Option<Address>,
    /// What function it is, which has to be the same at both nodes.
    pub kind: String,
}

/// A move as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MoveKey {
    /// The coordinator, at a participant; `None` at the coordinator itself.
    pub coordinator: Option<NodeId>,
    /// Name of the function.
    pub function: String,
    /// The move's number.
    pub epoch: Epoch,
}

/// Something to be done, in the order it comes. Whatever has to do with contexts or packets is
/// answered by the input of the same name, with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message; a coordinator says to which address, a participant answers. It may be
    /// lost, doubled, late.
    Send(Option<Address>, Envelope),
    /// Give the timer back as an input after this time. The timer of this move that runs
    /// already is set anew.
    SetTimer(MoveKey, Duration),
    /// The timer is not needed any more.
    CancelTimer(MoveKey),
    /// Participant: is there a function of that name and kind whose contexts are at hand?
    Check(MoveKey, String),
    /// Coordinator: let the function's packets wait, until none is at the function.
    Gate(MoveKey, Destination),
    /// Read the contexts of the piece with this number.
    Read(MoveKey, u32),
    /// Write the contexts of a piece.
    Write(MoveKey, Piece),
    /// Coordinator: the function is at the destination; its packets go on there.
    Switch(MoveKey),
    /// Coordinator: the function stays where it was, for this reason; its packets go on there,
    /// and whatever was asked of this move before is off.
    Restore(MoveKey, String),
    /// A move is over, and was one of this node's.
    Ended(MoveKey),
    /// A state has changed, for logs and checks.
    Changed(MoveKey, Transition),
}

/// Times and bounds of function moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// After which a message without answer is sent again, the first time; each further time
    /// takes twice as long.
    pub resend: Duration,
    /// The longest time between two sendings.
    pub resend_most: Duration,
    /// Sendings after which the coordinator gives the other node up.
    pub attempts: u32,
    /// How long gate, contexts and switch of the coordinator's own node may take.
    pub local: Duration,
    /// After which a participant forgets a move of which it hears nothing: longer than all of
    /// the above.
    pub silence: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            resend: Duration::from_millis(100),
            resend_most: Duration::from_secs(1),
            attempts: 8,
            local: Duration::from_secs(30),
            silence: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// How long to wait for an answer to sending number `attempt`, from 0.
    pub fn wait(&self, attempt: u32) -> Duration {
        self.resend.saturating_mul(1 << attempt.min(16)).min(self.resend_most)
    }
}
