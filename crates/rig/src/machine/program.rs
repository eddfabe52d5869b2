//! Processes of this program beside the bench: nodes and controllers.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// How long a process may take until it is ready, or has ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether it has ended.
const PAUSE: Duration = Duration::from_micros(100);
/// What a process says once it is ready.
const READY: &str = " is ready";
/// Where addresses are looked for: below the ports that connections begin at.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A process of this program. It is killed when it is dropped, and when the thread that has
/// started it ends, however that ends.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Program {
    /// Starts this program; `describe` adds its arguments and environment. What it says on
    /// standard error is appended to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(log: &Path, describe: impl FnOnce(&mut Command)) -> Result<Program, Failure> {
        Program::start_on(&[], log, describe)
    }

    /// The same on these processor cores; none are all.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_on(
        cores: &[usize],
        log: &Path,
        describe: impl FnOnce(&mut Command),
    ) -> Result<Program, Failure> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if !cores.is_empty() {
            let list: Vec<_> = cores.iter().map(usize::to_string).collect();
            command.args(["taskset", "--cpu-list", &list.join(",")]);
        }
        command.arg(std::env::current_exe()?);
        describe(&mut command);
        let file = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(|error| format!("setpriv: {error}"))?;
        let output = child.stdout.take().ok_or("a process without output")?;
        let (tell, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // What comes later is of no interest, but has to be read.
            lines.for_each(|line| drop(tell.send(line)));
        });
        Ok(Program { child, lines, log: log.to_owned() })
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// When it ends before, or takes too long: the last line of its log.
    pub fn until_ready(&self) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        let left = || until.saturating_duration_since(Instant::now());
        while let Ok(line) = self.lines.recv_timeout(left()) {
            if line.contains(READY) {
                return Ok(());
            }
        }
        Err(format!("a process does not become ready: {}", self.last_line()).into())
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// When it takes too long: the last line of its log.
    pub fn until_ended(mut self) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        Err(format!("a process does not end: {}", self.last_line()).into())
    }

    /// The last line of its log.
    pub fn last_line(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().last().unwrap_or("it says nothing").to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A TCP address of this machine that is free, and that no connection takes as its own.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(16) + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + (number % u32::from(PORTS.end - PORTS.start)) as u16;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
