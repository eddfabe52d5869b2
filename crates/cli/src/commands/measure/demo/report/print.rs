//! The report in words.

use super::{Delay, DropReport, Report, Setup, StreamReport, Throughput};
use crate::commands::measure::demo::capacity::Capacity;
use crate::commands::measure::demo::cost::{Cost, CostPart};
use crate::commands::measure::demo::machine::Taken;
use crate::number::{count, microseconds, packet_rate, percent, plural, rate};
use crate::table::Table;

/// A report as text for a terminal.
pub fn text(report: &Report) -> String {
    let parts = [
        setup(&report.setup),
        capacity(&report.capacity),
        cost(&report.cost, &report.capacity.cost, report.throughput.sent_per_second),
        traffic(&report.streams, &report.throughput),
        delays(&report.streams),
        machine(&report.throughput, report.setup.seconds),
        drops(&report.drops),
        report.handover.text(),
        report.sessions.text(),
        checks(report),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn setup(setup: &Setup) -> String {
    let threads = match setup.threads {
        true => "node and traffic with a thread each",
        false => "node and traffic in one thread",
    };
    let pages = if setup.huge_pages { "huge pages" } else { "no huge pages" };
    format!(
        "Weft {}, {}, {pages}, {threads}\n\
         {} {} for {:.1} s, frames of {} bytes, {} to be sent\n\
         half of the users take the chain full = count -> police -> nearby, the others none;\n\
         {} in the chain send{} {} times the {} that each of them is held to\n",
        setup.weft,
        setup.dpdk,
        count(setup.users.into()),
        plural(setup.users.into(), "user"),
        setup.seconds,
        setup.frame_bytes,
        packet_rate(setup.rate),
        setup.users_over,
        if setup.users_over == 1 { "s" } else { "" },
        setup.over,
        rate(setup.user_rate),
    )
}

fn traffic(streams: &[StreamReport], all: &Throughput) -> String {
    let mut table = Table::new(&["traffic", "users", "sent", "delivered", "delivered/s", ""], 1);
    for stream in streams {
        table.row([
            name(stream),
            count(stream.users as u64),
            count(stream.sent),
            count(stream.delivered),
            packet_rate(stream.delivered_per_second as u64),
            rate(stream.delivered_bits_per_second as u64),
        ]);
    }
    let (sent, delivered) = (count(all.sent), count(all.delivered));
    let per_second = packet_rate(all.delivered_per_second as u64);
    table.row(["all".to_owned(), String::new(), sent, delivered, per_second]);
    table.text()
}

fn name(stream: &StreamReport) -> String {
    format!("{} {}", stream.chain, stream.direction)
}

fn delays(streams: &[StreamReport]) -> String {
    let mut table = Table::new(&["delay in µs", "p50", "p90", "p99", "p99.9", "max"], 1);
    for stream in streams {
        let Delay { p50, p90, p99, p999, max } = stream.delay;
        let delays = [p50, p90, p99, p999, max].map(microseconds);
        table.row([name(stream)].into_iter().chain(delays));
    }
    table.text()
}

/// The most that the node carries.
fn capacity(capacity: &Capacity) -> String {
    let Capacity { packets_per_second, cycles_per_packet, cost, sent, delivered, .. } = capacity;
    let lost = match sent - delivered.min(sent) {
        0 => "none lost".to_owned(),
        lost => format!("{} LOST", count(lost)),
    };
    let functions: f64 = cost.functions.iter().map(CostPart::mean).sum();
    let stages = cost.stages.iter().flat_map(|stage| {
        // *forward* is without the functions.
        let functions = (stage.name == "forward").then(|| format!("functions {functions:.0}"));
        functions.into_iter().chain([format!("{} {:.0}", stage.name, stage.cycles_per_packet)])
    });
    format!(
        "at full bursts one core carries {}: {cycles_per_packet:.0} cycles per packet\n\
         ({}; bursts of {:.0}, {} packets, {lost})\n",
        packet_rate(*packets_per_second as u64),
        stages.collect::<Vec<_>>().join(", "),
        cost.packets_per_burst,
        count(*sent),
    )
}

/// What a packet costs, at the rate that was sent and at full bursts.
fn cost(now: &Cost, full: &Cost, rate: f64) -> String {
    let cycles = |cycles: f64| format!("{cycles:.1}");
    let now_name = format!("at {}", packet_rate(rate as u64));
    let titles = ["stage", "function", now_name.as_str(), "at full bursts", "share"];
    let mut table = Table::new(&titles, 2);
    let share = |part: &CostPart| percent(part.mean() / full.mean());
    for (stage, at_full) in now.stages.iter().zip(&full.stages) {
        let costs = [cycles(stage.cycles_per_packet), cycles(at_full.cycles_per_packet)];
        table.row(
            [stage.name.clone(), String::new()].into_iter().chain(costs).chain([share(at_full)]),
        );
        if stage.name == "forward" {
            for (function, at_full) in now.functions.iter().zip(&full.functions) {
                let costs = [cycles(function.cycles_per_packet), cycles(at_full.cycles_per_packet)];
                let row = [String::new(), function.name.clone()].into_iter().chain(costs);
                table.row(row.chain([share(at_full)]));
            }
        }
    }
    let total = |parts: &[CostPart]| parts.iter().map(|part| part.cycles_per_packet).sum::<f64>();
    let mut sum = |functions: &str, of: &dyn Fn(&Cost) -> f64| {
        table.row(["together".to_owned(), functions.to_owned(), cycles(of(now)), cycles(of(full))]);
    };
    sum("none", &|cost| total(&cost.stages));
    sum("all", &|cost| total(&cost.stages) + total(&cost.functions));
    sum("on average", &Cost::mean);
    let ghz = now.tsc_hz as f64 / 1e9;
    format!(
        "{}cycles per packet at {ghz:.2} GHz, of a function those of the packets that come to it;\n\
         with {:.1} packets per burst and with {:.1}\n",
        table.text(),
        now.packets_per_burst,
        full.packets_per_burst
    )
}

/// What the machine took while packets were sent, and what that did to them.
pub fn machine(all: &Throughput, seconds: f64) -> String {
    let Taken { sender, node, stolen } = all.taken;
    if all.unsent == 0 && sender.max(node).max(stolen) < seconds / 100.0 {
        return String::new();
    }
    let mut text = format!(
        "the machine: of {seconds:.1} s the sender waited {sender:.2} s for a core and the node {node:.2} s"
    );
    if stolen > 0.0 {
        text.push_str(&format!("; the hypervisor took {stolen:.2} s"));
    }
    text.push_str(".\nDelays have these waits in them.\n");
    if all.unsent > 0 {
        let share = all.unsent as f64 / (all.unsent + all.sent).max(1) as f64;
        let reasons =
            [(all.late, "the sender was late"), (all.refused, "the queue to the node was full")];
        let reasons = reasons.into_iter().filter(|(packets, _)| *packets > 0);
        let reasons = reasons.map(|(packets, why)| format!("for {} {why}", count(packets)));
        text.push_str(&format!(
            "Of the packets that were due {} never came to the node: {}.\n",
            percent(share),
            reasons.collect::<Vec<_>>().join(", ")
        ));
    }
    text
}

fn drops(drops: &[DropReport]) -> String {
    let mut table = Table::new(&["dropped", "at", "packets"], 2);
    for drop in drops {
        let at = drop.at.clone().unwrap_or_default();
        table.row([format!("{}: {}", drop.reason, drop.meaning), at, count(drop.packets)]);
    }
    if table.is_empty() { "nothing was dropped\n".to_owned() } else { table.text() }
}

fn checks(report: &Report) -> String {
    let line = |check: &crate::commands::measure::demo::check::Check| {
        let verdict = if check.passed { "ok" } else { "FAILED" };
        format!("{verdict:<6}  {}: {}\n", check.name, check.numbers)
    };
    report.checks.iter().map(line).collect()
}
