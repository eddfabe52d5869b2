//! DPDK's own forwarding application, on the same capture, pool and pages.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::tsc;

use crate::Failure;
use crate::rig::setup::PACKETS;
use crate::rig::{MEGABYTES, Rig, Schedule};

/// How long the program may take to start forwarding.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at whether it does.
const PAUSE: Duration = Duration::from_millis(100);

/// Said where the program is not there.
pub const MISSING: &str = "dpdk-testpmd is not installed (apt install dpdk-dev): not compared.";

/// What it does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Io,
    /// Exchanges the Ethernet addresses.
    MacSwap,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Io => "io",
            Mode::MacSwap => "macswap",
        }
    }
}

/// Whether the program is there.
pub fn is_installed() -> bool {
    let mut command = Command::new("dpdk-testpmd");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Cycles per packet of testpmd's forwarding thread, from the capture without end
/// into a null device, and how disturbed the trial was.
///
/// # Errors
/// When it does not start, or forwards nothing.
pub fn cycles(
    rig: &Rig,
    mode: Mode,
    capture: &Path,
    length: Duration,
) -> Result<(f64, f64), Failure> {
    let slow = rig.slowness()?;
    let mut child = spawn(rig, mode, capture)?;
    let measured = measure(&child, length);
    // `stop` and `quit` end it; statistics are printed on the way.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(b"stop\nquit\n");
    }
    let output = child.wait_with_output()?;
    let (before, after) = measured?;
    let packets = packets_between(&String::from_utf8_lossy(&output.stdout))?;
    let running = (after.running - before.running).as_secs_f64();
    let waiting = (after.waiting - before.waiting).as_secs_f64();
    let cycles = running * tsc::hz() as f64 / packets as f64;
    let slow = slow.max(rig.slowness()?);
    Ok((cycles, (waiting / (running + waiting).max(1e-9)).max(slow)))
}

fn spawn(rig: &Rig, mode: Mode, capture: &Path) -> Result<Child, Failure> {
    let mut command = Command::new("dpdk-testpmd");
    command.args(["--no-pci", "--no-telemetry", "-m"]).arg(MEGABYTES.to_string());
    match rig.eal.has_huge_pages() {
        true => command.args(["--in-memory"]),
        false => command.args(["--no-huge", "--no-shconf"]),
    };
    let idle = rig.cores.traffic.unwrap_or(rig.cores.system);
    command
        .args(["--lcores", &format!("0@{idle},1@{}", rig.cores.system)])
        .arg(format!("--vdev=net_pcap0,rx_pcap={},infinite_rx=1", capture.display()))
        .args(["--vdev=net_null0,no-rx=1", "--", "--interactive"])
        .arg(format!("--forward-mode={}", mode.name()))
        .args(["--nb-cores=1", "--no-flush-rx", &format!("--total-num-mbufs={PACKETS}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    let input = child.stdin.as_mut().ok_or("no input for testpmd")?;
    input.write_all(b"start\n")?;
    Ok(child)
}

/// Lets it run, with a look at its counters and its thread's time at either
/// end.
fn measure(child: &Child, length: Duration) -> Result<(Schedule, Schedule), Failure> {
    let mut input = child.stdin.as_ref().ok_or("no input for testpmd")?;
    let thread_file = await_forwarding(child.id())?;
    let before = Schedule::read(&thread_file)?;
    input.write_all(b"show port stats 1\n")?;
    thread::sleep(length);
    input.write_all(b"show port stats 1\n")?;
    let after = Schedule::read(&thread_file)?;
    Ok((before, after))
}

/// Waits until the thread of lcore 1 works; returns its `schedstat` file. The
/// thread is there long before there is work for it.
fn await_forwarding(process: u32) -> Result<PathBuf, Failure> {
    let start = Instant::now();
    let mut last = None;
    while start.elapsed() < PATIENCE {
        thread::sleep(PAUSE);
        let Some(file) = forwarding_thread(process)? else { continue };
        let running = Schedule::read(&file)?.running;
        if last.is_some_and(|last| running > last + PAUSE / 10) {
            return Ok(file);
        }
        last = Some(running);
    }
    Err("dpdk-testpmd did not begin to forward".into())
}

/// The `schedstat` file of the thread of lcore 1, once it is there.
fn forwarding_thread(process: u32) -> Result<Option<PathBuf>, Failure> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    for entry in tasks.map_err(|_| "dpdk-testpmd ended by itself")? {
        let path = entry?.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.trim().ends_with("worker-1") {
            return Ok(Some(path.join("schedstat")));
        }
    }
    Ok(None)
}

/// Packets sent between the two looks at the counters.
fn packets_between(text: &str) -> Result<u64, Failure> {
    let counts: Vec<u64> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("TX-packets:"))
        .filter_map(|rest| rest.split_whitespace().next()?.parse().ok())
        .collect();
    match counts[..] {
        [first, second, ..] if second > first => Ok(second - first),
        _ => Err("testpmd forwarded nothing".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_between_the_first_two_looks() {
        let look =
            |count: u32| format!("  RX-packets: 5\n  TX-packets: {count:<10} TX-errors: 0\n");
        let text = look(100) + &look(350) + &look(900);
        assert_eq!(packets_between(&text).unwrap(), 250);
        assert!(packets_between(&look(100)).is_err());
        assert!(packets_between(&(look(7) + &look(7))).is_err());
    }
}
