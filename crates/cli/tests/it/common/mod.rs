//! The program, run on configurations and captures that a test writes.
#![allow(dead_code, reason = "each test uses a part")]

pub mod frames;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// Longest wait for anything; a machine under load is slow.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of a test's own, in which its nodes have their sockets, too.
pub struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    pub fn new() -> TestFolder {
        TestFolder { folder: TempDir::new().expect("a temporary folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("the folder is ours");
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The program, to be run in this folder.
    pub fn weft(&self, arguments: &[&str]) -> Command {
        self.command(WEFT, arguments)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path());
        for name in [
            "METRICS",
            "HTTP",
            "SOCKET",
            "CORES",
            "POLLING",
            "NODE",
            "LOG",
            "LOG_FORMAT",
            "CALIBRATION",
        ] {
            command.env_remove(format!("WEFT_{name}"));
        }
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        command
    }

    /// Runs the program to its end, which it is to reach by itself.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        let mut running = Running::spawn(self.weft(arguments));
        let code = running.wait(4 * PATIENCE);
        Ended { code, out: all(&running.out), err: all(&running.err) }
    }

    /// Starts a node and waits until it is ready. Its workers never wait, so other tests go first.
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command("nice", &[&["-n10", WEFT, "run"], arguments].concat()))
    }
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// It succeeded; returns what it printed.
    #[track_caller]
    pub fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// It refused with exit code 2 and one line that has `words` in it.
    #[track_caller]
    pub fn refused(self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:?}");
        }
    }
}

/// Sends a signal to a program, by the signal's name.
pub fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status().expect("kill runs");
    assert!(sent.success());
}

/// A program that is killed when dropped.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that runs; killed when dropped.
pub struct Running {
    child: Killed,
    /// Its first line: that it is ready.
    pub ready: String,
    out: Receiver<String>,
    err: Receiver<String>,
    said: String,
}

impl Running {
    pub fn spawn(mut command: Command) -> Running {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let out = lines(child.stdout.take().expect("it is piped"));
        let err = lines(child.stderr.take().expect("it is piped"));
        Running { child: Killed(child), ready: String::new(), out, err, said: String::new() }
    }

    pub fn start(command: Command) -> Running {
        let mut running = Running::spawn(command);
        match running.out.recv_timeout(PATIENCE) {
            Ok(line) => running.ready = line,
            Err(_) => {
                panic!("the node did not start: {:?}", running.err.try_iter().collect::<Vec<_>>())
            }
        }
        running
    }

    /// Waits for its next line.
    #[track_caller]
    pub fn line(&mut self) -> String {
        self.out.recv_timeout(PATIENCE).expect("it says more")
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        signal(&self.child.0, name);
    }

    /// Waits for a line on standard error.
    pub fn wait_for(&mut self, words: &str) {
        let until = Instant::now() + PATIENCE;
        while let Ok(line) = self.err.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.said.push_str(&line);
            self.said.push('\n');
            if line.contains(words) {
                return;
            }
        }
        panic!("it did not say {words:?} but {:?}", self.said);
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(self) -> Ended {
        self.signal("TERM");
        self.ended()
    }

    /// Waits until it has ended.
    pub fn ended(mut self) -> Ended {
        let code = self.wait(PATIENCE);
        let out = std::mem::take(&mut self.ready) + "\n" + &all(&self.out);
        let err = std::mem::take(&mut self.said) + &all(&self.err);
        Ended { code, out, err }
    }

    fn wait(&mut self, patience: Duration) -> Option<i32> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if let Some(status) = self.child.0.try_wait().expect("it is our child") {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        let said: String = self.out.try_iter().chain(self.err.try_iter()).collect();
        panic!("it does not end; it said {said:?}");
    }
}

/// What is left to read of a program that has ended.
fn all(lines: &Receiver<String>) -> String {
    let mut text = String::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => text.extend([&*line, "\n"]),
            Err(RecvTimeoutError::Disconnected) => return text,
            Err(RecvTimeoutError::Timeout) => {
                panic!("another program has its output; it said {text:?}")
            }
        }
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        lines.map(|line| sender.send(line)).take_while(Result::is_ok).count();
    });
    receiver
}

/// Waits until `done` holds.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Says that a test could not do its work here, and why.
pub fn skipped(test: &str, why: &str) {
    eprintln!("skipped: {test}: {why}");
}

/// A node between two ports, users 10.0.0.1 to 10.0.0.4 behind the first.
pub fn node(name: &str, access: &str, core: &str) -> String {
    format!(
        "apiVersion: weft/v1
kind: Node
metadata: {{name: {name}}}
memory: {{packets: 4095}}
ports:
  access:
    device: \"{access}\"
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24]
    nextHopMac: 02:00:00:00:01:01
  core:
    device: \"{core}\"
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24]
    nextHopMac: 02:00:00:00:02:01
functions:
  count: {{function: counter}}
  guard: {{function: filter, config: {{default: allow, rules: [{{action: deny, protocol: udp, destinationPorts: 9}}]}}}}
users:
  - {{name: ue, count: 4, match: {{ipv4: 10.0.0.1}}, chain: full}}
rules: |
  chain full = count -> guard
  from access -> full
  from core -> full
  from full when direction == uplink -> core
  from full -> access
"
    )
}

/// A node whose port `access` receives the packets of a capture again and
/// again.
pub fn busy_node(name: &str, capture: &Path) -> String {
    let access = format!("net_pcap0,rx_pcap={},infinite_rx=1", capture.display());
    node(name, &access, "net_null1,no-rx=1")
}
