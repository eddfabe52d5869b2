//! `GET /metrics`: counters for Prometheus, in its text format.
//!
//! A family is written where it belongs, from the same snapshot as everything
//! else that is shown; docs/metrics.md describes them.

use std::fmt::Write;

use axum::extract::State as Shared;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use weft_node::show::{FunctionView, PortView, Snapshot};

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
    ports(&mut text, snapshot);
    cycles(&mut text, snapshot);
    node(&mut text, snapshot);
    text.text
}

fn traffic(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let mut family = |name, help, port: fn(&PortView) -> [u64; 2], of: fn(&FunctionView) -> u64| {
        text.family(name, "counter", help);
        for view in &snapshot.ports {
            for (direction, value) in ["rx", "tx"].into_iter().zip(port(view)) {
                text.sample(name, &[("port", &view.name), ("direction", direction)], value);
            }
        }
        for view in &snapshot.functions {
            let labels = [("function", view.name.as_str()), ("kind", &view.kind)];
            text.sample(name, &labels, of(view));
        }
    };
    family(
        "weft_packets_total",
        "Packets received and sent by ports, and handled by functions.",
        |port| [port.rx_packets, port.tx_packets],
        |function| function.packets,
    );
    family(
        "weft_bytes_total",
        "Bytes of these packets, from the Ethernet header on.",
        |port| [port.rx_bytes, port.tx_bytes],
        |function| function.bytes,
    );
}

fn drops(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let name = "weft_drops_total";
    text.family(name, "counter", "Packets dropped, by reason, and by function or port.");
    for drop in &snapshot.drops {
        let mut labels = vec![("reason", drop.reason.as_str())];
        labels.extend(drop.function.as_ref().map(|function| ("function", function.as_str())));
        labels.extend(drop.port.as_ref().map(|port| ("port", port.as_str())));
        text.sample(name, &labels, drop.packets);
    }
}

fn ports(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    text.family("weft_port_up", "gauge", "Whether packets can pass the port.");
    for port in &snapshot.ports {
        text.sample("weft_port_up", &[("port", &port.name)], u64::from(port.up));
    }
}

/// Cycles are measured on a sample of the bursts, so they are told beside the
/// packets of the sample.
fn cycles(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    let workers = || snapshot.workers.iter().enumerate();
    let stages = || {
        workers()
            .flat_map(|(number, worker)| worker.stages.iter().map(move |stage| (number, stage)))
    };
    let name = "weft_stage_cycles_total";
    text.family(name, "counter", "Cycles that the sampled packets took in a stage.");
    for (worker, stage) in stages() {
        text.sample(name, &[("worker", &worker.to_string()), ("stage", &stage.name)], stage.cycles);
    }
    let name = "weft_stage_sampled_packets_total";
    text.family(name, "counter", "Packets whose time in a stage was measured.");
    for (worker, stage) in stages() {
        text.sample(
            name,
            &[("worker", &worker.to_string()), ("stage", &stage.name)],
            stage.packets,
        );
    }
    let name = "weft_function_cycles_total";
    text.family(name, "counter", "Cycles that the sampled packets took in a function.");
    for function in &snapshot.functions {
        text.sample(name, &[("function", &function.name)], function.sampled_cycles);
    }
    let name = "weft_function_sampled_packets_total";
    text.family(name, "counter", "Packets whose time in a function was measured.");
    for function in &snapshot.functions {
        text.sample(name, &[("function", &function.name)], function.sampled_packets);
    }
    let name = "weft_bursts_total";
    text.family(name, "counter", "Bursts that held a packet.");
    for (number, worker) in workers() {
        text.sample(name, &[("worker", &number.to_string())], worker.bursts);
    }
    let name = "weft_empty_polls_total";
    text.family(name, "counter", "Polls that found nothing.");
    for (number, worker) in workers() {
        text.sample(name, &[("worker", &number.to_string())], worker.empty_polls);
    }
}

fn node(text: &mut Exposition<'_>, snapshot: &Snapshot) {
    for (name, kind, help, value) in [
        ("weft_users", "gauge", "Users there are.", snapshot.users as u64),
        ("weft_buffers", "gauge", "Packet buffers.", snapshot.buffers.size.into()),
        (
            "weft_buffers_available",
            "gauge",
            "Packet buffers in nobody's hands.",
            snapshot.buffers.available.into(),
        ),
        ("weft_tsc_hertz", "gauge", "Cycles per second.", snapshot.tsc_hz),
        (
            "weft_local_packets_total",
            "counter",
            "Packets given to the node itself.",
            snapshot.local,
        ),
        (
            "weft_originated_packets_total",
            "counter",
            "Packets that the node itself sent.",
            snapshot.originated,
        ),
        (
            "weft_emitted_packets_total",
            "counter",
            "Packets that functions generated or copied.",
            snapshot.emitted,
        ),
        (
            "weft_fragments_total",
            "counter",
            "Fragments made, beyond the packets they were made of.",
            snapshot.fragments,
        ),
        ("weft_panics_total", "counter", "Panics caught in functions.", snapshot.panics),
    ] {
        text.family(name, kind, help);
        text.sample(name, &[], value);
    }
    let name = "weft_uptime_seconds";
    text.family(name, "gauge", "Time since the node started.");
    text.sample(name, &[], format_args!("{:.3}", snapshot.uptime as f64 / 1e9));
}

/// The text format. Names of ports, functions and reasons are made of letters,
/// digits, `_` and `-`, so no label needs escaping.
struct Exposition<'a> {
    node: &'a str,
    text: String,
}

impl Exposition<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.text, "{name}{{node=\"{}\"", self.node);
        for (label, value) in labels {
            let _ = write!(self.text, ",{label}=\"{value}\"");
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}
