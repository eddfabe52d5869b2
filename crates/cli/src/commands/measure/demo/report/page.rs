//! The report as a page, `report.html`: what the bench's reports are made of, from
//! a single run.

use weft_bench::experiments::handover::arrivals;
use weft_bench::machine::Machine;
use weft_bench::report::{self, ReportError};
use weft_bench::results::{Axis, Better, Figure, FigureKind, Point, Results, Series};
use weft_dpdk::Eal;

use super::print;
use super::{Report, StreamReport, Throughput};
use crate::commands::measure::demo::capacity::Capacity;
use crate::commands::measure::demo::cost::Cost;
use crate::commands::measure::demo::handover::RATE_NAME;
use crate::number::{count, counted, packet_rate, plural};

const RATE: &str = "delivered";
/// The series of costs: at the rate that was sent, at full bursts.
const COSTS: [&str; 2] = ["at the rate sent", "at full bursts"];

/// The page.
///
/// # Errors
/// When a figure cannot be drawn.
pub fn html(eal: &Eal, report: &Report) -> Result<String, ReportError> {
    report::page(&[results(eal, report)])
}

fn results(eal: &Eal, report: &Report) -> Results {
    let mut results = Results::new("demo", Machine::observe(eal));
    results.title = "A node at work".to_owned();
    results.command = "weft demo".to_owned();
    results.says = says(report);
    let setup = &report.setup;
    let parameters = [
        ("users", serde_json::json!(setup.users)),
        ("rate", serde_json::json!(setup.rate)),
        ("seconds", serde_json::json!(setup.seconds)),
        ("frameBytes", serde_json::json!(setup.frame_bytes)),
    ];
    results.parameters = parameters.map(|(name, value)| (name.to_owned(), value)).into();
    let streams = &report.streams;
    let mut rate = series(RATE, "stream", "packets/s", Better::Higher);
    rate.points = points(streams.iter().map(|one| (name(one), one.delivered_per_second)));
    let costs = COSTS.into_iter().zip([&report.cost, &report.capacity.cost]);
    results.series = costs.map(|(name, cost)| self::cost(name, cost)).collect();
    results.series.push(rate);
    let Capacity { packets_per_second, cycles_per_packet, .. } = report.capacity;
    let full = [
        ("packets per second of one core at full bursts", packets_per_second),
        ("cycles per packet at full bursts", cycles_per_packet),
    ];
    results.derived = full.map(|(name, value)| (name.to_owned(), value)).into();
    let delays = streams.iter().map(delays);
    results.series.extend(delays);
    results.figures = figures(streams);
    results.series.extend(report.handover.series.iter().cloned());
    results.figures.extend(arrivals::drawing(&results, RATE_NAME));
    results.notes = report
        .checks
        .iter()
        .map(|check| {
            let verdict = if check.passed { "holds" } else { "does not hold" };
            format!("{}: {verdict} ({}).", check.name, check.numbers)
        })
        .collect();
    results.notes.extend(unsent(&report.throughput, setup.seconds));
    results
}

fn cost(name: &str, cost: &Cost) -> Series {
    let mut series = series(name, "stage or function", "cycles/packet", Better::Lower);
    let parts = cost.stages.iter().chain(&cost.functions);
    series.points = points(parts.map(|part| (part.name.clone(), part.cycles_per_packet)));
    series
}

/// The lines that report what other programs took from the demo: time without a core, and
/// packets that were never sent.
fn unsent(all: &Throughput, seconds: f64) -> Option<String> {
    let text = print::machine(all, seconds);
    (!text.is_empty()).then(|| text.replace('\n', " ").trim_end().to_owned())
}

fn says(report: &Report) -> String {
    let passed = report.checks.iter().filter(|check| check.passed).count();
    format!(
        "At full bursts one core carries {}: {:.0} cycles per packet. Of {} {} sent for {} {}, {} \
         were delivered and every other one was dropped for a named reason: {passed} of {} hold.",
        packet_rate(report.capacity.packets_per_second as u64),
        report.capacity.cycles_per_packet,
        count(report.throughput.sent),
        plural(report.throughput.sent, "packet"),
        count(report.setup.users.into()),
        plural(report.setup.users.into(), "user"),
        count(report.throughput.delivered),
        counted(report.checks.len() as u64, "check"),
    )
}

fn figures(streams: &[StreamReport]) -> Vec<Figure> {
    let delays: Vec<String> = streams.iter().map(name).collect();
    let rate = figure("rate", "Delivered", &[RATE.to_owned()]);
    let cost = figure("cost", "What packets cost the node", &COSTS.map(str::to_owned));
    let delay = figure("delay", "One-way delay", &delays);
    vec![
        Figure {
            caption: "Each stage of the way of a packet, then each function for the packets that \
                      come to it; from a sample of the bursts. At full bursts generator and node \
                      take turns on one core, and the generator's turns are not counted."
                .to_owned(),
            kind: FigureKind::Grouped,
            y: Axis::linear("Cost", "cycles/packet"),
            ..cost
        },
        Figure {
            caption: "Packets per second of each chain and direction.".to_owned(),
            y: Axis::linear("Delivered", "packets/s"),
            ..rate
        },
        Figure {
            caption: "From sender to receiver (RFC 7679), percentiles of all packets.".to_owned(),
            kind: FigureKind::Grouped,
            y: Axis::log("Delay", "µs"),
            ..delay
        },
    ]
}

fn figure(name: &str, title: &str, series: &[String]) -> Figure {
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: String::new(),
        kind: FigureKind::Bars,
        x: Axis::default(),
        y: Axis::default(),
        series: series.to_vec(),
        baselines: Vec::new(),
        paper: Vec::new(),
        marks: Vec::new(),
        bar_labels: Vec::new(),
    }
}

fn delays(stream: &StreamReport) -> Series {
    let delay = stream.delay;
    let quantiles = [
        ("p50", delay.p50),
        ("p90", delay.p90),
        ("p99", delay.p99),
        ("p99.9", delay.p999),
        ("max", delay.max),
    ];
    let mut series = series(&name(stream), "percentile", "µs", Better::Lower);
    series.points = points(quantiles.map(|(name, delay)| (name.to_owned(), delay as f64 / 1000.0)));
    series
}

fn name(stream: &StreamReport) -> String {
    format!("{} {}", stream.chain, stream.direction)
}

fn series(name: &str, x: &str, unit: &str, better: Better) -> Series {
    Series { better: Some(better), ..Series::new(name, x, unit) }
}

fn points(values: impl IntoIterator<Item = (String, f64)>) -> Vec<Point> {
    values.into_iter().filter_map(|(name, value)| Point::of(name, vec![value]).ok()).collect()
}
