//! The life of a node that is built: it is served, looked after and ended.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weft_dpdk::Eal;
use weft_dpdk::watchdog::{self, Trouble, Watchdog};
use weft_management_api::{Listening, Options, Serving};
use weft_node::{GivenShare, HandedOver, Handle, Node, Running};
use weft_node_config::Blueprint;
use weft_pfcp::Server;
use weft_switch::Child;

use super::beside::Beside;
use super::handover::Part;
use super::leaving::LastRounds;
use super::orders::Orders;
use super::share::{self, Gone};
use super::standby::{Ending, Owning};
use super::take_over;
use super::upgrade::{Program, Upgrades};
use crate::commands::client::show;
use crate::failure::Failure;
use crate::notify::ServiceManager;
use crate::output;
use crate::signals::Termination;

/// How often the threads of API and handovers are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often the last rounds of checkpoints are looked at.
const LOOK_AT_ROUNDS: Duration = Duration::from_millis(5);

/// How often it is said again where the addresses of a share are, and how long after another.
const ANNOUNCEMENTS: usize = 3;
const BETWEEN_ANNOUNCEMENTS: Duration = Duration::from_secs(1);

/// How long control planes may take to release their associations when the node stops.
const RELEASE: Duration = Duration::from_secs(1);

/// What ends a node, or speaks of it to those who do.
pub struct Life {
    pub termination: Termination,
    pub program: Program,
    pub manager: ServiceManager,
    /// The node's lease, where another stands by.
    pub owning: Option<Owning>,
    /// They go behind the node, whose ports are at them.
    pub switches: Vec<Child>,
}

/// What a node is served with.
pub struct Offered {
    pub options: Options,
    /// The node's sockets, where it does not take another over, which has them.
    pub claimed: Option<Listening>,
    pub part: Option<Part>,
    pub described: Blueprint,
    /// The line that says that it is ready.
    pub ready: String,
    pub waited: Option<Duration>,
}

/// Runs a node that is built until it is told to stop, or another process has it.
pub fn serve(
    eal: &'static Eal,
    mut node: Node,
    offered: Offered,
    life: Life,
) -> Result<(), Failure> {
    let Life { termination, program, manager, owning, switches } = life;
    let Offered { options, claimed, part, described, ready, waited } = offered;
    let events = node.take_events();
    let mut running = node.start(eal).map_err(no_thread)?;
    let handle = running.handle();
    let (places, serving) = match listen(&options, claimed, &handle) {
        Ok(serving) => serving,
        Err(failure) => {
            running.stop();
            return Err(failure);
        }
    };
    // Before the node says that it is ready: a request that comes at once is not to be turned away.
    let (requests, starter) = serving.upgrades();
    let mut upgrades = Upgrades::new(requests, program, manager.clone(), serving.socket());
    let orders = Orders { starter, ends: Arc::default() };
    if part.as_ref().is_some_and(|part| !part.is_at_home) {
        announce_again(handle.clone())?;
    }
    if let Some(waited) = waited {
        let milliseconds = waited.as_secs_f64() * 1e3;
        tracing::info!(milliseconds, "the node was taken over; so long packets have waited");
    }
    let beside =
        match Beside::start((part, &described), serving.socket(), &handle, (events, &orders)) {
            Ok(beside) => beside,
            Err(failure) => {
                stop(serving, running, || ())?;
                return Err(failure);
            }
        };
    if let Some(pfcp) = &beside.pfcp {
        serving.show_pfcp(pfcp.handle());
    }
    if let Some(speaker) = &beside.speaker {
        serving.show_bgp(speaker.watch());
    }
    if let Some(joined) = &beside.joined {
        serving.ready_unless(joined.hindrance());
    }
    // The node runs on when its output is closed.
    let _ = output::line(&line_of(&ready, serving.socket(), places));
    manager.ready();
    let _watchdog = watch(described.watchdog, manager.clone())?;
    let means = (&termination, owning.as_ref(), &*orders.ends);
    let attended = attend(eal, &mut running, &mut upgrades, means, (&beside, &serving));
    let why = attended.why_it_starts_again();
    if matches!(attended, Attended::Leaves) {
        beside.leave_routes();
    }
    let reason = match attended {
        Attended::Signal(signal) => signal,
        Attended::Leaves | Attended::Ends => "the word of the controller",
        Attended::HandedOver(handed_over) => {
            return leave(running, handed_over, (beside, serving), switches);
        }
        Attended::Share(Gone::Given(given)) => return leave_share(given, running, beside, serving),
        Attended::Share(Gone::Elsewhere(holder)) => {
            let _ = share::elsewhere(&holder, None).report();
            watchdog::end_process()
        }
    };
    tracing::info!("stopping after {reason}");
    manager.stopping();
    if let Some(pfcp) = &beside.pfcp {
        end_requests(pfcp, described.state.is_some());
    }
    drop(beside);
    let stopped = end(serving, running, owning.as_ref());
    match why {
        Some(why) => stopped.and(Err(Failure::broken(why))),
        None => stopped,
    }
}

/// Ends what control planes have asked for, and tells them what is measured already. Sessions that
/// are kept go on with the node's next life; others end.
fn end_requests(pfcp: &Server, are_kept: bool) {
    if !are_kept {
        pfcp.release(RELEASE);
    } else if let Err(error) = pfcp.pause() {
        tracing::warn!("PFCP: {error}: requests are under way as the node stops");
    }
}

/// Where metrics and the page are, if they are.
type Places = (Option<SocketAddr>, Option<String>);

/// The line that says that a node is ready, and where it is served.
fn line_of(ready: &str, socket: &Path, (metrics, page): Places) -> String {
    let metrics = metrics.map_or(String::new(), |address| format!(", metrics {address}"));
    let page = page.map_or(String::new(), |url| format!(", page {url}"));
    format!("{ready}; socket {}{metrics}{page}", socket.display())
}

/// Serves the API of a node at its sockets.
fn listen(
    options: &Options,
    claimed: Option<Listening>,
    handle: &Handle,
) -> Result<(Places, Serving), Failure> {
    let listening = claimed.map_or_else(|| take_over::claim(options), Ok)?;
    let places = (listening.metrics(), listening.page());
    Ok((places, listening.serve(handle.clone())?))
}

/// How the time of a node in this process ends.
enum Attended {
    /// It is told to stop.
    Signal(&'static str),
    /// It is to give the users to its standby.
    Leaves,
    /// The program that is installed is to run in its place.
    Ends,
    /// Another process has it.
    HandedOver(HandedOver),
    /// Another node has its share.
    Share(Gone),
}

impl Attended {
    /// What is said where the exit code is to make a service manager start the node again.
    fn why_it_starts_again(&self) -> Option<&'static str> {
        match self {
            // It stands by then.
            Attended::Leaves => Some(
                "standby: the users go to the other node by the word of the controller; the node \
                 ends",
            ),
            Attended::Ends => {
                Some("the site is upgraded, and this node has no users; the node ends")
            }
            Attended::Signal(_) | Attended::HandedOver(_) | Attended::Share(_) => None,
        }
    }
}

/// Looks after a running node until its time here ends.
fn attend(
    eal: &'static Eal,
    running: &mut Running,
    upgrades: &mut Upgrades,
    (termination, owning, ends): (&Termination, Option<&Owning>, &AtomicBool),
    (beside, serving): (&Beside, &Serving),
) -> Attended {
    let mut leaving: Option<(Attended, LastRounds)> = None;
    loop {
        if leaving.is_none()
            && let Some(handed_over) = upgrades.look_after(eal, running, (beside, owning))
        {
            return Attended::HandedOver(handed_over);
        }
        let shares = beside.joined.as_ref().map(|joined| &joined.shares);
        let gone = shares.and_then(|one| one.look_after(eal, running, beside.pfcp.as_ref()));
        if let Some(gone) = gone {
            return Attended::Share(gone);
        }
        if ends.load(Ordering::Relaxed) {
            return Attended::Ends;
        }
        let look = if leaving.is_some() { LOOK_AT_ROUNDS } else { LOOK };
        let signal = termination.wait_for(look).map(Attended::Signal);
        // Who asks a second time does not want to wait.
        if let Some(signal) = signal {
            match owning.filter(|owning| leaving.is_none() && owning.has_standby()) {
                Some(_) => leaving = Some((signal, LastRounds::begin(running.handle()))),
                None => return signal,
            }
        }
        match owning.and_then(Owning::ended) {
            Some(Ending::Lost(why)) => {
                // What is in flight must not leave: the other node has the users.
                let _ = Failure::broken(why).report();
                watchdog::end_process();
            }
            Some(Ending::Leaves) => {
                let rounds = || (Attended::Leaves, LastRounds::begin(running.handle()));
                leaving.get_or_insert_with(rounds);
            }
            None => {}
        }
        if let Some((why, _)) = leaving.take_if(|(_, rounds)| rounds.are_over()) {
            return why;
        }
        if let Some(thread) = serving.dead().or_else(|| beside.dead()) {
            end_at_once(Trouble::Ended { thread: thread.to_owned() });
        }
    }
}

/// Ends the node when one of its threads ends, or does not come back from a function. Tells
/// the service manager that neither is so.
fn watch(limit: Option<Duration>, mut manager: ServiceManager) -> Result<Watchdog, Failure> {
    Watchdog::start(limit, end_at_once, move || manager.alive()).map_err(no_thread)
}

/// Ends the process, whatever its threads do: who started it starts it again.
fn end_at_once(trouble: Trouble) {
    let _ = Failure::broken(format!("{trouble}: the node ends")).report();
    watchdog::end_process();
}

fn no_thread(error: io::Error) -> Failure {
    Failure::broken(format!("no thread for the node: {error}"))
}

/// Ends the process whose node another one has: its sockets first, which that one waits for.
fn leave(
    running: Running,
    handed_over: HandedOver,
    (beside, serving): (Beside, Serving),
    switches: Vec<Child>,
) -> Result<(), Failure> {
    let milliseconds = handed_over.waited.as_secs_f64() * 1e3;
    let process = handed_over.process;
    tracing::info!(process, milliseconds, "another process has the node");
    if let Some(closed) = handed_over.closed {
        let milliseconds = closed.as_secs_f64() * 1e3;
        tracing::info!(milliseconds, "so long no process had the ports open");
    }
    // Routers keep what was announced until that process speaks to them.
    beside.leave_routes();
    drop(beside);
    serving.stop();
    running.leave_and(handed_over, || drop(switches));
    // Without a destructor: what is left belongs to the other process, too.
    std::process::exit(0);
}

/// Says again, some times, that the addresses of a share are here: frames may be lost.
fn announce_again(handle: Handle) -> Result<(), Failure> {
    let work = move || {
        for _ in 0..ANNOUNCEMENTS {
            thread::sleep(BETWEEN_ANNOUNCEMENTS);
            // The node may have stopped.
            let _ = handle.ask(|agent| agent.announce());
        }
    };
    thread::Builder::new().name("announce".to_owned()).spawn(work).map(drop).map_err(no_thread)
}

/// Ends the process whose share another node has, once nothing comes any more that is that node's.
fn leave_share(
    given: GivenShare,
    running: Running,
    beside: Beside,
    serving: Serving,
) -> Result<(), Failure> {
    let milliseconds = given.waited.as_secs_f64() * 1e3;
    let dropped = given.dropped;
    tracing::info!(
        milliseconds,
        dropped,
        "another node has the share; so long packets have waited"
    );
    // Routers keep what was announced until that node speaks to them.
    beside.leave_routes();
    drop(beside);
    serving.stop();
    given.finish();
    let _ = output::line("another node has the share; the node ends");
    // The last that is seen of its counters.
    if let Ok(snapshot) = running.handle().ask(|agent| agent.snapshot()) {
        let _ = output::print(&show::statistics(&snapshot));
    }
    // Without a destructor: nothing of the node is carried any more.
    std::process::exit(0);
}

/// Ends the node. Its standby has the rest and the users before anything is closed.
fn end(serving: Serving, running: Running, owning: Option<&Owning>) -> Result<(), Failure> {
    let has_left = Cell::new(false);
    let leave = || {
        if let Some(owning) = owning.filter(|_| !has_left.replace(true)) {
            owning.leave();
        }
    };
    let stopped = stop(serving, running, leave);
    // Where the node has not come to its end.
    leave();
    stopped
}

/// Stops the node and prints what was counted; `kept` is called once all of it is durable.
fn stop(serving: Serving, running: Running, kept: impl FnOnce()) -> Result<(), Failure> {
    serving.stop();
    let snapshot =
        running.stop_and(kept).ok_or_else(|| Failure::broken("the node did not stop whole"))?;
    output::print(&show::statistics(&snapshot))
}
