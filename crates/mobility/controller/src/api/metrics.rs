//! `GET /metrics`: counters in the text format of Prometheus.

use std::fmt::Write;

use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;

use super::answer::Failure;
use super::shared::Shared;
use crate::engine::{Engine, NodeView};

pub async fn metrics(
    State(shared): State<Shared>,
) -> Result<([(HeaderName, &'static str); 1], String), Failure> {
    let read = |engine: &mut Engine| (engine.counters(), engine.nodes(), engine.waiting());
    let (counters, nodes, waiting) = shared.handle.ask(read).await?;
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((kind, text(&counters, &nodes, waiting)))
}

fn text(counters: &[(&'static str, u64)], nodes: &[NodeView], waiting: usize) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    for (name, count) in counters {
        let name = format!("weft_controller_{name}_total");
        let _ = writeln!(out, "# TYPE {name} counter\n{name} {count}");
    }
    type Gauge = (&'static str, fn(&NodeView) -> usize);
    let gauges: [Gauge; 3] = [
        ("connected", |node| usize::from(node.connected)),
        ("users", |node| node.users),
        ("moving", |node| node.moving),
    ];
    for (name, value) in gauges {
        let name = format!("weft_controller_node_{name}");
        let _ = writeln!(out, "# TYPE {name} gauge");
        for node in nodes {
            let label = node.name.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(out, "{name}{{node=\"{label}\"}} {}", value(node));
        }
    }
    let name = "weft_controller_users_waiting";
    let _ = writeln!(out, "# TYPE {name} gauge\n{name} {waiting}");
    out
}
