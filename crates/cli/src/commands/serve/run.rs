//! `weft run`: a node, until it is told to stop.

mod handover;
mod settings;
mod standby;
mod state;
mod take_over;
mod upgrade;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use weft_dpdk::Eal;
use weft_dpdk::watchdog::{self, Trouble, Watchdog};
use weft_function::Events;
use weft_functions::KINDS;
use weft_ipfix::Exporter;
use weft_management_api::{Listening, Options, Serving, socket_path};
use weft_model::Calibration;
use weft_node::{HandedOver, Handle, Node, Running};
use weft_node_config::{Blueprint, Polling};
use weft_pfcp::Server;
use weft_state::Store;

use self::handover::{Joined, Part};
use self::standby::Owning;
use self::upgrade::{Program, Upgrades};
use super::page::{PageArguments, address};
use super::vf;
use crate::commands::client::show;
use crate::failure::Failure;
use crate::notify::ServiceManager;
use crate::number::counted;
use crate::signals::Termination;
use crate::{environment, node_file, output};

#[derive(clap::Args)]
pub struct Arguments {
    /// Configuration of the node
    #[arg(value_name = "NODE.yaml")]
    file: PathBuf,
    /// Serve Prometheus metrics at this address, such as 127.0.0.1:9470
    #[arg(long, value_name = "ADDRESS", env = "WEFT_METRICS", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// The node's socket, where not at its usual place
    #[arg(long, value_name = "PATH", env = "WEFT_SOCKET")]
    socket: Option<PathBuf>,
    /// Processor core of each worker, such as 2,4-6
    #[arg(long, value_name = "LIST", env = "WEFT_CORES", value_parser = cores)]
    cores: Option<Cores>,
    /// What workers do while there is nothing to do
    #[arg(long, value_name = "HOW", env = "WEFT_POLLING")]
    polling: Option<HowToPoll>,
    /// Where IPsec keys are remembered that were used, so that they are refused after a
    /// restart; `none` remembers nothing. Without it NODE.used-keys in $STATE_DIRECTORY, or
    /// beside the socket
    #[arg(long, value_name = "FILE", env = "WEFT_USED_KEYS")]
    used_keys: Option<PathBuf>,
    #[command(flatten)]
    page: PageArguments,
    /// What packets cost on this machine, as `weft bench calibrate` writes it: the page and
    /// `weft top` predict by it what the node could carry
    #[arg(long, value_name = "FILE", env = "WEFT_CALIBRATION")]
    calibration: Option<PathBuf>,
    /// Begin anew: what the node has kept is put aside (`state` in the configuration)
    #[arg(long)]
    without_state: bool,
    /// Take the node over from the process that runs it, with all users, while packets pass
    #[arg(long, conflicts_with = "without_state")]
    take_over: bool,
    #[command(flatten)]
    handover: handover::HandoverArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum HowToPoll {
    /// Ask again at once: lowest delay, a whole core
    Busy,
    /// Sleep after a while
    Adaptive,
}

#[derive(Clone)]
struct Cores(Vec<usize>);

/// How often the threads of API and handovers are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long control planes may take to release their associations when the node stops.
const RELEASE: Duration = Duration::from_secs(1);

/// How long function processes may take to come before traffic is taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the node.
///
/// # Errors
/// Whatever keeps it from starting.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut blueprint = node_file::load(&arguments.file)?;
    arguments.overrule(&mut blueprint)?;
    let calibration = arguments.calibration()?;
    let part = arguments.handover.part(&blueprint, &arguments.file)?;
    node_file::warn(&blueprint.warnings);
    let (termination, program) = (Termination::catch()?, Program::of_process());
    let socket = arguments.socket.clone().unwrap_or_else(|| socket_path(&blueprint.name));
    let options = Options {
        node: blueprint.name.clone(),
        socket: socket.clone(),
        metrics: arguments.metrics,
        page: arguments.page.options()?,
        kinds: KINDS,
        calibration,
    };
    // Before ports are opened: a second node of this name must not touch them.
    // One that stands by claims it when it owns the users; its store is its own until then.
    let stands_by = blueprint.standby.is_some();
    if stands_by && arguments.take_over {
        let why = "--take-over: the node has a standby (`standby`); stop it, and that takes over";
        return Err(Failure::input(why));
    }
    let claims = !arguments.take_over && !stands_by;
    let mut claimed = claims.then(|| Listening::claim(&options)).transpose()?;
    if let Some(file) = used_keys(arguments.used_keys.clone(), &blueprint.name, &socket) {
        weft_functions::ipsec::remember_keys_in(file);
    }
    let anew = arguments.without_state;
    let opens = !arguments.take_over;
    let opened = opens.then(|| state::open(&blueprint, &arguments.file, anew));
    let store = opened.transpose()?.flatten();
    vf::resolve(&mut blueprint)?;
    // They go behind the node, whose ports are at them.
    let _switches = match arguments.take_over {
        false => vf::start_switches(&arguments.file, &blueprint.switches)?,
        true => Default::default(),
    };
    let eal = environment::start(&blueprint, 0)?;
    watchdog::catch_faults().map_err(|error| Failure::broken(format!("signals: {error}")))?;
    let mut manager = ServiceManager::of_environment();
    let (mut part, mut store, mut owning) = (part, store, None);
    if stands_by {
        let means = (part.take(), store.take());
        let life = (&termination, &mut manager);
        let Some((had, owns)) = stand_by(&blueprint, &socket, means, life)? else {
            return Ok(());
        };
        (store, owning) = (Some(had), Some(owns));
        claimed = Some(Listening::claim(&options)?);
    }
    let ready = summary(&blueprint, eal);
    let described = blueprint.clone();
    let (mut node, waited) = match (&claimed, store) {
        (None, _) => {
            let (node, waited) = take_over::take(eal, blueprint, &options, &arguments.file)?;
            (node, Some(waited))
        }
        (_, Some(store)) => (Node::restore(eal, blueprint, store)?, None),
        (_, None) => (Node::build(eal, blueprint)?, None),
    };
    if waited.is_none()
        && let Some(function) = node.wait_for_functions(PATIENCE)
    {
        tracing::warn!(function, "not attached to its ring yet");
    }
    if let Some(owning) = &owning {
        owning.hold(&mut node);
    }
    let events = node.take_events();
    let mut running = node.start(eal).map_err(no_thread)?;
    let handle = running.handle();
    let serving = claimed.map_or_else(|| take_over::claim(&options), Ok).and_then(|listening| {
        let places = (listening.metrics(), listening.page());
        Ok((places, listening.serve(handle.clone())?))
    });
    let ((metrics, page), serving) = match serving {
        Ok(serving) => serving,
        Err(failure) => {
            running.stop();
            return Err(failure);
        }
    };
    if let Some(waited) = waited {
        let milliseconds = waited.as_secs_f64() * 1e3;
        tracing::info!(milliseconds, "the node was taken over; so long packets have waited");
    }
    let beside = match Beside::start((part, &described), serving.socket(), &handle, events) {
        Ok(beside) => beside,
        Err(failure) => {
            stop(serving, running)?;
            return Err(failure);
        }
    };
    if let Some(pfcp) = &beside.pfcp {
        serving.show_pfcp(pfcp.handle());
    }
    let metrics = metrics.map_or(String::new(), |address| format!(", metrics {address}"));
    let page = page.map_or(String::new(), |url| format!(", page {url}"));
    let ready = format!("{ready}; socket {}{metrics}{page}", serving.socket().display());
    // The node runs on when its output is closed.
    let _ = output::line(&ready);
    manager.ready();
    let _watchdog = watch(described.watchdog, manager.clone())?;
    let mut upgrades = Upgrades::new(serving.upgrades(), program, manager.clone());
    let signal = loop {
        if let Some(handed_over) = upgrades.look_after(eal, &mut running, &beside) {
            return leave(running, handed_over, (beside, serving));
        }
        if let Some(signal) = termination.wait_for(LOOK) {
            break signal;
        }
        if let Some(why) = owning.as_ref().and_then(Owning::ended) {
            // What is in flight must not leave: the other node has the users.
            let _ = Failure::broken(why).report();
            watchdog::end_process();
        }
        if let Some(thread) = serving.dead().or_else(|| beside.dead()) {
            end_at_once(Trouble::Ended { thread: thread.to_owned() });
        }
    };
    tracing::info!("stopping after {signal}");
    manager.stopping();
    // Sessions that are kept go on with the node's next life.
    if let Some(pfcp) = beside.pfcp.as_ref().filter(|_| described.state.is_none()) {
        pfcp.release(RELEASE);
    }
    drop(beside);
    let stopped = stop(serving, running);
    if let Some(owning) = owning {
        owning.leave();
    }
    stopped
}

/// Stands by until the node owns the users of its pair.
fn stand_by(
    blueprint: &Blueprint,
    socket: &Path,
    (part, store): (Option<Part>, Option<Store>),
    life: (&Termination, &mut ServiceManager),
) -> Result<Option<(Store, Owning)>, Failure> {
    let Some(part) = part else {
        let why = "standby: no controller is given (--handover-controller)";
        return Err(Failure::input(why));
    };
    let store = store.ok_or_else(|| Failure::input("standby: the node keeps nothing"))?;
    standby::stand_by((part, blueprint), socket, store, life)
}

/// What asks the agent of a node, and ends before it: in the order of the fields.
struct Beside {
    /// Control planes.
    pfcp: Option<Server>,
    /// Moves of users.
    joined: Option<Joined>,
    /// A collector of IPFIX.
    exporter: Option<Exporter>,
}

impl Beside {
    /// Starts what the configuration has; the node's part in moves was prepared before.
    fn start(
        (part, blueprint): (Option<Part>, &Blueprint),
        socket: &Path,
        handle: &Handle,
        events: Option<Events>,
    ) -> Result<Beside, Failure> {
        let joined = part.map(|part| part.take(blueprint, socket, handle)).transpose()?;
        let pfcp = blueprint.pfcp.as_ref();
        let pfcp = pfcp.map(|plan| Server::start(plan, handle.clone()));
        let pfcp = pfcp.transpose().map_err(Failure::input)?;
        let (name, plan) = (blueprint.name.clone(), blueprint.ipfix.clone());
        let exporter = plan.map(|plan| Exporter::start(plan, name, handle.clone(), events));
        let exporter = exporter.transpose().map_err(Failure::broken)?;
        Ok(Beside { pfcp, joined, exporter })
    }

    /// The name of a thread that has ended by itself.
    fn dead(&self) -> Option<&str> {
        let pfcp = self.pfcp.as_ref().filter(|pfcp| pfcp.is_finished()).map(|_| "pfcp");
        let exporter = self.exporter.as_ref().filter(|exporter| exporter.is_dead());
        self.joined.as_ref().and_then(Joined::dead).or(pfcp).or(exporter.map(|_| "ipfix"))
    }
}

/// Where used keys are remembered, if at all: where systemd has made a folder for what
/// lasts, it outlives the machine.
fn used_keys(wanted: Option<PathBuf>, node: &str, socket: &Path) -> Option<PathBuf> {
    match wanted {
        Some(file) if file.as_os_str() == "none" => None,
        Some(file) => Some(file),
        None => {
            let folders = std::env::var_os("STATE_DIRECTORY");
            let folder = folders.and_then(|all| std::env::split_paths(&all).next());
            let lasts = folder.map(|folder| folder.join(format!("{node}.used-keys")));
            Some(lasts.unwrap_or_else(|| socket.with_extension("used-keys")))
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
) -> Result<(), Failure> {
    let milliseconds = handed_over.waited.as_secs_f64() * 1e3;
    let process = handed_over.process;
    tracing::info!(process, milliseconds, "another process has the node");
    drop(beside);
    serving.stop();
    running.leave(handed_over);
    // Without a destructor: what is left belongs to the other process, too.
    std::process::exit(0);
}

/// Stops the node and prints what was counted.
fn stop(serving: Serving, running: Running) -> Result<(), Failure> {
    serving.stop();
    let snapshot = running.stop().ok_or_else(|| Failure::broken("the node did not stop whole"))?;
    output::print(&show::statistics(&snapshot))
}

fn summary(blueprint: &Blueprint, eal: &Eal) -> String {
    let users: u64 = blueprint.users.iter().map(|users| u64::from(users.count)).sum();
    let pages = if eal.has_huge_pages() { "huge pages" } else { "no huge pages" };
    format!(
        "node {} is ready: {}, {}, {}, {pages}",
        blueprint.name,
        counted(blueprint.ports.len() as u64, "port"),
        counted(users, "user"),
        counted(blueprint.workers.count as u64, "worker"),
    )
}

impl Arguments {
    /// The calibration that was named.
    fn calibration(&self) -> Result<Option<Calibration>, Failure> {
        self.calibration.as_deref().map(Calibration::load).transpose().map_err(Failure::input)
    }

    /// Flags and environment before the file.
    fn overrule(&self, blueprint: &mut Blueprint) -> Result<(), Failure> {
        match self.polling {
            Some(HowToPoll::Busy) => blueprint.workers.polling = Polling::Busy,
            Some(HowToPoll::Adaptive) => blueprint.workers.polling = Polling::Adaptive,
            None => {}
        }
        let Some(Cores(cores)) = &self.cores else { return Ok(()) };
        if cores.len() != blueprint.workers.count {
            let workers = counted(blueprint.workers.count as u64, "worker");
            let cores = counted(cores.len() as u64, "core");
            return Err(Failure::input(format!("the node has {workers}, --cores names {cores}")));
        }
        blueprint.workers.cores = Some(cores.clone());
        Ok(())
    }
}

/// `2,4-6` is 2, 4, 5 and 6.
fn cores(text: &str) -> Result<Cores, String> {
    const MOST: usize = 1024;
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|core| *core < MOST);
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => cores.extend(first..=last),
            _ => return Err(format!("`{part}` is neither a core nor a range of cores")),
        }
    }
    Ok(Cores(cores))
}

#[cfg(test)]
mod tests {
    use super::cores;

    #[test]
    fn cores_are_single_ones_and_ranges() {
        assert_eq!(cores("2,4-6").unwrap().0, [2, 4, 5, 6]);
        for wrong in ["", "2,", "6-4", "a", "1-", "99999"] {
            assert!(cores(wrong).is_err(), "{wrong}");
        }
    }
}
