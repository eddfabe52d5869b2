//! `GET /metrics`: counters for Prometheus, in its text format.
//!
//! A family is written where it belongs, from the same snapshot as everything
//! else that is shown; docs/metrics.md describes them.

use std::fmt::Write;
use std::iter;

use axum::extract::State as Shared;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use weft_node::show::{
    DeviceView, FunctionView, PortView, SignalCounts, Snapshot, StageView, WorkerView,
};

use crate::answer::Failure;
use crate::state::State;

/// Version 0.0.4 of the text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn metrics(Shared(state): Shared<State>) -> Result<impl IntoResponse, Failure> {
    let snapshot = state.ask(|agent| agent.snapshot()).await?;
    Ok(([(CONTENT_TYPE, TEXT)], exposition(&snapshot)))
}

/// All metrics of a node.
pub(crate) fn exposition(snapshot: &Snapshot) -> String {
    let mut text = Exposition { node: &snapshot.node, text: String::new() };
    traffic(&mut text, snapshot);
    drops(&mut text, snapshot);
    let ports = snapshot.ports.iter();
    let up = ports.map(|port| (vec![("port", port.name.as_str())], u64::from(port.up)));
    text.gauge("weft_port_up", "Whether packets can pass the port.", up);
    stages(&mut text, snapshot);
    functions(&mut text, snapshot);
    workers(&mut text, snapshot);
    signals(&mut text, &snapshot.signals);
    node(&mut text, snapshot);
    handover(&mut text, snapshot);
    text.text
}

fn traffic(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let samples = |port: fn(&PortView) -> [u64; 2], function: fn(&FunctionView) -> u64| {
        let directions = move |view| ["rx", "tx"].into_iter().zip(port(view));
        let ports = snapshot.ports.iter().flat_map(move |view| {
            let labels = |direction| vec![("port", view.name.as_str()), ("direction", direction)];
            directions(view).map(move |(direction, value)| (labels(direction), value))
        });
        let functions = snapshot.functions.iter().map(move |view| {
            (vec![("function", view.name.as_str()), ("kind", &view.kind)], function(view))
        });
        ports.chain(functions)
    };
    text.counter(
        "weft_packets_total",
        "Packets received and sent by ports, and handled by functions.",
        samples(|port| [port.rx_packets, port.tx_packets], |function| function.packets),
    );
    text.counter(
        "weft_bytes_total",
        "Bytes of these packets, from the Ethernet header on.",
        samples(|port| [port.rx_bytes, port.tx_bytes], |function| function.bytes),
    );
}

fn drops(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let samples = snapshot.drops.iter().map(|drop| {
        let mut labels = vec![("reason", drop.reason.as_str())];
        labels.extend(drop.function.as_ref().map(|function| ("function", function.as_str())));
        labels.extend(drop.port.as_ref().map(|port| ("port", port.as_str())));
        (labels, drop.packets)
    });
    let help = "Packets dropped, by reason, and by function or port.";
    text.counter("weft_drops_total", help, samples);
}

/// Cycles are measured on a sample of the bursts, so they are told beside the
/// packets of the sample; for functions, too.
fn stages(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let numbers = worker_numbers(snapshot);
    let samples = |value: fn(&StageView) -> u64| {
        let workers = snapshot.workers.iter().zip(&numbers);
        workers.flat_map(move |(worker, number)| {
            worker.stages.iter().map(move |stage| {
                (vec![("worker", number.as_str()), ("stage", &stage.name)], value(stage))
            })
        })
    };
    text.counter(
        "weft_stage_cycles_total",
        "Cycles that the sampled packets took in a stage.",
        samples(|stage| stage.cycles),
    );
    text.counter(
        "weft_stage_sampled_packets_total",
        "Packets whose time in a stage was measured.",
        samples(|stage| stage.packets),
    );
}

fn functions(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let samples = |value: fn(&FunctionView) -> u64| {
        let functions = snapshot.functions.iter();
        functions.map(move |view| (vec![("function", view.name.as_str())], value(view)))
    };
    text.counter(
        "weft_function_cycles_total",
        "Cycles that the sampled packets took in a function.",
        samples(|function| function.sampled_cycles),
    );
    text.counter(
        "weft_function_sampled_packets_total",
        "Packets whose time in a function was measured.",
        samples(|function| function.sampled_packets),
    );
    devices(text, snapshot);
}

/// Devices of functions behind a NIC.
fn devices(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let samples = |value: fn(&DeviceView) -> u64| {
        snapshot.functions.iter().filter_map(move |view| {
            let port = view.process.as_ref()?.port.as_ref()?;
            Some((vec![("function", view.name.as_str())], value(port)))
        })
    };
    let help = "Packets that a function's own device received.";
    let name = "weft_function_device_received_packets_total";
    text.counter(name, help, samples(|port| port.rx_packets));
    let help = "Bytes that a function's own device received.";
    text.counter("weft_function_device_received_bytes_total", help, samples(|port| port.rx_bytes));
    let help = "Packets that the receive queue of a function's own device had no room for.";
    text.counter("weft_function_device_missed_packets_total", help, samples(|port| port.rx_missed));
    let help = "Packets that a function's own device sent.";
    text.counter("weft_function_device_sent_packets_total", help, samples(|port| port.tx_packets));
    let help = "Bytes that a function's own device sent.";
    text.counter("weft_function_device_sent_bytes_total", help, samples(|port| port.tx_bytes));
}

fn workers(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let numbers = worker_numbers(snapshot);
    let samples = |value: fn(&WorkerView) -> u64| {
        let workers = snapshot.workers.iter().zip(&numbers);
        workers.map(move |(worker, number)| (vec![("worker", number.as_str())], value(worker)))
    };
    let help = "Bursts that held a packet.";
    text.counter("weft_bursts_total", help, samples(|worker| worker.bursts));
    let help = "Polls that found nothing.";
    text.counter("weft_empty_polls_total", help, samples(|worker| worker.empty_polls));
    let help = "Packets handed to another worker.";
    text.counter("weft_handed_over_total", help, samples(|worker| worker.handed_over));
}

fn signals(text: &mut Exposition<'_>, counts: &SignalCounts) {
    let messages = [
        ("echo_request", "tx", counts.echo_requests),
        ("echo_request", "rx", counts.echo_requests_answered),
        ("echo_response", "rx", counts.echo_responses),
        ("error_indication", "rx", counts.error_indications),
        ("end_marker", "tx", counts.end_markers),
    ];
    let sample =
        |(message, direction, value)| (vec![("message", message), ("direction", direction)], value);
    let help = "Messages of GTP-U between the node and its peers.";
    text.counter("weft_gtpu_messages_total", help, messages.into_iter().map(sample));
    let ignored = [
        ("echo_response", counts.echo_responses_ignored),
        ("error_indication", counts.error_indications_ignored),
    ];
    let sample = |(message, value)| (vec![("message", message)], value);
    let help = "Messages of GTP-U that were not acted on: forged, or of no use.";
    text.counter("weft_gtpu_messages_ignored_total", help, ignored.into_iter().map(sample));
    let help = "How often a GTP-U peer stopped answering.";
    let failures = iter::once((vec![], counts.peer_failures));
    text.counter("weft_gtpu_peer_failures_total", help, failures);
    let help = "GTP-U peers that do not answer.";
    text.gauge("weft_gtpu_peers_down", help, iter::once((vec![], counts.peers_down)));
}

fn node(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    for (name, help, value) in [
        ("weft_users", "Users there are.", snapshot.users as u64),
        ("weft_buffers", "Packet buffers.", snapshot.buffers.size.into()),
        (
            "weft_buffers_available",
            "Packet buffers in nobody's hands.",
            snapshot.buffers.available.into(),
        ),
        ("weft_uptime_seconds", "Time since the node started.", snapshot.uptime / 1_000_000_000),
        ("weft_tsc_hertz", "Cycles per second.", snapshot.tsc_hz),
    ] {
        text.gauge(name, help, iter::once((vec![], value)));
    }
    for (name, help, value) in [
        ("weft_local_packets_total", "Packets given to the node itself.", snapshot.local),
        (
            "weft_originated_packets_total",
            "Packets that the node itself sent.",
            snapshot.originated,
        ),
        (
            "weft_emitted_packets_total",
            "Packets that functions generated or copied.",
            snapshot.emitted,
        ),
        (
            "weft_fragments_total",
            "Fragments made, beyond the packets they were made of.",
            snapshot.fragments,
        ),
        ("weft_panics_total", "Panics caught in functions.", snapshot.panics),
    ] {
        text.counter(name, help, iter::once((vec![], value)));
    }
}

/// Users that move between nodes.
fn handover(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let help = "Kept packets that went to another node with their users, and that came.";
    let moved = [("out", snapshot.moved_out), ("in", snapshot.moved_in)];
    let moved = moved.into_iter().map(|(way, packets)| (vec![("direction", way)], packets));
    text.counter("weft_moved_packets_total", help, moved);
    let Some(view) = &snapshot.handover else { return };
    let help = "Users that the node has to do with, by state.";
    let users = view.users.iter().map(|(state, users)| (vec![("state", &**state)], *users));
    text.gauge("weft_handover_users", help, users);
    let help = "Users whose packets go through gates.";
    text.gauge("weft_handover_gated_users", help, iter::once((vec![], view.gated)));
    let help = "Packets that have waited at gates.";
    text.counter("weft_handover_waited_packets_total", help, iter::once((vec![], view.waited)));
    let help = "What the node's part in handovers has counted.";
    let counts = view.counts.iter().map(|(event, count)| (vec![("event", &**event)], *count));
    text.counter("weft_handover_total", help, counts);
}

fn worker_numbers(snapshot: &Snapshot) -> Vec<String> {
    (0..snapshot.workers.len()).map(|number| number.to_string()).collect()
}

/// Labels, with the value that they are those of.
type Sample<'s> = (Vec<(&'static str, &'s str)>, u64);

/// The text format. Names of ports, functions and reasons are made of letters,
/// digits, `_` and `-`, so no label needs escaping.
struct Exposition<'n> {
    node: &'n str,
    text: String,
}

impl Exposition<'_> {
    fn counter<'s>(&mut self, name: &str, help: &str, samples: impl Iterator<Item = Sample<'s>>) {
        self.family("counter", name, help, samples);
    }

    fn gauge<'s>(&mut self, name: &str, help: &str, samples: impl Iterator<Item = Sample<'s>>) {
        self.family("gauge", name, help, samples);
    }

    fn family<'s>(
        &mut self,
        kind: &str,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = Sample<'s>>,
    ) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = write!(self.text, "{name}{{node=\"{}\"", self.node);
            for (label, text) in labels {
                let _ = write!(self.text, ",{label}=\"{text}\"");
            }
            let _ = writeln!(self.text, "}} {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_node::show::DropView;

    use super::*;

    #[test]
    fn a_drop_is_told_with_its_reason_and_where_it_happened() {
        let drop = |function: Option<&str>, port: Option<&str>| DropView {
            reason: "why".to_owned(),
            function: function.map(str::to_owned),
            port: port.map(str::to_owned),
            packets: 3,
            ..DropView::default()
        };
        let drops = vec![drop(None, None), drop(Some("f"), None), drop(None, Some("p"))];
        let text = exposition(&Snapshot { node: "n".to_owned(), drops, ..Snapshot::default() });
        let lines: Vec<_> =
            text.lines().filter(|line| line.starts_with("weft_drops_total")).collect();
        assert_eq!(
            lines,
            [
                r#"weft_drops_total{node="n",reason="why"} 3"#,
                r#"weft_drops_total{node="n",reason="why",function="f"} 3"#,
                r#"weft_drops_total{node="n",reason="why",port="p"} 3"#,
            ]
        );
    }

    #[test]
    fn every_family_is_described_once_and_before_its_samples() {
        let text = exposition(&Snapshot::default());
        let mut described = std::collections::HashSet::new();
        for line in text.lines() {
            match line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
                Some((name, _)) => assert!(described.insert(name), "{name}"),
                None if line.starts_with('#') => {}
                None => assert!(described.contains(line.split('{').next().unwrap()), "{line}"),
            }
        }
    }
}
