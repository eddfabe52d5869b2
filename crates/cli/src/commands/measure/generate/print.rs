//! The summary as people read it.

use std::fmt::Write;

use super::summary::{SourceSummary, StreamSummary, Summary};
use crate::number::counted;
use crate::table::Table;

/// Part of its limit from which the generator may be what is measured.
const NEAR_LIMIT: f64 = 0.8;

/// The summary as text.
pub fn text(summary: &Summary) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let stopped = if summary.interrupted { ", stopped before its time" } else { "" };
    let (name, seconds) = (&summary.profile, summary.seconds);
    let _ = writeln!(text, "{name}: {seconds:.2} s{stopped}\n");
    summary.sources.iter().for_each(|source| self::source(&mut text, source));
    streams(&mut text, summary);
    wires(&mut text, summary);
    for (port, missed) in &summary.missed {
        let _ =
            writeln!(text, "{port}: {} found the receive queue full", counted(*missed, "packet"));
    }
    for (count, what) in [(summary.damaged, "damaged"), (summary.foreign, "not of this profile")] {
        if count > 0 {
            let (packets, were) =
                (counted(count, "packet"), if count == 1 { "was" } else { "were" });
            let _ = writeln!(text, "{packets} that arrived {were} {what}");
        }
    }
    limit(&mut text, summary);
    text
}

fn source(text: &mut String, source: &SourceSummary) {
    let to = source.to.as_deref().map(|to| format!(" to {to}")).unwrap_or_default();
    let SourceSummary { from, offered, sent, refused, no_buffer, late, .. } = source;
    let unsent = refused + no_buffer + late;
    let rate = source.packets_per_second / 1e6;
    let _ = writeln!(text, "{from}{to}: {offered} offered, {sent} sent ({rate:.3} Mpps)");
    let _ = writeln!(
        text,
        "  {unsent} unsent: {late} too late, {refused} refused by the port, {no_buffer} without a buffer"
    );
    if let Some(pacing) = &source.pacing {
        let _ = writeln!(
            text,
            "  pacing: {:.2} % of gaps within 20 % of the set gap; error p50 {} ns, p99 {} ns, max {} ns",
            pacing.near * 100.0,
            pacing.error_p50,
            pacing.error_p99,
            pacing.error_max,
        );
    }
}

fn streams(text: &mut String, summary: &Summary) {
    let head = [
        "stream",
        "flows",
        "sent",
        "received",
        "lost",
        "duplicated",
        "reordered",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
    ];
    let mut table = Table::new(&head, 1);
    for stream in summary.sources.iter().flat_map(|source| &source.streams) {
        let mut row = vec![stream.name.clone(), stream.flows.to_string(), stream.sent.to_string()];
        if let Some(arrived) = &stream.arrived {
            let counts = [arrived.received, arrived.lost, arrived.duplicated, arrived.reordered];
            row.extend(counts.map(|count| count.to_string()));
            let delay = &arrived.delay;
            let delays = [delay.p50, delay.p99, delay.p999, delay.max];
            row.extend(delays.map(|delay| format!("{:.2}", delay as f64 / 1e3)));
        }
        table.row(row);
    }
    let _ = writeln!(text, "\n{}", table.text());
    for stream in summary.sources.iter().flat_map(|source| &source.streams) {
        densities(text, stream);
        if stream.unstamped > 0 {
            let StreamSummary { name, unstamped, .. } = stream;
            let _ = writeln!(
                text,
                "{name}: {unstamped} of the packets sent have no stamp, and are foreign where \
                 they arrive"
            );
        }
    }
}

/// Where packets arrived from their place in order, where any did not.
fn densities(text: &mut String, stream: &StreamSummary) {
    let density = stream.arrived.as_ref().and_then(|arrived| arrived.density.as_ref());
    let Some(density) = density.filter(|density| density.counts.iter().any(|(d, _)| *d != 0))
    else {
        return;
    };
    let late: u64 = density.counts.iter().filter(|(d, _)| *d > 0).map(|(_, count)| count).sum();
    let early: u64 = density.counts.iter().filter(|(d, _)| *d < 0).map(|(_, count)| count).sum();
    let [least, most] = [density.counts.first(), density.counts.last()];
    let _ = writeln!(
        text,
        "{}: reorder density {:.4} at 0 (RFC 5236); {} early by up to {}, {late} late \
         by up to {}, {} displaced by more than {}",
        stream.name,
        density.in_place,
        counted(early, "packet"),
        least.map_or(0, |(d, _)| -d.min(&0)),
        most.map_or(0, |(d, _)| *d.max(&0)),
        density.beyond,
        density.threshold,
    );
}

fn wires(text: &mut String, summary: &Summary) {
    for wire in &summary.wires {
        let _ = writeln!(
            text,
            "wire {} to {}: {} carried, {} lost, {} damaged, {} duplicated, {} reordered, \
             delay {:.2} us",
            wire.from,
            wire.to,
            wire.carried,
            wire.lost,
            wire.damaged,
            wire.duplicated,
            wire.reordered,
            wire.delay_nanoseconds as f64 / 1e3,
        );
    }
}

fn limit(text: &mut String, summary: &Summary) {
    let limit = summary.generator_limit;
    let _ =
        writeln!(text, "the generator itself reaches {:.2} Mpps on a memory device", limit / 1e6);
    let sent: f64 = summary.sources.iter().map(|source| source.packets_per_second).sum();
    if sent > limit * NEAR_LIMIT {
        let _ = writeln!(text, "which is near what was sent: this may be the generator's limit");
    }
}
