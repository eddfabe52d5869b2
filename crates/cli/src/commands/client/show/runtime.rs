//! Packets, bursts and cycles. Cycles are measured on a sample of the bursts.

use weft_node::show::{FunctionView, Snapshot, WorkerView};

use super::ratio;
use crate::number::counted;
use crate::table::Table;

pub fn text(snapshot: &Snapshot) -> String {
    let buffers = &snapshot.buffers;
    let mut text = format!(
        "node {}: up {} s, {}, {} of {} buffers free, {:.2} GHz\n\n",
        snapshot.node,
        snapshot.uptime / 1_000_000_000,
        counted(snapshot.users as u64, "user"),
        buffers.available,
        buffers.size,
        snapshot.tsc_hz as f64 / 1e9,
    );
    text.push_str(&workers(snapshot));
    if !snapshot.functions.is_empty() {
        text.push('\n');
        text.push_str(&functions(snapshot));
    }
    if snapshot.functions.iter().any(|function| function.process.is_some()) {
        text.push('\n');
        text.push_str(&processes(snapshot));
    }
    let has_thread = |one: &FunctionView| one.stage.is_some() || one.chosen.is_some();
    if snapshot.functions.iter().any(has_thread) {
        text.push('\n');
        text.push_str(&threads(snapshot));
    }
    if snapshot.functions.iter().any(|function| function.fused.is_some()) {
        text.push('\n');
        text.push_str(&fused(snapshot));
    }
    text.push_str(&format!(
        "\nto the node itself {}, sent by it {}, emitted by functions {}, fragments {}, panics {}\n",
        snapshot.local, snapshot.originated, snapshot.emitted, snapshot.fragments, snapshot.panics,
    ));
    if let Some(view) = &snapshot.handover {
        let users = view.users.iter().map(|(state, users)| format!("{state} {users}"));
        let counts = view.counts.iter().filter(|(_, count)| **count > 0);
        let counts = counts.map(|(event, count)| format!("{event} {count}"));
        let all: Vec<_> = users.chain(counts).collect();
        let all = if all.is_empty() { "no users".to_owned() } else { all.join(", ") };
        text.push_str(&format!("handover, {} {}: {all}\n", view.role, view.node));
    }
    text.push_str(&format!(
        "cycles are of a sample; left out of it because the kernel had the core: {}\n",
        snapshot.disturbed(),
    ));
    text
}

/// Functions in processes of their own or at other nodes.
fn processes(snapshot: &Snapshot) -> String {
    let head =
        ["function", "process", "failures", "away", "lost", "strays", "state", "last failure"];
    let mut table = Table::new(&head, 1);
    for function in &snapshot.functions {
        let Some(process) = &function.process else { continue };
        table.row([
            function.name.clone(),
            process.process.map_or_else(|| "-".to_owned(), |number| number.to_string()),
            process.failures.to_string(),
            process.away.to_string(),
            process.lost.to_string(),
            process.strays.to_string(),
            process.state.clone(),
            process.last_failure.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.text() + &devices(snapshot)
}

/// What the devices of functions behind a NIC have counted.
fn devices(snapshot: &Snapshot) -> String {
    let head = ["its devices", "received", "bytes", "missed", "errors", "sent", "bytes", "unsent"];
    let mut table = Table::new(&head, 1);
    let mut any = false;
    for function in &snapshot.functions {
        let Some(port) = function.process.as_ref().and_then(|process| process.port) else {
            continue;
        };
        any = true;
        let counts = [
            port.rx_packets,
            port.rx_bytes,
            port.rx_missed,
            port.rx_errors,
            port.tx_packets,
            port.tx_bytes,
            port.tx_errors,
        ];
        let name = [function.name.clone()];
        table.row(name.into_iter().chain(counts.map(|count| count.to_string())));
    }
    if any { format!("\n{}", table.text()) } else { String::new() }
}

/// Functions on threads beside their workers'.
fn threads(snapshot: &Snapshot) -> String {
    let mut table = Table::new(&["function", "thread", "why"], 3);
    for FunctionView { name, stage, chosen, .. } in &snapshot.functions {
        if stage.is_some() || chosen.is_some() {
            let stage = stage.clone().unwrap_or_else(|| "its worker's".to_owned());
            let why = chosen.clone().unwrap_or_else(|| "configured".to_owned());
            table.row([name.clone(), stage, why]);
        }
    }
    table.text()
}

/// Functions that are fused, and whether they run so.
fn fused(snapshot: &Snapshot) -> String {
    let mut table = Table::new(&["fused functions", "worker", "run", "why"], 4);
    for view in snapshot.functions.iter().filter_map(|function| function.fused.as_ref()) {
        for (worker, choice) in view.workers.iter().enumerate() {
            let (run, why) = match choice {
                _ if view.always => ("fused", "fused: always".to_owned()),
                None => ("in turn", "measuring: too few packets so far".to_owned()),
                Some(choice) => (
                    if choice.is_fused { "fused" } else { "called" },
                    format!(
                        "{:.1} cycles/packet fused, {:.1} called",
                        choice.fused_cycles, choice.called_cycles
                    ),
                ),
            };
            table.row([view.functions.join(" -> "), worker.to_string(), run.to_owned(), why]);
        }
    }
    table.text()
}

/// Workers and the stages of their way.
fn workers(snapshot: &Snapshot) -> String {
    let head =
        ["worker", "stage", "packets", "bursts", "packets/burst", "cycles/packet", "empty polls"];
    let mut table = Table::new(&head, 2);
    for (number, worker) in snapshot.workers.iter().enumerate() {
        table.row([
            match worker.thread.filter(|thread| *thread != number) {
                Some(thread) => format!("{number}, parked at {thread}"),
                None => number.to_string(),
            },
            "all".to_owned(),
            worker.packets.to_string(),
            worker.bursts.to_string(),
            ratio(worker.packets, worker.bursts),
            cycles(worker),
            worker.empty_polls.to_string(),
        ]);
        for stage in &worker.stages {
            let cycles = ratio(stage.cycles, stage.packets);
            let blank = String::new;
            table.row([blank(), stage.name.clone(), blank(), blank(), blank(), cycles]);
        }
    }
    table.text()
}

/// Cycles per packet of all stages together.
fn cycles(worker: &WorkerView) -> String {
    let sampled = worker.stages.iter().filter(|stage| stage.packets > 0);
    let sum: f64 = sampled.map(|stage| stage.cycles as f64 / stage.packets as f64).sum();
    if sum > 0.0 { format!("{sum:.1}") } else { "-".to_owned() }
}

/// Functions.
pub fn functions(snapshot: &Snapshot) -> String {
    let head = [
        "function",
        "kind",
        "packets",
        "bytes",
        "bursts",
        "packets/burst",
        "cycles/packet",
        "drops",
    ];
    let mut table = Table::new(&head, 2);
    for function in &snapshot.functions {
        table.row([
            function.name.clone(),
            function.kind.clone(),
            function.packets.to_string(),
            function.bytes.to_string(),
            function.bursts.to_string(),
            ratio(function.packets, function.bursts),
            ratio(function.sampled_cycles, function.sampled_packets),
            function.drops.to_string(),
        ]);
    }
    table.text()
}
