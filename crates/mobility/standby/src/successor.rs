//! The next process of the node that owns the users.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use weft_mobility_transport::TransportError;
use weft_state::Feed;

use crate::clock::Clock;
use crate::handoff::Handoff;
use crate::input::{Ends, Input, connect};
use crate::options::Options;
use crate::owner::Owner;
use crate::pair::{Pair, Part, Work};
use crate::told::Told;

/// How long the process before may take to give its address back, and how often it is tried.
const GIVING_BACK: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(5);

/// What another process of the node goes on with: before the one that owns the users has given
/// them away.
pub struct Successor {
    inputs: Sender<Input>,
    received: Receiver<Input>,
    feed: Feed,
    clock: Clock,
}

impl Successor {
    /// One that keeps changes of `bound` octets for a standby that is away.
    pub fn new(bound: usize) -> Successor {
        let (inputs, received) = mpsc::channel();
        let wakes = inputs.clone();
        let feed = Feed::new(bound, move || drop(wakes.send(Input::Fed)));
        Successor { inputs, received, feed, clock: Clock::new() }
    }

    /// What is written to the node's store goes here.
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Goes on as the owner of the users, as the other process has [given](Pair::give) it no
    /// sooner than at `since`; with nothing written to the store before. The connections are
    /// this process's once the other one has closed its own.
    ///
    /// # Errors
    /// When these are no words of such a process, or there is no thread.
    pub fn go_on(
        self,
        options: Options,
        (given, since): (&[u8], Instant),
        told: impl Fn(Told) + Send + 'static,
        extend: impl Fn(Instant) + Send + 'static,
    ) -> Result<Pair, GoOnError> {
        let handoff = Handoff::read(given).ok_or(GoOnError::Foreign)?;
        let Successor { inputs, received, feed, clock } = self;
        let own = (options.incarnation, options.waits);
        // Both count from a moment before the other process has said how long is left.
        let until = clock.stamp(since) + handoff.left;
        let owner = Owner::taken_over(&handoff, own, feed, (clock.now(), until));
        extend(clock.moment(until));
        let ends = Ends {
            inputs,
            view: Arc::default(),
            told: Box::new(told),
            extend: Box::new(extend),
            clock,
        };
        let run = move |ends: Ends| {
            wait_for(options.transport.listen);
            match connect(&options, &ends) {
                Ok(connected) => {
                    let mut work = Work::new(options, connected, ends);
                    work.part = Part::Owner(Box::new(owner));
                    work.run(&received);
                }
                Err(error) => {
                    (ends.extend)(Instant::now());
                    (ends.told)(Told::End(error.to_string()));
                }
            }
        };
        Ok(Pair::run(ends, run)?)
    }
}

/// Waits until an address can be listened at, but not for long.
fn wait_for(address: SocketAddr) {
    let until = Instant::now() + GIVING_BACK;
    while TcpListener::bind(address).is_err() && Instant::now() < until {
        thread::sleep(AGAIN);
    }
}

/// Why a process does not go on with the part of the one before.
#[derive(Debug, thiserror::Error)]
pub enum GoOnError {
    /// What was given is nothing of the kind.
    #[error("what the other process says of its standby is of another release")]
    Foreign,
    /// No thread.
    #[error(transparent)]
    Transport(#[from] TransportError),
}
