//! `bench-quick`: what a packet costs, as ratios within one run.
//!
//! Every figure compares two things that are measured in turn, several times,
//! on the same core, with the same pool, pages and capture. Cycles are the time
//! that the working thread had the processor, times the rate of the time-stamp
//! counter, divided by packets; the median of the rounds is printed, with the
//! least and the most.

#![forbid(unsafe_code)]

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use weft_dpdk::tsc;
use weft_rig::Failure;
use weft_rig::baseline::testpmd;
use weft_rig::capture::Content;
use weft_rig::{MEGABYTES, Rig, Setup, USERS};

/// Rounds of each comparison.
const ROUNDS: usize = 7;

/// How long one measurement lasts.
const LENGTH: Duration = Duration::from_millis(400);

/// Functions in the long chain whose cost is divided among them.
const CHAIN: usize = 16;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-quick: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let rig = Rig::start(MEGABYTES)?;
    println!(
        "{} cycles/s, {}, {MEGABYTES} MB, packets of 64 bytes (60 without checksum), {USERS} users",
        tsc::hz(),
        if rig.eal.has_huge_pages() { "huge pages" } else { "4 KB pages" },
    );
    let capture = rig.capture(Content::of(USERS, 64))?;
    forwarding(&rig, &capture)?;
    chain(&rig, &capture, "pass", 3.0)?;
    chain(&rig, &capture, "forward", 12.0)?;
    fused(&rig, &capture)?;
    workers(&rig, &capture)
}

/// Receive, parse, classify, one rule, transmit; beside testpmd.
fn forwarding(rig: &Rig, capture: &Path) -> Result<(), Failure> {
    if !testpmd::is_installed(rig) {
        println!("{}", testpmd::MISSING);
        return Ok(());
    }
    let wire = Setup::forwarding(USERS);
    let setups = [
        ("as a wire", wire.clone(), "mark: 1.60"),
        ("as a router", wire.routed(), "no mark: a router does more than macswap"),
    ];
    for (what, setup, mark) in setups {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            // As long as testpmd: what another process leaves behind takes a while.
            let a = rig.cost(&setup, capture, LENGTH * 4)?.0.cycles.undisturbed;
            let mode = testpmd::Mode::MacSwap;
            let (cost, _) = testpmd::cost(rig, mode, capture, Duration::from_secs(2))?;
            let b = cost.cycles.undisturbed;
            ratios.push(a / b);
            ours.push(a);
            theirs.push(b);
        }
        println!("\nreceive → parse → classify → one rule → transmit, {what}");
        println!("  weft                   {} cycles/packet", Spread::of(&ours));
        println!("  dpdk-testpmd macswap   {} cycles/packet", Spread::of(&theirs));
        println!("  ratio                  {} ({mark})", Spread::of(&ratios));
    }
    Ok(())
}

/// One more function in a chain.
fn chain(rig: &Rig, capture: &Path, function: &str, mark: f64) -> Result<(), Failure> {
    let setup = |length: usize| {
        let functions = (0..length).map(|n| (format!("f{n}"), json!({"function": function})));
        Setup::chain(USERS, functions.collect())
    };
    let (short, long) = (setup(1), setup(1 + CHAIN));
    let (mut short_costs, mut added) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let a = rig.cost(&short, capture, LENGTH)?.0.cycles.undisturbed;
        let b = rig.cost(&long, capture, LENGTH)?.0.cycles.undisturbed;
        short_costs.push(a);
        added.push((b - a) / CHAIN as f64);
    }
    println!("\none more `{function}` in a chain ({} against 1)", 1 + CHAIN);
    println!("  chain of one           {} cycles/packet", Spread::of(&short_costs));
    println!("  each further           {} cycles/packet (mark: {mark:.0})", Spread::of(&added));
    Ok(())
}

/// Five small functions: one loop of machine code, against five calls. Forwarding
/// without functions is taken off both.
fn fused(rig: &Rig, capture: &Path) -> Result<(), Failure> {
    let rewrite = |key: &str, from: &str, to: &str| json!({"function": "rewrite-address", "config": {key: [{"from": from, "to": to}]}});
    let meter = json!({"singleRate": {"committedRate": "1 Gbit/s", "committedBurst": "1 MiB"}});
    let functions = [
        ("count", json!({"function": "counter"})),
        ("police", json!({"function": "marker", "config": {"meter": meter}})),
        ("there", rewrite("destination", "198.51.100.0/24", "192.0.2.0/24")),
        ("here", rewrite("source", "10.0.0.0/8", "100.0.0.0/8")),
        ("swap", json!({"function": "forward"})),
    ];
    let setup = |composition: &str| {
        let functions = functions.iter().cloned().map(|(name, mut function)| {
            function["composition"] = json!(composition);
            (name.to_owned(), function)
        });
        Setup::chain(USERS, functions.collect())
    };
    let (none, call, fused) = (Setup::forwarding(USERS), setup("call"), setup("fused"));
    let (mut called, mut one_loop, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let base = rig.cost(&none, capture, LENGTH)?.0.cycles.undisturbed;
        let a = rig.cost(&call, capture, LENGTH)?.0.cycles.undisturbed - base;
        let b = rig.cost(&fused, capture, LENGTH)?.0.cycles.undisturbed - base;
        ratios.push(b / a);
        called.push(a);
        one_loop.push(b);
    }
    let names = "counter, marker, rewrite-address twice, forward";
    println!("\na chain of five functions, without forwarding itself ({names})");
    println!("  called                 {} cycles/packet", Spread::of(&called));
    println!("  fused                  {} cycles/packet", Spread::of(&one_loop));
    println!("  ratio                  {} (mark: 0.60)", Spread::of(&ratios));
    Ok(())
}

/// Two workers with a source each, against one.
fn workers(rig: &Rig, capture: &Path) -> Result<(), Failure> {
    if rig.cores.traffic.is_none() {
        println!("\ntwo workers: not measured, this machine has one core");
        return Ok(());
    }
    let half = |rest| rig.capture(Content { parts: 2, rest, ..Content::of(USERS, 64) });
    let steered: [PathBuf; 2] = [half(0)?, half(1)?];
    let crossing = [capture.to_owned(), capture.to_owned()];
    for (what, captures, mark) in [
        ("each with its own users", steered, " (mark: 1.80)"),
        ("half of the packets cross over", crossing, ""),
    ] {
        let (mut one, mut two, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let a = rig.rate(&captures[..1], LENGTH)? / 1e6;
            let b = rig.rate(&captures, LENGTH)? / 1e6;
            ratios.push(b / a);
            one.push(a);
            two.push(b);
        }
        println!("\ntwo workers on two cores, a source each, {what}");
        println!("  one                    {} Mpps", Spread::of(&one));
        println!("  two                    {} Mpps", Spread::of(&two));
        println!("  ratio                  {}{mark}", Spread::of(&ratios));
    }
    Ok(())
}

/// Several measurements of one thing.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        Spread { median: at(sorted.len() / 2), least: at(0), most: at(sorted.len() - 1) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.2}  [{:.2} … {:.2}]", self.median, self.least, self.most)
    }
}
