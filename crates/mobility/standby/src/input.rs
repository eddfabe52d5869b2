//! What the thread of a pair is given.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use weft_mobility_protocol::standby::Position;
use weft_mobility_transport::Event;
use weft_state::Piece;

/// What the thread is given.
pub(crate) enum Input {
    Arrived(Event),
    /// There is something to send.
    Fed,
    Copy(u64, Receiver<Piece>),
    NoCopy,
    /// The standby's store is that far.
    Durable(Position),
    /// The node has stopped: called when the standby has all, or could not have it in time.
    Leave(Instant, Sender<bool>),
    Stop,
}
