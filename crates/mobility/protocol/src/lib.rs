//! How a user moves from one node to another without losing, doubling or
//! reordering a packet, and with at most one owner at all times.
//!
//! Three state machines speak one protocol: the [`Station`] owns users and hands
//! them over, as source or as target; the [`Anchor`] stands before the stations
//! and switches a user's path; the [`Controller`] drives each move and keeps the
//! epochs. None of them does I/O or reads a clock: a machine is given an input
//! (a message, a timer that fired, an event of the data plane) and writes
//! [`Output`]s: messages to send, timers to set, actions of the data plane.
//! The program that holds a machine carries them out in order. Each machine ignores what
//! it has no use for, so an input is never an error.
//!
//! The data plane knows nothing of the protocol. It is given a [`Posture`] for
//! each user: what to do with packets that come fresh (from the radio, from the
//! anchor) and with packets that another station forwards. What a
//! [`Treatment::Hold`] has kept leaves, oldest first, before any newer packet,
//! when the treatment changes. [`plane`] does so, with [gates](gate) that allocate
//! nothing for a packet.
//!
//! Functions move as well, by the same messages and in the same manner: see [`function_move`].
//!
//! `docs/handover.md` describes the protocol; its tables of transitions are those
//! of [`transition`].
#![forbid(unsafe_code)]

pub mod anchor;
pub mod controller;
pub mod function_move;
pub mod gate;
mod identity;
pub mod message;
pub mod output;
pub mod plane;
mod record;
mod settings;
pub mod station;
mod timers;
pub mod transition;

pub use anchor::Anchor;
pub use controller::Controller;
pub use identity::{Direction, Epoch, Incarnation, Leg, NodeId, User};
pub use message::{Envelope, MAX_CONTEXTS, Message, ParseError, Reason, RouteStage, Step, VERSION};
pub use output::{
    AnchorPosture, Contexts, Counter, EndMarker, Output, Posture, TimerKey, TimerKind, Treatment,
    Ways,
};
pub use record::{Kept, Route};
pub use settings::{Arrival, Settings};
pub use station::Station;
pub use timers::Timers;

/// A pair of nodes: one owns the users, and the other stands by. `docs/design/standby.md`
/// describes what they say; the machines are those of `weft_mobility_standby` and of the
/// controller.
pub mod standby {
    pub use crate::message::{MAX_RECORDS, Position, StandbyStep, Standing};
}
