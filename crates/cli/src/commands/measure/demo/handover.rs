//! One user that moves from a base station to another behind a gateway, under traffic.
//!
//! It stands apart from the rest of the demo: three nodes of its own, their controller
//! and the traffic take turns in one thread, so that it needs one core only.

use std::time::Duration;

use serde::Serialize;
use weft_bench::experiments::handover::arrivals;
use weft_bench::results::Series;
use weft_dpdk::Eal;
use weft_rig::Cores;
use weft_rig::handover::{Chain, Course, Faults, Handover, Outcome, Phase, Scene, World};

use super::check::Check;
use super::scene::FRAME_BYTES;
use crate::failure::Failure;
use crate::number::{count, counted, plural};

/// Who moves.
pub const SCENE: Scene = Scene {
    users: 1,
    chain: Chain::Metered,
    frame_bytes: FRAME_BYTES,
    buffers: 4095,
    is_kept: false,
};
/// Packets per second to the user, who returns them.
const RATE: f64 = 10_000.0;
const PAUSE: Duration = Duration::from_millis(25);
/// Moves, of which the one is shown whose packets are as late as in half of them.
const MOVES: u32 = 9;

/// What the move came to.
#[derive(Clone, Debug, Serialize)]
pub struct HandoverReport {
    /// Packets per second to the user, and as many back.
    pub packets_per_second: f64,
    /// Packets that were sent, in all moves.
    pub sent: usize,
    /// Packets that did not come to the user, or not back.
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// Packets that waited at gates, and that one station forwarded to the other.
    pub waited: u64,
    pub forwarded: u64,
    /// The longest time in which nothing came to the user, in microseconds.
    pub gap_us: f64,
    /// The largest delay there and back, less the median before the move.
    pub added_delay_us: f64,
    /// From the order until delays were as before.
    pub normal_us: f64,
    /// When each phase of the move ended, in microseconds since the order.
    pub phases: Vec<PhaseReport>,
    /// What is drawn of it.
    #[serde(skip)]
    pub series: Vec<Series>,
}

/// The end of a phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    pub name: &'static str,
    pub end_us: f64,
}

/// What the figure calls the rate.
pub const RATE_NAME: &str = "10 kpps";

/// Moves a user.
///
/// # Errors
/// What the machine lacks, or that the user did not move at all.
pub fn run(eal: &'static Eal) -> Result<HandoverReport, Failure> {
    let failed = |error: String| Failure::broken(format!("a user that moves: {error}"));
    let cores = Cores { traffic: None, ..Cores::choose() };
    let mut world = World::build(eal, cores, "demo", SCENE).map_err(failed)?;
    let course = Course { rate: RATE, moves: MOVES, pause: PAUSE };
    let outcome = world.perform(&course).map_err(failed)?;
    let typical = outcome.typical().ok_or_else(|| failed("it did not".to_owned()))?;
    Ok(HandoverReport::new(typical, &outcome))
}

impl HandoverReport {
    fn new(handover: &Handover, outcome: &Outcome) -> HandoverReport {
        let Faults { lost, duplicated, reordered, .. } = outcome.faults;
        // A thread that is put aside before the order has sent nothing to compare with.
        let disturbed = handover.disturbed.first().copied().unwrap_or_default();
        let ends = Phase::ALL.into_iter().zip(handover.ends(0));
        let phase = |(phase, end): (Phase, Option<f64>)| {
            Some(PhaseReport { name: phase.name(), end_us: end? })
        };
        HandoverReport {
            packets_per_second: RATE,
            sent: outcome.packets,
            lost,
            duplicated,
            reordered,
            waited: handover.waited,
            forwarded: handover.forwarded,
            gap_us: disturbed.gaps[0],
            added_delay_us: disturbed.added,
            normal_us: disturbed.normal,
            phases: ends.filter_map(phase).collect(),
            series: arrivals::series(handover, RATE_NAME),
        }
    }

    /// That the move did no harm.
    pub fn check(&self) -> Check {
        let HandoverReport { sent, lost, duplicated, reordered, .. } = *self;
        let numbers = format!(
            "{lost} of {} {} to it and back were lost, {duplicated} copies, {reordered} overtaken",
            count(sent as u64),
            plural(sent as u64, "packet")
        );
        let passed = sent > 0 && lost + duplicated + reordered == 0;
        Check { name: "a user that moved lost nothing", passed, numbers }
    }

    /// What it came to, in words.
    pub fn text(&self) -> String {
        let normal = match self.normal_us {
            0.0 => "no packet was later than any before the order".to_owned(),
            normal => format!("{normal:.0} µs after the order all was as before"),
        };
        format!(
            "handover: one user at {} packets/s went from a base station to another, and back again: \
             lost {}\n\
             nothing came to it for {:.0} µs, {} waited; {normal}\n\
             (Pinczel et al. state 2 ms and 6 ms)\n",
            count(RATE as u64),
            self.lost,
            self.gap_us,
            counted(self.waited, "packet"),
        )
    }
}
