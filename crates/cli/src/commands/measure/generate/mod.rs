//! `weft generate`: traffic at ports, received and accounted for.

mod capture;
mod course;
mod limit;
mod print;
mod rig;
mod summary;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, atomic::AtomicBool};
use std::thread;
use std::time::Duration;

use weft_dpdk::{Eal, EalOptions, is_pci_address};
use weft_traffic::{Profile, Rate};

use crate::failure::Failure;
use crate::output;
use crate::signals::Termination;
use capture::Capture;
use course::Course;
use rig::Rig;
use summary::Summary;

/// Packet buffers for queues, wires and what is on its way.
const PACKETS: u32 = 32_767;
/// Megabytes that DPDK takes for them and for itself.
const MEGABYTES: u32 = 256;

#[derive(clap::Args)]
pub struct Arguments {
    /// The profile
    #[arg(value_name = "PROFILE.yaml")]
    profile: PathBuf,
    /// How long packets are sent, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Packets per second of each source
    #[arg(long, value_name = "PACKETS", value_parser = rate)]
    rate: Option<f64>,
    /// Send and receive in one thread
    #[arg(long)]
    one_thread: bool,
    /// Write what was measured to a file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write packets that arrive to a file, as pcap
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// How many packets the capture holds at most
    #[arg(long, value_name = "PACKETS", default_value_t = 100_000)]
    capture_packets: u64,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=31_536_000.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "seconds are a number from 0.001".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| "a rate is a number from 0.001 to 1000000000".to_owned())
}

/// Sends, receives, and says what became of the packets.
///
/// # Errors
/// When the profile has mistakes, a port cannot be opened, or a file cannot be
/// written.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut profile = Profile::load(&arguments.profile)?;
    profile.duration = arguments.duration.unwrap_or(profile.duration);
    if let Some(rate) = arguments.rate {
        profile.sources.iter_mut().for_each(|source| source.load.rate = Rate::Packets(rate));
    }
    let capture = match &arguments.capture {
        Some(path) => Some(Capture::create(path, arguments.capture_packets)?),
        None => None,
    };
    let eal = start(&profile)?;
    let _main = eal.register_thread();
    let limit = limit::packets_per_second(eal, &profile)?;
    let rig = Rig::open(eal, &profile, capture)?;
    let stop = stop_at_signal()?;
    let threads = match arguments.one_thread || cores() == 1 {
        true => 1,
        false => 2,
    };
    let course = Course { duration: profile.duration, threads, stop };
    let outcome = course.run(eal, &profile, rig)?;
    let summary = Summary::new(&profile, &outcome, threads, limit);
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&summary).map_err(Failure::broken)?;
        fs::write(path, text + "\n")
            .map_err(|error| Failure::broken(format!("{}: {error}", path.display())))?;
    }
    output::print(&print::text(&summary))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn start(profile: &Profile) -> Result<&'static Eal, Failure> {
    let devices = profile.ports.iter().map(|port| &port.device);
    let options = EalOptions {
        memory_megabytes: MEGABYTES,
        pci: devices.filter(|device| is_pci_address(device)).cloned().collect(),
        huge_pages: true,
    };
    Ok(Eal::start(&options)?)
}

/// A flag that is set by SIGINT or SIGTERM.
fn stop_at_signal() -> Result<Arc<AtomicBool>, Failure> {
    let signals = Termination::catch()?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    thread::spawn(move || {
        signals.wait();
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}
