//! What was measured.

use serde::Serialize;
use weft_traffic::{Profile, Source, Stream, Tally};

use super::course::Outcome;

/// What was measured, as it is printed and written.
#[derive(Serialize)]
pub struct Summary {
    schema: &'static str,
    pub profile: String,
    pub seconds: f64,
    pub interrupted: bool,
    pub threads: u32,
    /// What the generator reaches by itself on a memory device, packets per
    /// second.
    pub generator_limit: f64,
    pub sources: Vec<SourceSummary>,
    pub wires: Vec<WireSummary>,
    /// Packets that arrived and were damaged or of no stream.
    pub damaged: u64,
    pub foreign: u64,
    /// Packets that found a receive queue full, by port.
    pub missed: Vec<(String, u64)>,
}

/// What became of the packets of one source.
#[derive(Serialize)]
pub struct SourceSummary {
    pub from: String,
    pub to: Option<String>,
    pub offered: u64,
    pub sent: u64,
    /// By reason: refused by the port, no buffer, too late.
    pub refused: u64,
    pub no_buffer: u64,
    pub late: u64,
    pub packets_per_second: f64,
    /// None where the rate is unlimited, and there are no set gaps.
    pub pacing: Option<PacingSummary>,
    pub streams: Vec<StreamSummary>,
}

/// How well the set gaps were kept; nanoseconds.
#[derive(Serialize)]
pub struct PacingSummary {
    pub gaps: u64,
    /// Share of the gaps that were wrong by at most 20 %.
    pub near: f64,
    pub error_p50: u64,
    pub error_p99: u64,
    pub error_max: u64,
}

/// What became of the packets of one stream.
#[derive(Serialize)]
pub struct StreamSummary {
    pub name: String,
    pub flows: usize,
    pub sent: u64,
    /// Of these, packets of a capture without a stamp: whether they arrive is not told.
    pub unstamped: u64,
    /// None where nothing is received.
    pub arrived: Option<ArrivedSummary>,
}

/// What arrived of one stream.
#[derive(Serialize)]
pub struct ArrivedSummary {
    pub received: u64,
    pub bytes: u64,
    pub lost: u64,
    pub duplicated: u64,
    /// RFC 4737 §3.3, and the largest extent, §4.2.
    pub reordered: u64,
    pub extent_max: u64,
    /// None where there are too many flows for it.
    pub density: Option<DensitySummary>,
    pub misaddressed: u64,
    pub flows_with_loss: usize,
    /// Nanoseconds.
    pub delay: DelaySummary,
    pub timelines: Vec<TimelineSummary>,
}

/// Reorder density (RFC 5236 §4): packets by displacement, late ones positive.
#[derive(Serialize)]
pub struct DensitySummary {
    pub threshold: usize,
    /// Displacement and packets.
    pub counts: Vec<(i32, u64)>,
    /// Displaced by more than the threshold.
    pub beyond: u64,
    /// The share of packets that came at their place.
    pub in_place: f64,
}

#[derive(Serialize)]
pub struct DelaySummary {
    pub min: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// When the packets of one flow arrived: sequence number, and nanoseconds since
/// the first was sent.
#[derive(Serialize)]
pub struct TimelineSummary {
    flow: u32,
    arrivals: Vec<(u32, u64)>,
    unseen: u64,
}

/// What a wire did on purpose.
#[derive(Serialize)]
pub struct WireSummary {
    pub from: String,
    pub to: String,
    pub carried: u64,
    pub lost: u64,
    pub damaged: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub delay_nanoseconds: u64,
}

impl Summary {
    /// The summary of an outcome.
    pub fn new(profile: &Profile, outcome: &Outcome, threads: u32, limit: f64) -> Summary {
        let rig = &outcome.rig;
        let seconds = outcome.sending.as_secs_f64();
        let sources = rig.sending.sources.iter().enumerate();
        let receivers = || rig.receiving.inlets.iter().map(|inlet| &inlet.receiver);
        let ports = profile.ports.iter().zip(&rig.ports);
        Summary {
            schema: "weft/traffic/v1",
            profile: profile.name.clone(),
            seconds,
            interrupted: outcome.interrupted,
            threads,
            generator_limit: limit,
            sources: sources
                .map(|(nth, (source, _))| SourceSummary::new(profile, nth, source, outcome))
                .collect(),
            wires: wires(profile, outcome),
            damaged: receivers().map(|receiver| receiver.damaged()).sum(),
            foreign: receivers().map(|receiver| receiver.foreign()).sum(),
            missed: ports
                .map(|(plan, port)| (plan.name.clone(), port.statistics().rx_missed))
                .filter(|(_, missed)| *missed > 0)
                .collect(),
        }
    }
}

fn wires(profile: &Profile, outcome: &Outcome) -> Vec<WireSummary> {
    let wires = profile.wires.iter().zip(outcome.rig.receiving.done());
    let name = |port: usize| profile.ports[port].name.clone();
    wires
        .map(|(plan, done)| WireSummary {
            from: name(plan.from),
            to: name(plan.to),
            carried: done.carried,
            lost: done.lost,
            damaged: done.damaged,
            duplicated: done.duplicated,
            reordered: done.reordered(),
            delay_nanoseconds: plan.harm.delay.as_nanos() as u64,
        })
        .collect()
}

impl SourceSummary {
    fn new(profile: &Profile, nth: usize, source: &Source, outcome: &Outcome) -> SourceSummary {
        let plan = &profile.sources[nth];
        let tally = source.tally();
        let Tally { sent, refused, no_buffer, late } = tally;
        let arrived = |number: u16| {
            let streams = outcome.rig.receiving.inlets.iter();
            let mut streams = streams.flat_map(|inlet| inlet.receiver.streams());
            streams.find(|stream| stream.expected.stream == number)
        };
        let streams = source.streams().iter().zip(&plan.streams);
        let pacing = source.pacing();
        SourceSummary {
            from: profile.ports[plan.from].name.clone(),
            to: plan.to.map(|port| profile.ports[port].name.clone()),
            offered: tally.offered(),
            sent,
            refused,
            no_buffer,
            late,
            packets_per_second: sent as f64 / outcome.sending.as_secs_f64().max(1e-9),
            pacing: (pacing.gaps > 0).then(|| PacingSummary {
                gaps: pacing.gaps,
                near: pacing.near_share(),
                error_p50: pacing.errors.value_at_quantile(0.5),
                error_p99: pacing.errors.value_at_quantile(0.99),
                error_max: pacing.errors.max(),
            }),
            streams: streams
                .map(|(sending, plan)| StreamSummary {
                    name: plan.name.clone(),
                    flows: sending.flows.len(),
                    sent: sending.sent,
                    unstamped: sending.unstamped,
                    arrived: arrived(sending.stream).map(|stream| {
                        let stamped = sending.sent - sending.unstamped;
                        ArrivedSummary::new(stream, stamped, &sending.flows)
                    }),
                })
                .collect(),
        }
    }
}

impl ArrivedSummary {
    fn new(stream: &Stream, sent: u64, sent_flows: &[u64]) -> ArrivedSummary {
        let flows = stream.flows().iter();
        let losses = flows.clone().zip(sent_flows).filter(|(flow, sent)| flow.lost(**sent) > 0);
        let delays = &stream.delays;
        ArrivedSummary {
            received: stream.received,
            bytes: stream.bytes,
            lost: stream.lost(sent),
            duplicated: stream.duplicated,
            reordered: stream.reordered,
            extent_max: flows.map(|flow| flow.extent).max().unwrap_or(0),
            density: stream.density().map(DensitySummary::new),
            misaddressed: stream.misaddressed,
            flows_with_loss: losses.count(),
            delay: DelaySummary {
                min: if delays.is_empty() { 0 } else { delays.min() },
                p50: delays.value_at_quantile(0.5),
                p99: delays.value_at_quantile(0.99),
                p999: delays.value_at_quantile(0.999),
                max: delays.max(),
            },
            timelines: stream.timelines.iter().map(TimelineSummary::new).collect(),
        }
    }
}

impl DensitySummary {
    fn new(density: weft_traffic::Density) -> DensitySummary {
        DensitySummary {
            threshold: density.threshold,
            in_place: density.share(0),
            beyond: density.beyond,
            counts: density.counts.into_iter().collect(),
        }
    }
}

impl TimelineSummary {
    fn new(timeline: &weft_traffic::Timeline) -> TimelineSummary {
        let first = timeline.seen.iter().map(|seen| seen.sent).min().unwrap_or(0);
        let per_cycle = 1e9 / weft_dpdk::tsc::hz() as f64;
        let nanoseconds = |cycle: u64| (cycle.saturating_sub(first) as f64 * per_cycle) as u64;
        let arrivals = timeline.seen.iter();
        TimelineSummary {
            flow: timeline.flow,
            arrivals: arrivals.map(|seen| (seen.sequence, nanoseconds(seen.arrived))).collect(),
            unseen: timeline.unseen,
        }
    }
}
