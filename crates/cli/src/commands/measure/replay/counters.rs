//! The counters as JSON: only what depends on the captures, so that two replays
//! can be compared. Cycles, bursts and addresses are left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;
use weft_node::show::Snapshot;

use crate::failure::Failure;

#[derive(Serialize)]
struct Counters<'a> {
    ports: BTreeMap<&'a str, Port>,
    functions: BTreeMap<&'a str, Function<'a>>,
    /// Dropped by the node itself, by reason.
    drops: BTreeMap<&'a str, u64>,
    /// Packets given to the node itself.
    local: u64,
    /// Packets that the node itself sent.
    originated: u64,
    /// Packets that functions generated or copied.
    emitted: u64,
    /// Fragments made, beyond the packets they were made of.
    fragments: u64,
    panics: u64,
}

#[derive(Serialize)]
struct Port {
    rx_packets: u64,
    rx_bytes: u64,
    rx_missed: u64,
    rx_errors: u64,
    tx_packets: u64,
    tx_bytes: u64,
}

#[derive(Serialize)]
struct Function<'a> {
    packets: u64,
    bytes: u64,
    drops: BTreeMap<&'a str, u64>,
}

/// Writes the counters to `file`.
pub fn write(snapshot: &Snapshot, file: &Path) -> Result<(), Failure> {
    let failed = |error: String| Failure::broken(format!("{}: {error}", file.display()));
    let text = serde_json::to_string_pretty(&gather(snapshot));
    let text = text.map_err(|error| failed(error.to_string()))?;
    fs::write(file, text + "\n").map_err(|error| failed(error.to_string()))
}

fn gather(snapshot: &Snapshot) -> Counters<'_> {
    let ports = snapshot.ports.iter().map(|port| {
        let counters = Port {
            rx_packets: port.rx_packets,
            rx_bytes: port.rx_bytes,
            rx_missed: port.rx_missed,
            rx_errors: port.rx_errors,
            tx_packets: port.tx_packets,
            tx_bytes: port.tx_bytes,
        };
        (port.name.as_str(), counters)
    });
    let functions = snapshot.functions.iter().map(|function| {
        let drops = drops(snapshot, Some(&function.name));
        (
            function.name.as_str(),
            Function { packets: function.packets, bytes: function.bytes, drops },
        )
    });
    Counters {
        ports: ports.collect(),
        functions: functions.collect(),
        drops: drops(snapshot, None),
        local: snapshot.local,
        originated: snapshot.originated,
        emitted: snapshot.emitted,
        fragments: snapshot.fragments,
        panics: snapshot.panics,
    }
}

/// What a function dropped, or the node itself; ports have counters of their
/// own for what they lose.
fn drops<'a>(snapshot: &'a Snapshot, function: Option<&str>) -> BTreeMap<&'a str, u64> {
    let drops = snapshot.drops.iter().filter(|drop| drop.port.is_none());
    let drops = drops.filter(|drop| drop.function.as_deref() == function);
    drops.map(|drop| (drop.reason.as_str(), drop.packets)).collect()
}
