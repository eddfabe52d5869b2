//! A node's part in a pair: it stands by until it owns the users, and owns them as long as the
//! controller or its standby says so.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use weft_dpdk::Eal;
use weft_mobility_standby::{Options, Pair, PairView, Released, Successor, Told};
use weft_mobility_transport::Timing;
use weft_node::{BuildError, Lease, Node, StandbyView, StandingNode};
use weft_node_config::{Blueprint, StandbyPlan};
use weft_state::Store;

use super::handover::{Part, incarnation};
use crate::failure::Failure;
use crate::notify::ServiceManager;
use crate::output;
use crate::signals::Termination;

/// How often the process looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(5);
/// How often a service manager is told that the process lives.
const ALIVE: u32 = 200;
/// How long a standby may take for the last records of a node that stops.
const LAST: Duration = Duration::from_secs(3);

/// A node that owns the users of a pair.
pub struct Owning {
    pair: Pair,
    told: Receiver<Told>,
    lease: Lease,
}

/// How the time of an owner ends.
pub enum Ending {
    /// Another node owns the users, for this reason.
    Lost(String),
    /// The node is to stop, and to give them to the other one.
    Leaves,
}

/// A node of the pair that owns the users now.
pub struct Owner {
    pub store: Store,
    pub owning: Owning,
    /// The node, where it has followed the other one.
    pub standing: Option<StandingNode>,
}

/// Stands by until the node owns the users. None where it is told to stop before.
///
/// # Errors
/// When it cannot take part, or its records cannot be kept.
pub fn stand_by(
    eal: &Eal,
    (part, blueprint): (Part, &Blueprint),
    socket: &Path,
    store: Store,
    (termination, manager): (&Termination, &mut ServiceManager),
) -> Result<Option<Owner>, Failure> {
    let Some(plan) = &blueprint.standby else {
        return Err(Failure::input("the configuration has no `standby`"));
    };
    let options = options(part, &blueprint.name, plan, socket)?;
    let lease = Lease::default();
    let (tell, told) = mpsc::channel();
    let extended = lease.clone();
    let pair = Pair::start(
        options,
        store,
        move |one| drop(tell.send(one)),
        move |until| extended.extend(until),
    );
    let pair = pair.map_err(Failure::input)?;
    let _ = output::line(&format!("node {} waits for its controller", blueprint.name));
    manager.ready();
    let mut standing = None;
    for look in 0_u32.. {
        if look % ALIVE == 0 {
            manager.alive();
        }
        match told.recv_timeout(LOOK) {
            Ok(Told::Own(store, _)) => {
                let owning = Owning { pair, told, lease };
                return Ok(Some(Owner { store, owning, standing }));
            }
            Ok(Told::End(why)) => return Err(Failure::broken(format!("standby: {why}"))),
            Ok(change) => follow(eal, blueprint, &pair, change, &mut standing),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(signal) = termination.wait_for(Duration::ZERO) {
            tracing::info!("stopping after {signal}");
            return Ok(None);
        }
    }
    Err(Failure::broken("the thread standby has ended by a panic"))
}

/// Does what the other node has done.
fn follow(
    eal: &Eal,
    blueprint: &Blueprint,
    pair: &Pair,
    change: Told,
    standing: &mut Option<StandingNode>,
) {
    match change {
        Told::Anew => *standing = None,
        Told::All(records) => {
            // Its ports are closed before they are opened again.
            drop(standing.take());
            *standing = followed(Node::stand_by(eal, blueprint.clone(), &records));
            pair.built(standing.is_some());
        }
        Told::Changed(changes) => {
            let applied = standing.as_mut().map(|node| node.apply(&changes));
            let applied = applied.and_then(followed);
            if applied != Some(true) {
                *standing = None;
                pair.built(false);
            }
            if applied == Some(false) {
                pair.follow_anew();
            }
        }
        // Nothing is owned yet, or the caller has done it.
        Told::Leave | Told::Own(..) | Told::End(_) => {}
    }
}

/// What came of following the other node; one that cannot is built when it owns the users.
fn followed<T>(outcome: Result<T, BuildError>) -> Option<T> {
    let refused = |error: &BuildError| {
        tracing::warn!("{error}; the node does not follow the other one, and will take over later");
    };
    outcome.inspect_err(refused).ok()
}

fn options(part: Part, node: &str, plan: &StandbyPlan, socket: &Path) -> Result<Options, Failure> {
    Ok(Options {
        transport: part.options(plan.node, node, timing()),
        incarnation: incarnation(&socket.with_extension("incarnation"))?,
        waits: plan.wait,
        bound: plan.buffer,
    })
}

/// Signs of life go often, so a connection that carries none is dead soon.
fn timing() -> Timing {
    Timing {
        greeting: Duration::from_secs(2),
        pause: Duration::from_millis(20),
        pause_most: Duration::from_millis(200),
        alive: Duration::from_millis(500),
        silence: Duration::from_secs(3),
        queue_octets: 64 << 20,
        ..Timing::default()
    }
}

/// What is needed to go on as the owner of the users, once another process gives them away.
pub struct NextOwner {
    successor: Successor,
    options: Options,
}

impl NextOwner {
    /// Of the node of a configuration, if it is one of two.
    ///
    /// # Errors
    /// When it cannot take part.
    pub fn new(
        part: Option<Part>,
        blueprint: &Blueprint,
        socket: &Path,
    ) -> Result<Option<NextOwner>, Failure> {
        let Some(plan) = &blueprint.standby else { return Ok(None) };
        let part = part.ok_or_else(no_controller)?;
        let options = options(part, &blueprint.name, plan, socket)?;
        Ok(Some(NextOwner { successor: Successor::new(plan.buffer), options }))
    }

    /// What is written to `store` goes to the standby from now on.
    pub fn feed_from(&self, store: &mut Store) {
        store.feed_into(self.successor.feed());
    }

    /// Goes on with what the other process has given no sooner than at `since`.
    ///
    /// # Errors
    /// When it cannot.
    pub fn go_on(self, given: &[u8], since: Instant) -> Result<Owning, Failure> {
        let lease = Lease::default();
        let (tell, told) = mpsc::channel();
        let extended = lease.clone();
        let pair = self.successor.go_on(
            self.options,
            (given, since),
            move |one| drop(tell.send(one)),
            move |until| extended.extend(until),
        );
        let pair = pair.map_err(|error| Failure::broken(format!("standby: {error}")))?;
        Ok(Owning { pair, told, lease })
    }
}

/// A node of a pair does nothing without its controller.
pub fn no_controller() -> Failure {
    Failure::input("standby: no controller is given (--handover-controller)")
}

impl Owning {
    /// Gives the users to another process of the node; none where another node has them.
    pub fn give(&self) -> Option<(Vec<u8>, Released)> {
        self.pair.give()
    }

    /// The node carries packets while its lease holds.
    pub fn hold(&self, node: &mut Node) {
        let view = self.pair.view();
        node.agent().hold_by(self.lease.clone(), move || shown(&view()));
    }

    /// How the node's time ends, if it does.
    pub fn ended(&self) -> Option<Ending> {
        match self.told.try_recv() {
            Ok(Told::End(why)) => Some(Ending::Lost(format!("standby: {why}; the node ends"))),
            Ok(Told::Leave) => Some(Ending::Leaves),
            Ok(_) | Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Ending::Lost("the thread standby has ended".to_owned()))
            }
        }
    }

    /// Whether a standby is heard that has all records.
    pub fn has_standby(&self) -> bool {
        let view = self.pair.view()();
        view.hears && view.whole
    }

    /// The node has stopped: its standby gets the rest, and the users.
    pub fn leave(&self) {
        match self.pair.leave(LAST) {
            true => tracing::info!("the standby has all records, and may take over"),
            false => tracing::warn!("the standby does not have all records"),
        }
    }
}

fn shown(view: &PairView) -> StandbyView {
    StandbyView {
        peer: view.peer,
        epoch: view.epoch,
        hears: view.hears,
        whole: view.whole,
        lease: view.lease,
        lag: view.lag,
        waiting: view.waiting,
        answers: view.answers,
        copies: view.copies,
        pieces: view.pieces,
        refused: view.refused,
    }
}
