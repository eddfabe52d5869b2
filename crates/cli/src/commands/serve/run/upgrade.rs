//! Another process is to have the node: as it asks, or as this one starts it.

use std::ffi::OsString;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use weft_dpdk::Eal;
use weft_management_api::UpgradeRequest;
use weft_management_api::api::{PortsWent, Upgraded};
use weft_node::bearer::session::Keep;
use weft_node::{HandedOver, Running, Way};
use weft_pfcp::Server;

use super::beside::Beside;
use super::standby::Owning;
use crate::notify::ServiceManager;

/// How long the other process may take to connect, and how often it is looked for.
const CONNECTING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// How long the answer to who has asked for an upgrade may take to leave.
const ANSWERING: Duration = Duration::from_millis(500);

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

    fn start(&self) -> Result<Child, String> {
        let path = self.path.as_ref().map_err(|error| format!("the program: {error}"))?;
        weft_dpdk::keep_from_children().map_err(|error| format!("its descriptors: {error}"))?;
        let mut command = Command::new(path);
        // The new process tells the service manager itself that it is alive.
        command.args(&self.arguments).env_remove("WATCHDOG_PID");
        command.spawn().map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// What becomes of requests for the node.
pub struct Upgrades {
    requests: Receiver<UpgradeRequest>,
    program: Program,
    manager: ServiceManager,
    /// The process that was started, and who waits for it.
    started: Option<(Child, Told)>,
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

    fn before_yours(&mut self, process: u32) -> Result<Vec<u8>, String> {
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
    /// Takes `requests` from now on.
    pub fn new(
        requests: Receiver<UpgradeRequest>,
        program: Program,
        manager: ServiceManager,
    ) -> Upgrades {
        Upgrades { requests, program, manager, started: None }
    }

    /// Does what is asked for. Another process has the node where something is returned.
    pub fn look_after(
        &mut self,
        eal: &'static Eal,
        running: &mut Running,
        (beside, owning): (&Beside, Option<&Owning>),
    ) -> Option<HandedOver> {
        if let Some((child, _)) = &mut self.started
            && let Ok(Some(status)) = child.try_wait()
        {
            self.tell(Err(format!("the new program has ended: {status}; see the log")));
        }
        match self.requests.try_recv().ok()? {
            UpgradeRequest::Start(told) => {
                let told: Told = Box::new(move |outcome| drop(told.send(outcome)));
                if self.started.is_some() {
                    told(Err("another process is taking the node over already".to_owned()));
                    return None;
                }
                match self.program.start() {
                    Ok(child) => self.started = Some((child, told)),
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
        let is_started = self.started.as_ref().is_some_and(|(child, _)| asks == Some(child.id()));
        match outcome {
            Ok(HandedOver { waited, process, way, closed, .. }) => {
                let is_told = self.started.is_some();
                self.tell(match is_started {
                    true => Ok(Upgraded {
                        process: *process,
                        waited: waited.as_nanos() as u64,
                        ports: went(*way, *closed),
                    }),
                    false => Err(format!("process {process} has taken the node over meanwhile")),
                });
                if is_told {
                    // This process ends.
                    thread::sleep(ANSWERING);
                }
            }
            Err(why) if is_started => self.tell(Err(why.clone())),
            Err(_) => {}
        }
    }

    fn tell(&mut self, outcome: Result<Upgraded, String>) {
        if let Some((mut child, told)) = self.started.take() {
            if outcome.is_err() {
                // It ends by itself, as it was told why.
                thread::spawn(move || child.wait());
            }
            told(outcome);
        }
    }
}

/// How ports went over.
fn went(way: Way, closed: Option<Duration>) -> PortsWent {
    match way {
        Way::Beside => PortsWent::Beside,
        Way::InTurn => PortsWent::InTurn { closed: closed.unwrap_or_default().as_nanos() as u64 },
        Way::Behind => PortsWent::Behind,
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
