//! DPDK's own forwarding application, on the same capture, pool and pages.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::tsc;

use crate::Failure;
use crate::setup::PACKETS;
use crate::{Cost, MEGABYTES, Rig, SLICE, Schedule, Slices};

/// How long the program may take to start forwarding.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at whether it does.
const PAUSE: Duration = Duration::from_millis(100);

/// How long an answer of its console takes at most, so that it says what was at one
/// moment of a slice; and how often it is asked for one.
const ANSWER: Duration = Duration::from_micros(100);
const LOOKS: u32 = 5;

/// The program.
pub const PROGRAM: &str = "dpdk-testpmd";
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
pub fn is_installed(rig: &Rig) -> bool {
    rig.program(PROGRAM).is_some()
}

/// What a packet costs testpmd's forwarding thread, from the capture without end into a
/// null device, and how disturbed the trial was. The same measure as that of a worker: its
/// counters are asked for again and again.
///
/// # Errors
/// When it does not start, or forwards nothing.
pub fn cost(
    rig: &Rig,
    mode: Mode,
    capture: &Path,
    length: Duration,
) -> Result<(Cost, f64), Failure> {
    let slow = rig.slowness()?;
    let mut child = spawn(rig, mode, capture)?;
    let measured = measure(&mut child, length);
    if measured.is_err() {
        // It may be past answering.
        let _ = child.kill();
    }
    child.wait()?;
    let (cost, waited) = measured?;
    Ok((cost, waited.max(slow).max(rig.slowness()?)))
}

fn spawn(rig: &Rig, mode: Mode, capture: &Path) -> Result<Child, Failure> {
    // Its answers are wanted at once, not when a buffer is full.
    let mut command = Command::new("stdbuf");
    command.arg("-oL").arg(rig.program(PROGRAM).ok_or(MISSING)?);
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

/// Lets it run for so long, with a look at its counters at the end of every slice,
/// then ends it. What a packet cost, and the share of the time beyond half of all
/// that its thread had to wait for the processor.
fn measure(child: &mut Child, length: Duration) -> Result<(Cost, f64), Failure> {
    let thread_file = await_forwarding(child.id())?;
    let mut console = Console::of(child)?;
    let (mut slices, before) = (Slices::of(length), Schedule::read(&thread_file)?);
    let (mut at, mut gone) = console.look()?;
    let (begun, end) = (at, Instant::now() + length);
    while Instant::now() < end {
        thread::sleep(SLICE);
        let (now, sent) = console.look()?;
        slices.push(now.wrapping_sub(at), sent.saturating_sub(gone));
        (at, gone) = (now, sent);
    }
    let after = Schedule::read(&thread_file)?;
    console.end()?;
    let running = (after.running - before.running).as_secs_f64();
    let waiting = (after.waiting - before.waiting).as_secs_f64();
    let time = Duration::from_secs_f64(at.wrapping_sub(begun) as f64 / tsc::hz() as f64);
    let taken = waiting / (running + waiting).max(1e-9);
    let cost = Cost::of(&slices, time, taken).ok_or("testpmd forwarded nothing")?;
    Ok((cost, (taken - 0.5).max(0.0)))
}

/// The line that a user of testpmd types commands at.
struct Console {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Console {
    fn of(child: &mut Child) -> Result<Console, Failure> {
        let ends = child.stdin.take().zip(child.stdout.take());
        let (input, output) = ends.ok_or("testpmd has no console")?;
        Ok(Console { input, output: BufReader::new(output) })
    }

    /// Packets sent so far, and the cycle of the time-stamp counter at which they
    /// were. An answer that takes long does not say when it was right: it is asked
    /// for again.
    fn look(&mut self) -> Result<(u64, u64), Failure> {
        for _ in 0..LOOKS {
            let asked = tsc::now();
            let sent = self.ask()?;
            let took = tsc::now().wrapping_sub(asked);
            if took < (ANSWER.as_secs_f64() * tsc::hz() as f64) as u64 {
                return Ok((asked + took / 2, sent));
            }
        }
        let sent = self.ask()?;
        Ok((tsc::now(), sent))
    }

    /// Packets sent so far.
    fn ask(&mut self) -> Result<u64, Failure> {
        self.input.write_all(b"show port stats 1\n")?;
        let mut line = String::new();
        while self.output.read_line(&mut line)? > 0 {
            if let Some(sent) = sent(&line) {
                return Ok(sent);
            }
            line.clear();
        }
        Err("dpdk-testpmd ended by itself".into())
    }

    /// Ends the program, and hears what else it says.
    fn end(mut self) -> Result<(), Failure> {
        self.input.write_all(b"stop\nquit\n")?;
        self.output.read_to_end(&mut Vec::new())?;
        Ok(())
    }
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

/// Packets that were sent, if the line says so.
fn sent(line: &str) -> Option<u64> {
    let rest = line.trim().strip_prefix("TX-packets:")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_tells_what_was_sent() {
        assert_eq!(
            sent("  TX-packets: 350        TX-errors: 0          TX-bytes:  0\n"),
            Some(350)
        );
        assert_eq!(sent("  RX-packets: 5          RX-missed: 0          RX-bytes:  0\n"), None);
        assert_eq!(sent("testpmd> \n"), None);
    }
}
