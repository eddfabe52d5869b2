//! The last quarter of an hour, a value a second: of the node, of its ports and functions.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_node::show::{FunctionView, PortView, Snapshot};

/// Seconds that are kept.
const SECONDS: usize = 900;
/// Values of each place.
const VALUES: usize = 4;

/// What the values of the node are, of a port, and of a function.
const OF_NODE: [&str; VALUES] = ["received", "sent", "dropped", "cycles"];
const OF_PORT: [&str; VALUES] = ["received", "sent", "receivedBits", "sentBits"];
const OF_FUNCTION: [&str; VALUES] = ["packets", "bits", "cycles", "dropped"];

/// What was seen of one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Past {
    /// When, in milliseconds since the beginning of 1970.
    pub times: Vec<u64>,
    /// Packets or bits per second, or cycles per packet, each with a value for every time;
    /// none for a time when the place was not there.
    pub series: Vec<Series>,
}

/// One figure of a place over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// `received`, `sent`, `dropped`, `packets`: packets per second; `receivedBits`,
    /// `sentBits`, `bits`: bits per second; `cycles`: cycles per packet.
    pub name: String,
    /// The values.
    pub values: Vec<Option<f32>>,
}

/// Names of places; most seconds share them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    ports: Vec<String>,
    functions: Vec<String>,
}

#[derive(Debug)]
struct Second {
    time: u64,
    names: Arc<Names>,
    /// Of the node, then of ports, then of functions.
    values: Box<[[f32; VALUES]]>,
}

/// All that is kept: 16 bytes a second for each port and function.
#[derive(Debug, Default)]
pub(super) struct History {
    seconds: VecDeque<Second>,
}

impl History {
    /// Enters what was counted between two looks.
    pub fn enter(&mut self, time: u64, before: Option<&Snapshot>, now: &Snapshot) {
        let Some(before) = before else { return };
        let seconds = now.uptime.saturating_sub(before.uptime) as f32 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        let names = Names {
            ports: now.ports.iter().map(|port| port.name.clone()).collect(),
            functions: now.functions.iter().map(|function| function.name.clone()).collect(),
        };
        let names = match self.seconds.back() {
            Some(last) if *last.names == names => last.names.clone(),
            _ => Arc::new(names),
        };
        let mut values = vec![of_node(before, now, seconds)];
        values.extend(now.ports.iter().map(|port| of_port(before, port, seconds)));
        values.extend(now.functions.iter().map(|one| of_function(before, one, seconds)));
        self.seconds.push_back(Second { time, names, values: values.into() });
        if self.seconds.len() > SECONDS {
            self.seconds.pop_front();
        }
    }

    /// What is known of the port or function of that name, or of the node.
    pub fn of(&self, name: Option<&str>) -> Option<Past> {
        let at = |second: &Second| match name {
            None => Some((OF_NODE, 0)),
            Some(name) => {
                let Names { ports, functions } = &*second.names;
                let place = |names: &[String]| names.iter().position(|known| known == name);
                let port = place(ports).map(|at| (OF_PORT, 1 + at));
                port.or_else(|| place(functions).map(|at| (OF_FUNCTION, 1 + ports.len() + at)))
            }
        };
        let known = self.seconds.iter().rev().find_map(at);
        let (titles, _) = match (known, name) {
            (Some(known), _) => known,
            // Nothing was seen yet.
            (None, None) => (OF_NODE, 0),
            (None, Some(_)) => return None,
        };
        let value = |second: &Second, nth: usize| {
            let (_, place) = at(second).filter(|(known, _)| *known == titles)?;
            second.values.get(place).map(|values| values[nth])
        };
        let series = titles.iter().enumerate().map(|(nth, title)| Series {
            name: (*title).to_owned(),
            values: self.seconds.iter().map(|second| value(second, nth)).collect(),
        });
        let times = self.seconds.iter().map(|second| second.time).collect();
        Some(Past { times, series: series.collect() })
    }
}

/// What was added to a counter; a function or port that was configured anew begins at 0.
fn more(now: u64, before: u64) -> f32 {
    now.saturating_sub(before) as f32
}

fn of_node(before: &Snapshot, now: &Snapshot, seconds: f32) -> [f32; VALUES] {
    let cycles = |snapshot: &Snapshot| -> (u64, u64) {
        let stages = snapshot.workers.iter().flat_map(|worker| &worker.stages);
        let functions: u64 = snapshot.functions.iter().map(|one| one.sampled_cycles).sum();
        let (mut sum, mut packets) = (functions, 0);
        for stage in stages {
            sum += stage.cycles;
            if stage.name == "receive" {
                packets += stage.packets;
            }
        }
        (sum, packets)
    };
    let ((sum, packets), (sum_before, packets_before)) = (cycles(now), cycles(before));
    [
        more(now.received(), before.received()) / seconds,
        more(now.sent(), before.sent()) / seconds,
        more(now.dropped(), before.dropped()) / seconds,
        ratio(more(sum, sum_before), more(packets, packets_before)),
    ]
}

fn of_port(before: &Snapshot, port: &PortView, seconds: f32) -> [f32; VALUES] {
    let none = PortView::default();
    let before = before.ports.iter().find(|known| known.name == port.name).unwrap_or(&none);
    [
        more(port.rx_packets, before.rx_packets) / seconds,
        more(port.tx_packets, before.tx_packets) / seconds,
        more(port.rx_bytes, before.rx_bytes) * 8.0 / seconds,
        more(port.tx_bytes, before.tx_bytes) * 8.0 / seconds,
    ]
}

fn of_function(before: &Snapshot, function: &FunctionView, seconds: f32) -> [f32; VALUES] {
    let none = FunctionView::default();
    let known = before.functions.iter().find(|known| known.name == function.name);
    let before = known.unwrap_or(&none);
    let sampled = more(function.sampled_packets, before.sampled_packets);
    [
        more(function.packets, before.packets) / seconds,
        more(function.bytes, before.bytes) * 8.0 / seconds,
        ratio(more(function.sampled_cycles, before.sampled_cycles), sampled),
        more(function.drops, before.drops) / seconds,
    ]
}

fn ratio(sum: f32, count: f32) -> f32 {
    if count > 0.0 { sum / count } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(uptime: u64, received: u64, function: &str) -> Snapshot {
        let port = PortView { name: "access".into(), rx_packets: received, ..PortView::default() };
        let function = FunctionView {
            name: function.into(),
            packets: received / 2,
            sampled_packets: received,
            sampled_cycles: received * 30,
            ..FunctionView::default()
        };
        Snapshot { uptime, ports: vec![port], functions: vec![function], ..Snapshot::default() }
    }

    fn values(past: &Past, name: &str) -> Vec<Option<f32>> {
        past.series.iter().find(|series| series.name == name).unwrap().values.clone()
    }

    #[test]
    fn what_was_counted_becomes_rates() {
        let mut history = History::default();
        let second = 1_000_000_000;
        assert_eq!(history.of(None).unwrap().times, [0; 0]);
        assert_eq!(history.of(Some("count")), None);
        let looks = [
            snapshot(0, 0, "count"),
            snapshot(2 * second, 1000, "count"),
            snapshot(3 * second, 1000, "other"),
        ];
        for (at, pair) in looks.windows(2).enumerate() {
            history.enter(at as u64, Some(&pair[0]), &pair[1]);
        }
        assert_eq!(values(&history.of(None).unwrap(), "received"), [Some(500.0), Some(0.0)]);
        assert_eq!(
            values(&history.of(Some("access")).unwrap(), "received"),
            [Some(500.0), Some(0.0)]
        );
        let function = history.of(Some("count")).unwrap();
        assert_eq!(values(&function, "packets"), [Some(250.0), None]);
        assert_eq!(values(&function, "cycles"), [Some(30.0), None]);
        assert_eq!(history.of(Some("nothing")), None);
    }

    #[test]
    fn a_quarter_of_an_hour_is_kept() {
        let mut history = History::default();
        for second in 1..2000_u64 {
            let (before, now) = ((second - 1) * 1_000_000_000, second * 1_000_000_000);
            history.enter(second, Some(&snapshot(before, 0, "f")), &snapshot(now, 1, "f"));
        }
        let past = history.of(None).unwrap();
        assert_eq!((past.times.len(), past.times.last()), (SECONDS, Some(&1999)));
    }
}
