//! What the thread of a pair is given.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use weft_mobility_protocol::standby::Position;
use weft_mobility_transport::Event;
use weft_state::{Piece, Snapshot, StateError};

/// What the thread is given.
pub(crate) enum Input {
    Arrived(Event),
    /// There is something to send.
    Fed,
    Copy(u64, Receiver<Piece>),
    NoCopy,
    /// The standby's store is that far.
    Durable(Position),
    /// The standby's store cannot be written at the moment.
    NotDurable,
    /// All records of the standby's store, as they were when they were asked for that often.
    All(u64, Result<Snapshot, StateError>),
    /// The node cannot go on with what it was given.
    Anew,
    /// The node is built with what it was given, or is not any more.
    Built(bool),
    /// The node has stopped: called when the standby has all, or could not have it in time.
    Leave(Instant, Sender<bool>),
    Stop,
}
