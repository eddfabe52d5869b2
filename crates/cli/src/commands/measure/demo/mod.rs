//! `weft demo`: a node at work, and the proof that it works.
//!
//! One process holds all of it: the node of `examples/demo.yaml` between two
//! memory rings, and at the far end of each ring traffic that is accounted for
//! packet by packet. So it needs neither root nor huge pages nor a network.
//!
//! 1. [`calibrate`] finds a rate that this machine keeps, unless one is given;
//! 2. [`scene`] fits users, rates and the node's configuration to each other;
//! 3. [`mod@run`] drives node and traffic, and gathers what was counted; [`machine`] tells what
//!    other programs took from them;
//! 4. [`capacity`] finds what the node carries at most, and [`cost`] what takes its cycles;
//! 5. [`handover`] moves a user between nodes;
//! 6. [`sessions`] has a control plane set users up by PFCP, and compares what it hears of their
//!    usage with what passed;
//! 7. [`check`] compares what was sent with what arrived and what the node says;
//! 8. [`mod@report`] puts it into numbers, [`print`](report::print) into words.

mod calibrate;
mod capacity;
mod check;
mod cost;
mod drive;
mod end;
mod handover;
mod machine;
mod progress;
mod report;
mod run;
mod scene;
mod sessions;

use std::path::PathBuf;
use std::time::Duration;

use clap::value_parser;
use weft_bench::results::write_whole;
use weft_dpdk::Eal;

use crate::failure::Failure;
use crate::number::counted;
use crate::{environment, output};
use report::{Beside, Report};
use run::Course;
use scene::Scene;

#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds of traffic
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Packets per second, both directions together; by default what this
    /// machine keeps with ease
    #[arg(long, value_name = "PPS", value_parser = value_parser!(u64).range(100..=100_000_000))]
    rate: Option<u64>,
    /// Users; half of them take the chain of functions
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(4..=10_000))]
    users: u32,
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report to this file, as a page for a browser
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    html: PathBuf,
}

/// Runs the demo and prints its report.
///
/// # Errors
/// What the machine lacks, or that a check failed.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let duration = Duration::from_secs(arguments.seconds);
    let course = Course { duration, threads: cores > 1 };
    let (eal, report) = report(arguments.users, arguments.rate, &course)?;
    output::print(&report::print::text(&report))?;
    let page = report::page::html(eal, &report).map_err(Failure::broken)?;
    write_whole(&arguments.html, page.as_bytes()).map_err(Failure::broken)?;
    output::line(&format!("\nreport: {}", arguments.html.display()))?;
    if let Some(path) = &arguments.json {
        let written = std::fs::write(path, report.json());
        written.map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    }
    match report.checks.iter().filter(|check| !check.passed).count() {
        0 => Ok(()),
        failed => {
            let checks = counted(report.checks.len() as u64, "check");
            Err(Failure::broken(format!("{failed} of {checks} failed")))
        }
    }
}

/// Runs the demo with so many users and packets per second.
fn report(
    users: u32,
    rate: Option<u64>,
    course: &Course,
) -> Result<(&'static Eal, Report), Failure> {
    let example = scene::example()?;
    let means = sessions::Means::read()?;
    let beside = handover::SCENE.all_buffers() + means.buffers();
    let packets = run::PACKETS + calibrate::PACKETS + capacity::PACKETS + beside;
    let eal = environment::start(&example, packets)?;
    let calibrated =
        || calibrate::rate(eal, course.threads, |rate| Scene::new(example.clone(), users, rate));
    let rate = rate.map_or_else(calibrated, Ok)?;
    let scene = Scene::new(example, users, rate);
    let outcome = run::run(eal, &scene, course)?;
    let beside = Beside {
        capacity: capacity::run(eal, &scene, course.duration)?,
        handover: handover::run(eal)?,
        sessions: sessions::run(eal, &means, course.duration)?,
    };
    Ok((eal, Report::new(eal, &scene, course, &outcome, beside)))
}
