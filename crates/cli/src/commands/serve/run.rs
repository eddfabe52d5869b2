//! `weft run`: a node, until it is told to stop.

mod beside;
mod handover;
mod leaving;
mod life;
mod orders;
mod questions;
mod settings;
mod share;
mod spare;
mod standby;
mod state;
mod take_over;
mod upgrade;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use clap::ValueEnum;
use weft_dpdk::Eal;
use weft_dpdk::watchdog;
use weft_functions::KINDS;
use weft_management_api::{Listening, Options, socket_path};
use weft_model::Calibration;
use weft_node::{Node, StandingNode};
use weft_node_config::{Blueprint, Overrules, Polling};
use weft_state::Store;
use weft_switch::Child;

use self::handover::Part;
use self::life::{Life, Offered, serve};
use self::share::Mark;
use self::standby::{NextOwner, Owner, Owning};
use self::take_over::Taken;
use self::upgrade::Program;
use super::page::{PageArguments, address};
use super::vf;
use crate::failure::Failure;
use crate::notify::ServiceManager;
use crate::number::counted;
use crate::signals::Termination;
use crate::{environment, node_file};

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
    /// Longest sleep of a worker that polls adaptively, in microseconds
    #[arg(long, value_name = "MICROSECONDS", env = "WEFT_MAX_SLEEP",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_sleep: Option<u32>,
    /// Addresses at which control planes find the node, one or one of each family, such as those
    /// of a pod: in place of `pfcp.listen`
    #[arg(long, value_name = "ADDRESSES", env = "WEFT_PFCP_LISTEN", value_delimiter = ',')]
    pfcp_listen: Vec<IpAddr>,
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
    /// Wait, without users and addresses, until another node behind N4 gives this one its share
    #[arg(long, conflicts_with = "take_over")]
    spare: bool,
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

/// How long function processes may take to come before traffic is taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the node.
///
/// # Errors
/// Whatever keeps it from starting.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let takes_over = arguments.take_over;
    begin_and_run(arguments).inspect_err(|failure| {
        if takes_over {
            upgrade::tell_reason(failure);
        }
    })
}

fn begin_and_run(arguments: Arguments) -> Result<(), Failure> {
    let mut blueprint = node_file::load(&arguments.file)?;
    arguments.overrule(&mut blueprint)?;
    let calibration = arguments.calibration()?;
    let part = arguments.handover.part(&blueprint, &arguments.file)?;
    node_file::warn(&blueprint.warnings);
    let (termination, program) = (Termination::catch()?, Program::of_process());
    let options = arguments.options(&blueprint.name, calibration)?;
    let stands_by = blueprint.standby.is_some();
    let mut claimed = arguments.claim(&options, stands_by)?;
    if let Some(file) = used_keys(arguments.used_keys.clone(), &blueprint.name, &options.socket) {
        weft_functions::ipsec::remember_keys_in(file);
    }
    vf::resolve(&mut blueprint)?;
    let switches = match arguments.take_over {
        false => vf::start_switches(&arguments.file, &blueprint.switches)?,
        true => Vec::new(),
    };
    if arguments.take_over {
        take_over::begin()?;
    }
    let (store, eal) = begin(&blueprint, &arguments)?;
    watchdog::catch_faults().map_err(|error| Failure::broken(format!("signals: {error}")))?;
    let mut manager = ServiceManager::of_environment();
    let (mut part, mut store, mut owning, mut standing) = (part, store, None, None);
    if stands_by && !arguments.take_over {
        let means = (part.take(), store.take());
        let life = (&termination, &mut manager);
        let Some(owner) = stand_by(eal, &blueprint, &options.socket, means, life)? else {
            return Ok(());
        };
        (store, owning, standing) = (Some(owner.store), Some(owner.owning), owner.standing);
        claimed = Some(Listening::claim(&options)?);
    }
    let (mark, mut spare) = (Mark::of(&blueprint.name, &options.socket), None);
    if arguments.spare {
        mark.clear();
        let life = (&termination, &mut manager);
        let Some(taken) = spare::wait(eal, &mut blueprint, part.as_ref(), life)? else {
            return Ok(());
        };
        part.iter_mut().for_each(|part| part.is_at_home = false);
        spare = Some(taken);
    } else if blueprint.site.is_some() {
        mark.check()?;
    }
    let next_owner = match arguments.take_over && stands_by {
        true => NextOwner::new(part.take(), &blueprint, &options.socket)?,
        false => None,
    };
    let ready = summary(&blueprint, eal);
    let described = blueprint.clone();
    let has_node = (claimed.is_some(), store, standing);
    let means = (next_owner, part.as_ref().map(Part::secret));
    let place = (&options, &*arguments.file);
    // Switches go behind the node, whose ports are at them.
    let switches = (switches, owning);
    let Taken { node, waited, owning, switches } = match spare {
        Some(taken) => taken,
        None => build(eal, blueprint, has_node, switches, place, means)?,
    };
    let life = Life { termination, program, manager, owning, switches };
    let offered = Offered { options, claimed, part, described, ready, waited };
    serve(eal, node, offered, life)
}

/// Starts DPDK, and opens the store meanwhile: a large one takes a while to be checked.
fn begin(
    blueprint: &Blueprint,
    arguments: &Arguments,
) -> Result<(Option<Store>, &'static Eal), Failure> {
    let Arguments { file, take_over, without_state, .. } = arguments;
    let (opened, eal) = thread::scope(|scope| {
        let open = || state::open(blueprint, file, *without_state);
        let opening = (!take_over).then(|| scope.spawn(open));
        let eal = environment::start(blueprint, 0);
        (opening.map(ScopedJoinHandle::join), eal)
    });
    let opened = opened.transpose().map_err(|_| Failure::broken("the store: a panic"))?;
    Ok((opened.transpose()?.flatten(), eal?))
}

/// Builds the node, with what it has kept or takes over from another process.
fn build(
    eal: &'static Eal,
    blueprint: Blueprint,
    (is_claimed, store, standing): (bool, Option<Store>, Option<StandingNode>),
    (switches, owning): (Vec<Child>, Option<Owning>),
    (options, file): (&Options, &Path),
    means: (Option<NextOwner>, Option<Vec<u8>>),
) -> Result<Taken, Failure> {
    if !is_claimed {
        return take_over::take(eal, blueprint, (options, file), means);
    }
    let mut node = match (store, standing) {
        (Some(store), Some(standing)) => standing.own(store)?,
        (Some(store), None) => Node::restore(eal, blueprint, store)?,
        (None, _) => Node::build(eal, blueprint)?,
    };
    if let Some(function) = node.wait_for_functions(PATIENCE) {
        tracing::warn!(function, "not attached to its ring yet");
    }
    if let Some(owning) = &owning {
        owning.hold(&mut node);
    }
    Ok(Taken { node, waited: None, owning, switches })
}

/// Stands by until the node owns the users of its pair.
fn stand_by(
    eal: &Eal,
    blueprint: &Blueprint,
    socket: &Path,
    (part, store): (Option<Part>, Option<Store>),
    life: (&Termination, &mut ServiceManager),
) -> Result<Option<Owner>, Failure> {
    let part = part.ok_or_else(standby::no_controller)?;
    let store = store.ok_or_else(|| Failure::input("standby: the node keeps nothing"))?;
    standby::stand_by(eal, (part, blueprint), socket, store, life)
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

    /// How the node of that name is served.
    fn options(&self, node: &str, calibration: Option<Calibration>) -> Result<Options, Failure> {
        Ok(Options {
            node: node.to_owned(),
            socket: self.socket.clone().unwrap_or_else(|| socket_path(node)),
            metrics: self.metrics,
            page: self.page.options()?,
            kinds: KINDS,
            calibration,
        })
    }

    /// Claims the node's sockets before ports are opened: a second node of this name must not
    /// touch them. One that stands by claims them when it owns the users; its store is its own
    /// until then.
    fn claim(&self, options: &Options, stands_by: bool) -> Result<Option<Listening>, Failure> {
        let claims = !self.take_over && !stands_by;
        Ok(claims.then(|| Listening::claim(options)).transpose()?)
    }

    /// Flags and environment before the file.
    fn overrule(&self, blueprint: &mut Blueprint) -> Result<(), Failure> {
        let polling = self.polling.map(|how| match how {
            HowToPoll::Busy => Polling::Busy,
            HowToPoll::Adaptive => Polling::Adaptive,
        });
        let cores = self.cores.as_ref().map(|Cores(cores)| cores.clone());
        if let Some(cores) = cores.as_ref().filter(|cores| cores.len() != blueprint.workers.count) {
            let workers = counted(blueprint.workers.count as u64, "worker");
            let cores = counted(cores.len() as u64, "core");
            return Err(Failure::input(format!("the node has {workers}, --cores names {cores}")));
        }
        blueprint.workers.overrule(&Overrules { cores, polling, max_sleep_us: self.max_sleep });
        self.overrule_pfcp(blueprint)
    }

    fn overrule_pfcp(&self, blueprint: &mut Blueprint) -> Result<(), Failure> {
        let listen = &*self.pfcp_listen;
        if listen.is_empty() {
            return Ok(());
        }
        let wrong = |message: &str| Err(Failure::input(format!("--pfcp-listen: {message}")));
        let Some(pfcp) = &mut blueprint.pfcp else {
            return wrong("the node has no control planes: its configuration has no `pfcp`");
        };
        if let Some(address) = listen.iter().find(|one| one.is_unspecified() || one.is_multicast())
        {
            return wrong(&format!(
                "{address} is no address of one machine: responses come from the address that \
                 requests go to"
            ));
        }
        let of_version_4 = listen.iter().filter(|address| address.is_ipv4()).count();
        if of_version_4 > 1 || listen.len() - of_version_4 > 1 {
            return wrong("there is at most one address of each family");
        }
        pfcp.overrule_listen(listen);
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
