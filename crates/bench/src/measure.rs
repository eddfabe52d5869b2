//! Nodes on a capture without end, and what their workers spend.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::{Eal, EalOptions, pin_to_core, tsc};
use weft_functions::KINDS;
use weft_node::{Node, config};

use crate::{Failure, capture};

/// Memory of either side.
pub const MEGABYTES: u32 = 256;
/// Packets in the pool of either side.
pub const PACKETS: u32 = 8191;

/// Users in the captures.
pub const USERS: u32 = 1000;

/// Rounds of a worker between two looks at the clock.
const ROUNDS_AT_ONCE: usize = 1000;

/// The environment, the capture, and the core that measured threads run on.
pub struct Lab {
    eal: &'static Eal,
    /// All users.
    capture: PathBuf,
    /// The users of the first and of the second of two workers.
    halves: [PathBuf; 2],
}

impl Lab {
    /// Starts the environment and writes the captures.
    pub fn start(directory: &Path) -> Result<Lab, Failure> {
        let eal = Eal::start(&EalOptions { memory_megabytes: MEGABYTES, ..EalOptions::default() })?;
        let capture = directory.join("users.pcap");
        capture::write(&capture, USERS, 1, 0)?;
        let halves = [directory.join("even.pcap"), directory.join("odd.pcap")];
        for (rest, half) in (0..).zip(&halves) {
            capture::write(half, USERS, 2, rest)?;
        }
        Ok(Lab { eal, capture, halves })
    }

    /// Cycles per second of the time-stamp counter.
    pub fn hz(&self) -> u64 {
        tsc::hz()
    }

    /// Whether packets lie in huge pages.
    pub fn has_huge_pages(&self) -> bool {
        self.eal.has_huge_pages()
    }

    /// The capture with all users.
    pub fn capture(&self) -> &Path {
        &self.capture
    }

    /// The core for measured threads: the last, which has the least to do with
    /// the rest of the machine.
    pub fn core(&self) -> usize {
        thread::available_parallelism().map_or(0, |cores| usize::from(cores) - 1)
    }

    /// Cycles per packet of a worker whose packets walk `chain`.
    pub fn cycles(
        &mut self,
        chain: &[&str],
        routed: bool,
        length: Duration,
    ) -> Result<f64, Failure> {
        let mut node = self.node(chain, routed, std::slice::from_ref(&self.capture))?;
        let (core, eal) = (self.core(), self.eal);
        let mut work = || -> Result<(u64, Duration), Failure> {
            let _registration = eal.register_thread();
            pin_to_core(core)?;
            let worker = &mut node.workers()[0];
            spin(|| worker.poll(), length / 4);
            let counters = worker.counters.clone();
            let sent = || counters.ports[1].transmitted.packets.get();
            let (packets, time) = (sent(), thread_time()?);
            spin(|| worker.poll(), length);
            Ok((sent() - packets, thread_time()? - time))
        };
        let measured = thread::scope(|scope| {
            let work = scope.spawn(|| work().map_err(|error| error.to_string()));
            work.join().map_err(|_| "the measured thread panicked".to_owned())?
        });
        let (packets, time) = measured?;
        Ok(time.as_secs_f64() * tsc::hz() as f64 / packets.max(1) as f64)
    }

    /// Packets per second of `workers` workers, each with a source of its own.
    /// If `steered`, a source has the users of its worker only.
    pub fn rate(
        &mut self,
        workers: usize,
        steered: bool,
        length: Duration,
    ) -> Result<f64, Failure> {
        let sources = match steered {
            true => self.halves.clone(),
            false => [self.capture.clone(), self.capture.clone()],
        };
        let running = self.node(&[], false, &sources[..workers])?.start(self.eal);
        let handle = running.handle();
        thread::sleep(length / 4);
        let sent = || handle.ask(|agent| (agent.snapshot().sent(), Instant::now()));
        let (before, start) = sent()?;
        thread::sleep(length);
        let (after, end) = sent()?;
        drop(handle);
        running.stop();
        Ok((after - before) as f64 / (end - start).as_secs_f64())
    }

    fn node(&self, chain: &[&str], routed: bool, sources: &[PathBuf]) -> Result<Node, Failure> {
        let yaml = yaml(chain, routed, sources);
        let blueprint = config::read(&yaml, "bench.yaml", KINDS).map_err(|e| e.to_string())?;
        Ok(Node::build(self.eal, blueprint)?)
    }
}

/// A node with a worker for each source.
fn yaml(chain: &[&str], routed: bool, sources: &[PathBuf]) -> String {
    // A device name is used once, as some drivers forget slowly.
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let next = || SERIAL.fetch_add(1, Ordering::Relaxed);
    let workers = sources.len();
    let (mut ports, mut rules, mut functions) = (String::new(), String::new(), String::new());
    let hop = if routed { ", nextHopMac: '02:00:00:00:00:99'" } else { "" };
    let names: Vec<_> = (0..chain.len()).map(|number| format!("f{number}")).collect();
    for (name, kind) in names.iter().zip(chain) {
        functions += &format!("  {name}: {{function: {kind}}}\n");
    }
    let to = if chain.is_empty() { "core" } else { "all" };
    for (worker, source) in sources.iter().enumerate() {
        let capture = source.display();
        ports += &format!(
            "  access{worker}: {{device: 'net_pcap{},rx_pcap={capture},infinite_rx=1', \
             direction: uplink, worker: {worker}}}\n",
            next(),
        );
        if worker == 0 {
            ports += &format!(
                "  core: {{device: 'net_null{},no-rx=1', direction: downlink{hop}}}\n",
                next()
            );
        }
        rules += &format!("  from access{worker} -> {to}\n");
    }
    if !chain.is_empty() {
        rules = format!("  chain all = {}\n{rules}  from all -> core\n", names.join(" -> "));
    }
    let functions = match functions.as_str() {
        "" => String::new(),
        some => format!("functions:\n{some}"),
    };
    format!(
        "apiVersion: weft/v1\nkind: Node\nmetadata: {{name: bench}}\n\
         workers: {{count: {workers}, polling: busy}}\nmemory: {{packets: {PACKETS}}}\n\
         ports:\n{ports}{functions}users:\n  - {{name: ue, count: {USERS}, match: {{ipv4: \
         10.0.0.0}}}}\nrules: |\n{rules}"
    )
}

/// Polls for so long.
fn spin(mut poll: impl FnMut() -> bool, length: Duration) {
    let end = Instant::now() + length;
    while Instant::now() < end {
        for _ in 0..ROUNDS_AT_ONCE {
            poll();
        }
    }
}

/// Time that the calling thread has had the processor.
fn thread_time() -> Result<Duration, Failure> {
    on_processor(Path::new("/proc/thread-self/schedstat"))
}

/// The first number of a `schedstat` file: nanoseconds on the processor.
pub fn on_processor(file: &Path) -> Result<Duration, Failure> {
    let text = fs::read_to_string(file)?;
    let first = text.split_whitespace().next().ok_or("an empty schedstat file")?;
    Ok(Duration::from_nanos(first.parse()?))
}

/// Several measurements of one thing.
pub struct Cost {
    median: f64,
    least: f64,
    most: f64,
}

impl Cost {
    /// Their median, least and most; all NaN of no values.
    pub fn of(values: &[f64]) -> Cost {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let last = sorted.len().saturating_sub(1);
        Cost { median: at(sorted.len() / 2), least: at(0), most: at(last) }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.2}  [{:.2} … {:.2}]", self.median, self.least, self.most)
    }
}
