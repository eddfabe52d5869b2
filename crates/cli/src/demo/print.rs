//! The report in words.

use super::number::{count, microseconds, packet_rate, rate};
use super::report::{Cost, CostPart, Delay, DropReport, Report, Setup, StreamReport, Throughput};
use crate::table::Table;

/// A report as text for a terminal.
pub fn text(report: &Report) -> String {
    let parts = [
        setup(&report.setup),
        traffic(&report.streams, &report.throughput),
        delays(&report.streams),
        cost(&report.cost),
        drops(&report.drops),
        report.handover.text(),
        checks(report),
    ];
    parts.join("\n")
}

fn setup(setup: &Setup) -> String {
    let threads = match setup.threads {
        true => "node and traffic with a thread each",
        false => "node and traffic in one thread",
    };
    let pages = if setup.huge_pages { "huge pages" } else { "no huge pages" };
    format!(
        "Weft {}, {}, {pages}, {threads}\n\
         {} users for {:.1} s, frames of {} bytes, {} to be sent\n\
         half of the users take the chain full = count -> police -> nearby, the others none;\n\
         {} in the chain send {} times the {} that each of them is held to\n",
        setup.weft,
        setup.dpdk,
        count(setup.users.into()),
        setup.seconds,
        setup.frame_bytes,
        packet_rate(setup.rate),
        setup.users_over,
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
    let mut text = table.text();
    if all.unsent > 0 {
        let unsent = count(all.unsent);
        text.push_str(&format!("{unsent} more could not be sent when they were due\n"));
    }
    text
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

fn cost(cost: &Cost) -> String {
    let cycles = |cycles: f64| format!("{cycles:.1}");
    let total = |parts: &[CostPart]| parts.iter().map(|part| part.cycles_per_packet).sum::<f64>();
    let (stages, functions) = (total(&cost.stages), total(&cost.functions));
    let mut table = Table::new(&["stage", "function", "cycles/packet"], 2);
    for stage in &cost.stages {
        table.row([stage.name.clone(), String::new(), cycles(stage.cycles_per_packet)]);
        if stage.name == "forward" {
            for function in &cost.functions {
                let (name, part) = (function.name.clone(), function.cycles_per_packet);
                table.row([String::new(), name, cycles(part)]);
            }
        }
    }
    table.row(["together".to_owned(), "none".to_owned(), cycles(stages)]);
    table.row(["together".to_owned(), "all".to_owned(), cycles(stages + functions)]);
    let (ghz, burst) = (cost.tsc_hz as f64 / 1e9, cost.packets_per_burst);
    format!("{}at {ghz:.2} GHz, with {burst:.1} packets per burst\n", table.text())
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
    let line = |check: &super::check::Check| {
        let verdict = if check.passed { "ok" } else { "FAILED" };
        format!("{verdict:<6}  {}: {}\n", check.name, check.numbers)
    };
    report.checks.iter().map(line).collect()
}
