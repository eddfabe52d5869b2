//! `bench-quick`: what a packet costs, as ratios within one run.
//!
//! Every figure compares two things that are measured in turn, several times,
//! on the same core, with the same pool, pages and capture. Cycles are the time
//! that the working thread had the processor, times the rate of the time-stamp
//! counter, divided by packets; the median of the rounds is printed, with the
//! least and the most.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use weft_bench::measure::{self, Cost, Lab};
use weft_bench::{Failure, testpmd};

/// Rounds of each comparison.
const ROUNDS: usize = 7;

/// How long one measurement lasts.
const LENGTH: Duration = Duration::from_millis(400);

/// Functions in the long chain whose cost is divided among them.
const CHAIN: usize = 16;

fn main() -> ExitCode {
    let directory = std::env::temp_dir().join(format!("weft-bench-{}", std::process::id()));
    let result =
        std::fs::create_dir_all(&directory).map_err(Into::into).and_then(|()| run(&directory));
    // What is left behind in the temporary directory does no harm.
    let _ = std::fs::remove_dir_all(&directory);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-quick: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(directory: &Path) -> Result<(), Failure> {
    let mut lab = Lab::start(directory)?;
    println!(
        "{} cycles/s, {}, {} MB, packets of 64 bytes (60 without checksum), 1000 users",
        lab.hz(),
        if lab.has_huge_pages() { "huge pages" } else { "4 KB pages" },
        measure::MEGABYTES,
    );
    forwarding(&mut lab)?;
    chain(&mut lab, "pass", 3.0)?;
    chain(&mut lab, "forward", 12.0)?;
    workers(&mut lab)
}

/// Receive, parse, classify, one rule, transmit; beside testpmd.
fn forwarding(lab: &mut Lab) -> Result<(), Failure> {
    if !testpmd::is_installed() {
        println!("dpdk-testpmd is not installed (apt install dpdk): not compared");
        return Ok(());
    }
    for (what, routed) in [("as a wire", false), ("as a router", true)] {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let a = lab.cycles(&[], routed, LENGTH)?;
            let b = testpmd::cycles(lab, Duration::from_secs(2))?;
            ratios.push(a / b);
            ours.push(a);
            theirs.push(b);
        }
        println!("\nreceive → parse → classify → one rule → transmit, {what}");
        println!("  weft                   {} cycles/packet", Cost::of(&ours));
        println!("  dpdk-testpmd macswap   {} cycles/packet", Cost::of(&theirs));
        println!("  ratio                  {} (mark: 1.60)", Cost::of(&ratios));
    }
    Ok(())
}

/// One more function in a chain.
fn chain(lab: &mut Lab, function: &str, mark: f64) -> Result<(), Failure> {
    let long = vec![function; 1 + CHAIN];
    let (mut short_costs, mut added) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let a = lab.cycles(&long[..1], false, LENGTH)?;
        let b = lab.cycles(&long, false, LENGTH)?;
        short_costs.push(a);
        added.push((b - a) / CHAIN as f64);
    }
    println!("\none more `{function}` in a chain ({} against 1)", 1 + CHAIN);
    println!("  chain of one           {} cycles/packet", Cost::of(&short_costs));
    println!("  each further           {} cycles/packet (mark: {mark:.0})", Cost::of(&added));
    Ok(())
}

/// Two workers with a source each, against one.
fn workers(lab: &mut Lab) -> Result<(), Failure> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("\ntwo workers: not measured, this machine has one core");
        return Ok(());
    }
    for (what, steered) in
        [("each with its own users", true), ("half of the packets cross over", false)]
    {
        let (mut one, mut two, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let a = lab.rate(1, steered, LENGTH)? / 1e6;
            let b = lab.rate(2, steered, LENGTH)? / 1e6;
            ratios.push(b / a);
            one.push(a);
            two.push(b);
        }
        println!("\ntwo workers on two cores, a source each, {what}");
        println!("  one                    {} Mpps", Cost::of(&one));
        println!("  two                    {} Mpps", Cost::of(&two));
        let mark = if steered { " (mark: 1.80)" } else { "" };
        println!("  ratio                  {}{mark}", Cost::of(&ratios));
    }
    Ok(())
}
