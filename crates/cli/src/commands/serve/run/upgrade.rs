//! Another process is to have the node: as it asks, or as this one starts it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

use weft_dpdk::Eal;
use weft_management_api::UpgradeRequest;
use weft_management_api::api::{PortsWent, Upgraded};
use weft_node::bearer::session::Keep;
use weft_node::{HandedOver, PortTransfer, Running};
use weft_pfcp::Server;

use super::beside::Beside;
use super::standby::Owning;
use crate::failure::Failure;
use crate::notify::ServiceManager;

/// How long the other process may take to connect, and how often it is looked for.
const CONNECTING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// How long the answer to who has asked for an upgrade may take to leave.
const ANSWERING: Duration = Duration::from_millis(500);
/// How long a program that was started may take to have the node: less than who waits for that.
const TAKING_OVER: Duration = Duration::from_secs(140);
/// How long one may take to end that was told that it does not get the node.
const ENDING: Duration = Duration::from_secs(10);
/// Where a program that was started says why it has not taken the node over.
const REASON: &str = "WEFT_TAKE_OVER_REASON";
/// Octets of that.
const LONGEST: u64 = 2000;

/// The program of this process as it was started: what is installed there later is another one.
#[derive(Debug)]
pub struct Program {
    path: io::Result<PathBuf>,
    arguments: Vec<OsString>,
}

impl Program {
    /// That of this process.
    pub fn of_process() -> Program {
        let given = env::args_os().skip(1);
        let passing = ["--take-over", "--without-state"];
        let mut arguments: Vec<_> =
            given.filter(|one| passing.iter().all(|passing| one != passing)).collect();
        arguments.push("--take-over".into());
        Program { path: env::current_exe(), arguments }
    }

    /// Starts it; it says in the file `reason` why it does not get the node.
    fn start(&self, reason: &Path) -> Result<Child, String> {
        let path = self.path.as_ref().map_err(|error| format!("the program: {error}"))?;
        weft_dpdk::keep_from_children().map_err(|error| format!("its descriptors: {error}"))?;
        // One of an earlier process of this number.
        let _ = fs::remove_file(reason);
        let mut command = Command::new(path);
        // The new process tells the service manager itself that it is alive.
        command.args(&self.arguments).env_remove("WATCHDOG_PID").env(REASON, reason);
        command.spawn().map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Tells the process that has started this one, if one has, why it does not get the node.
pub fn tell_reason(failure: &Failure) {
    let Some(file) = env::var_os(REASON) else { return };
    let (Failure::Input(reason) | Failure::Mistakes(reason) | Failure::Broken(reason)) = failure
    else {
        return;
    };
    // Where it cannot be written, the log has it.
    let _ = fs::write(file, reason.lines().next().unwrap_or_default());
}

/// A program that was started to take the node over.
struct Started {
    child: Child,
    told: Told,
    since: Instant,
}

/// What becomes of requests for the node.
pub struct Upgrades {
    requests: Receiver<UpgradeRequest>,
    program: Program,
    manager: ServiceManager,
    /// Where a program that was started says why it has failed.
    reason: PathBuf,
    started: Option<Started>,
    /// Those that do not get the node, and when they are to have ended.
    ending: Vec<(Child, Instant)>,
}

/// What speaks for the node, while another process may have it.
struct Given<'a> {
    beside: &'a Beside,
    manager: &'a ServiceManager,
    owning: Option<&'a Owning>,
    /// The other process may have the users of a pair.
    pair: Option<weft_mobility_standby::Released>,
}

impl weft_node::Beside for Given<'_> {
    fn pause(&mut self) -> Result<Vec<Keep>, String> {
        self.beside.pfcp.as_ref().map_or(Ok(Vec::new()), Server::pause)
    }

    fn resume(&mut self) {
        if let Some(pfcp) = &self.beside.pfcp {
            pfcp.resume();
        }
        if let Some(pair) = self.pair.take() {
            pair.resume();
        }
    }

    fn before_yours(&mut self, process: u32, _: usize) -> Result<Vec<u8>, String> {
        let mut goes_on_with = Vec::new();
        if let Some(owning) = self.owning {
            let (octets, pair) =
                owning.give().ok_or("standby: the node does not own the users any more")?;
            (goes_on_with, self.pair) = (octets, Some(pair));
        }
        self.manager.has_main_process(process);
        Ok(goes_on_with)
    }
}

/// Told what came of it.
type Told = Box<dyn FnOnce(Result<Upgraded, String>)>;

impl Upgrades {
    /// Takes `requests` for the node at `socket` from now on.
    pub fn new(
        requests: Receiver<UpgradeRequest>,
        program: Program,
        manager: ServiceManager,
        socket: &Path,
    ) -> Upgrades {
        let reason = socket.with_extension(format!("refused-{}", process::id()));
        Upgrades { requests, program, manager, reason, started: None, ending: Vec::new() }
    }

    /// Does what is asked for. Another process has the node where something is returned.
    pub fn look_after(
        &mut self,
        eal: &'static Eal,
        running: &mut Running,
        (beside, owning): (&Beside, Option<&Owning>),
    ) -> Option<HandedOver> {
        self.look_at_started();
        match self.requests.try_recv().ok()? {
            UpgradeRequest::Start(told) => {
                let told: Told = Box::new(move |outcome| drop(told.send(outcome)));
                if self.started.is_some() {
                    told(Err("another process is taking the node over already".to_owned()));
                    return None;
                }
                match self.program.start(&self.reason) {
                    Ok(child) => {
                        self.started = Some(Started { child, told, since: Instant::now() });
                    }
                    Err(why) => told(Err(why)),
                }
                None
            }
            UpgradeRequest::TakeOver(listener, path) => {
                let stream = accept(&listener);
                let _ = fs::remove_file(path);
                let asks = stream.as_ref().ok().and_then(process_of);
                let outcome = stream.map_err(|error| format!("nothing connects: {error}"));
                let outcome = outcome
                    .and_then(|stream| self.hand_over(eal, (running, beside, owning), stream));
                if let Err(why) = &outcome {
                    tracing::warn!("the node was not taken over: {why}");
                }
                self.tell_outcome(&outcome, asks);
                outcome.ok()
            }
        }
    }

    /// Whether the program that was started has ended or is late, and those before it.
    fn look_at_started(&mut self) {
        let now = Instant::now();
        self.ending.retain_mut(|(child, until)| match child.try_wait() {
            Ok(None) if now < *until => true,
            Ok(None) => {
                end(child);
                false
            }
            _ => false,
        });
        let Some(started) = &mut self.started else { return };
        if let Ok(Some(status)) = started.child.try_wait() {
            let why = reason_in(&self.reason)
                .unwrap_or_else(|| format!("the new program has ended: {status}; see the log"));
            self.tell(Err(why));
        } else if started.since.elapsed() >= TAKING_OVER {
            let seconds = TAKING_OVER.as_secs();
            self.tell(Err(format!("the new program has not asked for the node in {seconds} s")));
        }
    }

    fn hand_over(
        &self,
        eal: &'static Eal,
        (running, beside, owning): (&mut Running, &Beside, Option<&Owning>),
        stream: UnixStream,
    ) -> Result<HandedOver, String> {
        let mut given = Given { beside, manager: &self.manager, owning, pair: None };
        let outcome = running.hand_over(eal, stream, &mut given);
        outcome.map_err(|error| error.to_string())
    }

    /// Tells who waits for the process that was started what has come of the process `asks`,
    /// which may be another one: that hears itself how it went.
    fn tell_outcome(&mut self, outcome: &Result<HandedOver, String>, asks: Option<u32>) {
        let is_started =
            self.started.as_ref().is_some_and(|started| asks == Some(started.child.id()));
        match outcome {
            Ok(HandedOver { waited, dropped, process, transfer, closed, .. }) => {
                let is_told = self.started.is_some();
                self.tell(match is_started {
                    true => Ok(Upgraded {
                        process: *process,
                        waited: waited.as_nanos() as u64,
                        dropped: *dropped as u64,
                        ports: went(*transfer, *closed),
                    }),
                    false => Err(format!("process {process} has taken the node over meanwhile")),
                });
                // This process ends. What it has started must not ask for the node later.
                self.end_all();
                if is_told {
                    thread::sleep(ANSWERING);
                }
            }
            Err(why) if is_started => self.tell(Err(why.clone())),
            Err(_) => {}
        }
    }

    fn tell(&mut self, outcome: Result<Upgraded, String>) {
        if let Some(Started { child, told, .. }) = self.started.take() {
            let _ = fs::remove_file(&self.reason);
            if outcome.is_err() {
                // One that was told why says so and ends by itself.
                self.ending.push((child, Instant::now() + ENDING));
            }
            told(outcome);
        }
    }

    /// Ends all that were started and do not have the node.
    fn end_all(&mut self) {
        let started = self.started.take().map(|started| started.child);
        let ending = self.ending.drain(..).map(|(child, _)| child);
        ending.chain(started).for_each(|mut child| end(&mut child));
    }
}

impl Drop for Upgrades {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Ends a process that this one has started, if it has not ended.
fn end(child: &mut Child) {
    // It may have ended just now.
    let _ = child.kill();
    let _ = child.wait();
}

/// Why a program has ended, as it says itself.
fn reason_in(file: &Path) -> Option<String> {
    let mut said = String::new();
    File::open(file).ok()?.take(LONGEST).read_to_string(&mut said).ok()?;
    Some(said).filter(|said| !said.is_empty())
}

/// How ports went over.
fn went(transfer: PortTransfer, closed: Option<Duration>) -> PortsWent {
    match transfer {
        PortTransfer::Beside => PortsWent::Beside,
        PortTransfer::InTurn => {
            PortsWent::InTurn { closed: closed.unwrap_or_default().as_nanos() as u64 }
        }
        // A process at another machine takes no node over so.
        PortTransfer::Behind | PortTransfer::Elsewhere => PortsWent::Behind,
    }
}

/// The process at the other end, where the kernel knows it (`SO_PEERCRED`, unix(7)).
fn process_of(stream: &UnixStream) -> Option<u32> {
    let credentials = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(credentials.pid.as_raw_nonzero().get()).ok()
}

fn accept(listener: &UnixListener) -> io::Result<UnixStream> {
    listener.set_nonblocking(true)?;
    let until = Instant::now() + CONNECTING;
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if Instant::now() >= until => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => thread::sleep(LOOK),
        }
    }
}
