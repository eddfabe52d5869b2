//! What the thread of a pair is given, whom it tells, and its connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use weft_mobility_protocol::standby::{Position, StandbyStep};
use weft_mobility_protocol::{Envelope, Message};
use weft_mobility_transport::{Event, Transport, TransportError};
use weft_state::{Piece, Snapshot, StateError};

use crate::clock::Clock;
use crate::handoff::Handoff;
use crate::options::Options;
use crate::told::Told;
use crate::view::PairView;

/// Octets of messages that wait for the thread.
const MOST_WAITING: usize = 64 << 20;

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
    /// Another process of the node may go on: told with what, and waits for whether it does.
    Give(Sender<Option<Handoff>>, Receiver<bool>),
    Stop,
}

/// Where the thread is heard, and whom it tells.
pub(crate) struct Ends {
    pub inputs: Sender<Input>,
    pub view: Arc<Mutex<PairView>>,
    pub told: Box<dyn Fn(Told) + Send>,
    pub extend: Box<dyn Fn(Instant) + Send>,
    pub clock: Clock,
}

/// Connections, and the octets that have come and wait for the thread.
pub(crate) struct Connected(pub Transport, pub Arc<AtomicUsize>);

/// Listens, and dials the controller. What arrives is given to the thread.
pub(crate) fn connect(options: &Options, ends: &Ends) -> Result<Connected, TransportError> {
    let waiting: Arc<AtomicUsize> = Arc::default();
    let (arrived, octets) = (ends.inputs.clone(), waiting.clone());
    let deliver = move |event: Event| {
        let size = size(&event);
        if octets.fetch_add(size, Ordering::Relaxed) + size > MOST_WAITING {
            octets.fetch_sub(size, Ordering::Relaxed);
            return false;
        }
        arrived.send(Input::Arrived(event)).is_ok()
    };
    Ok(Connected(Transport::start(options.transport.clone(), deliver)?, waiting))
}

/// Octets of a message in memory, about.
pub(crate) fn size(event: &Event) -> usize {
    const FEW: usize = 256;
    match event {
        Event::Message(Envelope {
            message: Message::Standby(StandbyStep::Records { octets, .. }),
            ..
        }) => FEW + octets.len(),
        _ => FEW,
    }
}
