//! What the demo found, in numbers.

pub mod page;
pub mod print;

use serde::Serialize;
use weft_dpdk::Eal;
use weft_traffic::{Direction, Stream, Tally};

use super::capacity::Capacity;
use super::check::{Check, checks};
use super::cost::Cost;
use super::handover::HandoverReport;
use super::machine::Taken;
use super::run::{Course, Outcome};
use super::scene::{FRAME_BYTES, OVER, Plan, Scene, is_over};
use super::sessions::SessionsReport;

/// The report; its JSON is what `--json` writes.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name and version of this format.
    pub schema: &'static str,
    pub setup: Setup,
    pub capacity: Capacity,
    pub throughput: Throughput,
    pub streams: Vec<StreamReport>,
    pub cost: Cost,
    pub drops: Vec<DropReport>,
    pub handover: HandoverReport,
    pub sessions: SessionsReport,
    pub checks: Vec<Check>,
    /// Whether all checks passed.
    pub passed: bool,
}

/// What was found beside the users' traffic, each with nodes of its own.
#[derive(Debug)]
pub struct Beside {
    pub capacity: Capacity,
    pub handover: HandoverReport,
    pub sessions: SessionsReport,
}

/// What was run, and where.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    pub weft: &'static str,
    pub dpdk: String,
    pub huge_pages: bool,
    /// Whether node and traffic had a thread each.
    pub threads: bool,
    pub users: u32,
    /// Users who send more than their rate.
    pub users_over: usize,
    /// Bits per second that each user in the chain is held to.
    pub user_rate: u64,
    /// What users over their rate send, in multiples of it.
    pub over: u32,
    /// Bytes of a frame, without check sequence.
    pub frame_bytes: usize,
    /// Packets per second that were to be sent.
    pub rate: u64,
    /// Seconds of traffic.
    pub seconds: f64,
}

/// Packets in all, and per second.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    pub sent: u64,
    /// Packets that were due but could not be sent.
    pub unsent: u64,
    /// Of these, packets that were due while the sender was not at work, for longer than it
    /// makes up for, or that are more than it can send.
    pub late: u64,
    /// Of these, packets for which the queue to the node had no room, or the sender no buffers
    /// because queues held them all.
    pub refused: u64,
    /// What the machine took meanwhile, in seconds.
    pub taken: Taken,
    pub delivered: u64,
    pub sent_per_second: f64,
    pub delivered_per_second: f64,
}

/// The packets of one chain in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct StreamReport {
    pub chain: &'static str,
    pub direction: &'static str,
    pub users: usize,
    pub sent: u64,
    pub delivered: u64,
    pub delivered_per_second: f64,
    pub delivered_bits_per_second: f64,
    pub delay: Delay,
}

/// One-way delays in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delay {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Packets dropped for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct DropReport {
    pub reason: String,
    /// The function or port, where the reason belongs to one.
    pub at: Option<String>,
    pub meaning: String,
    pub packets: u64,
}

impl Report {
    /// The report on an outcome.
    pub fn new(
        eal: &Eal,
        scene: &Scene,
        course: &Course,
        outcome: &Outcome,
        Beside { capacity, handover, sessions }: Beside,
    ) -> Report {
        let mut checks = checks(scene, outcome);
        checks.push(capacity.check());
        checks.push(handover.check());
        checks.extend(sessions.checks());
        let seconds = outcome.sending.as_secs_f64();
        let streams = scene.plans.iter().zip(&outcome.streams);
        Report {
            schema: "weft/demo/v1",
            setup: Setup {
                weft: env!("CARGO_PKG_VERSION"),
                dpdk: eal.version(),
                huge_pages: eal.has_huge_pages(),
                threads: course.threads,
                users: scene.users,
                users_over: (0..scene.metered()).filter(|user| is_over(*user as u32)).count(),
                user_rate: scene.allowance.rate.0,
                over: OVER,
                frame_bytes: FRAME_BYTES,
                rate: scene.rate,
                seconds,
            },
            capacity,
            throughput: Throughput::new(&outcome.streams, outcome.taken, seconds),
            streams: streams
                .map(|(plan, counted)| StreamReport::new(plan, counted, seconds))
                .collect(),
            cost: Cost::of(&outcome.node),
            drops: drops(outcome),
            handover,
            sessions,
            passed: checks.iter().all(|check| check.passed),
            checks,
        }
    }

    /// The report as JSON text.
    pub fn json(&self) -> String {
        // Numbers, texts and lists only: there is nothing that could fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl Throughput {
    fn new(streams: &[(Tally, Stream)], taken: Taken, seconds: f64) -> Throughput {
        let sent = streams.iter().map(|(tally, _)| tally.sent).sum();
        let delivered = streams.iter().map(|(_, stream)| stream.received).sum();
        Throughput {
            sent,
            unsent: streams.iter().map(|(tally, _)| tally.unsent()).sum(),
            late: streams.iter().map(|(tally, _)| tally.late).sum(),
            refused: streams.iter().map(|(tally, _)| tally.refused + tally.no_buffer).sum(),
            taken,
            delivered,
            sent_per_second: sent as f64 / seconds,
            delivered_per_second: delivered as f64 / seconds,
        }
    }
}

impl StreamReport {
    fn new(plan: &Plan, (tally, stream): &(Tally, Stream), seconds: f64) -> StreamReport {
        let delay = |quantile| stream.delays.value_at_quantile(quantile);
        StreamReport {
            chain: plan.chain.name(),
            direction: match plan.direction {
                Direction::Uplink => "uplink",
                Direction::Downlink => "downlink",
            },
            users: plan.weights.len(),
            sent: tally.sent,
            delivered: stream.received,
            delivered_per_second: stream.received as f64 / seconds,
            delivered_bits_per_second: stream.bytes as f64 * 8.0 / seconds,
            delay: Delay {
                p50: delay(0.5),
                p90: delay(0.9),
                p99: delay(0.99),
                p999: delay(0.999),
                max: stream.delays.max(),
            },
        }
    }
}

/// All drops, those behind the node included.
fn drops(outcome: &Outcome) -> Vec<DropReport> {
    let of_node = outcome.node.drops.iter().map(|drop| DropReport {
        reason: drop.reason.clone(),
        at: drop.function.clone().or_else(|| drop.port.clone()),
        meaning: drop.meaning.clone(),
        packets: drop.packets,
    });
    let behind = DropReport {
        reason: "rx_missed".to_owned(),
        at: None,
        meaning: "the demo's own receive queue was full".to_owned(),
        packets: outcome.missed,
    };
    of_node.chain([behind]).filter(|drop| drop.packets > 0).collect()
}
