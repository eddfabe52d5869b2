//! DPDK's own forwarding application, on the same capture.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Failure;
use crate::measure::{Lab, MEGABYTES, PACKETS, on_processor};

/// Time for the program to start forwarding.
const START: Duration = Duration::from_millis(1500);

/// Whether it can be started.
pub fn is_installed() -> bool {
    Command::new("dpdk-testpmd")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Cycles per packet of testpmd's forwarding thread in macswap mode, from the
/// capture without end into a null device.
pub fn cycles(lab: &Lab, length: Duration) -> Result<f64, Failure> {
    let mut child = spawn(lab)?;
    let measured = measure(&child, length);
    // `stop` and `quit` end it; statistics are printed on the way.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(b"stop\nquit\n");
    }
    let output = child.wait_with_output()?;
    let (time_before, time_after) = measured?;
    let text = String::from_utf8_lossy(&output.stdout);
    let packets = packets_between(&text)?;
    let time = (time_after - time_before).as_secs_f64();
    Ok(time * lab.hz() as f64 / packets as f64)
}

fn spawn(lab: &Lab) -> Result<Child, Failure> {
    let core = lab.core();
    let mut command = Command::new("dpdk-testpmd");
    command.args(["--no-pci", "--no-telemetry", "-m"]).arg(MEGABYTES.to_string());
    match lab.has_huge_pages() {
        true => command.args(["--in-memory"]),
        false => command.args(["--no-huge", "--no-shconf"]),
    };
    command
        .args(["--lcores", &format!("0@0,1@{core}")])
        .arg(format!("--vdev=net_pcap0,rx_pcap={},infinite_rx=1", lab.capture().display()))
        .args(["--vdev=net_null0,no-rx=1", "--", "--interactive", "--forward-mode=macswap"])
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
fn measure(child: &Child, length: Duration) -> Result<(Duration, Duration), Failure> {
    thread::sleep(START);
    let mut input = child.stdin.as_ref().ok_or("no input for testpmd")?;
    let thread_file = forwarding_thread(child.id())?;
    let before = on_processor(&thread_file)?;
    input.write_all(b"show port stats 1\n")?;
    thread::sleep(length);
    input.write_all(b"show port stats 1\n")?;
    let after = on_processor(&thread_file)?;
    Ok((before, after))
}

/// The thread of lcore 1.
fn forwarding_thread(process: u32) -> Result<std::path::PathBuf, Failure> {
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        let path = entry?.path();
        let name = fs::read_to_string(path.join("comm"))?;
        if name.trim().ends_with("worker-1") {
            return Ok(path.join("schedstat"));
        }
    }
    Err("testpmd has no forwarding thread".into())
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
