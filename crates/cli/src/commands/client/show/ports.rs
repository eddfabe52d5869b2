//! Ports, their links and counters.

use serde::Serialize;
use weft_management_api::client::Client;
use weft_node::show::{ExtendedView, PortView, Snapshot};

use super::{Form, print};
use crate::failure::Failure;
use crate::table::Table;

#[derive(clap::Args)]
pub struct Arguments {
    /// What the drivers count as well, by their own names, where it is not 0
    #[arg(short, long)]
    verbose: bool,
}

/// Everything, and what drivers count.
#[derive(Serialize)]
struct Verbose {
    #[serde(flatten)]
    snapshot: Snapshot,
    extended: Vec<ExtendedView>,
}

/// Prints the ports.
///
/// # Errors
/// When no node answers.
pub(super) fn run(arguments: &Arguments, client: &Client, form: Form) -> Result<(), Failure> {
    let snapshot: Snapshot = client.get("/v1/snapshot")?;
    if !arguments.verbose {
        return print(&snapshot, form, text);
    }
    let extended = client.get("/v1/ports/extended")?;
    print(&Verbose { snapshot, extended }, form, |all| {
        let (ports, offloads) = (text(&all.snapshot), offloads(&all.snapshot.ports));
        format!("{ports}\n{offloads}\n{}", counters(&all.extended))
    })
}

pub fn text(snapshot: &Snapshot) -> String {
    let head = [
        "port",
        "link",
        "mac",
        "device",
        "rx packets",
        "rx bytes",
        "missed",
        "errors",
        "tx packets",
        "tx bytes",
    ];
    let mut table = Table::new(&head, 4);
    for port in &snapshot.ports {
        // A node of before says only whether it is up.
        let link = if port.up { "up" } else { port.state.word() };
        let words = [&port.name, link, &port.mac, &port.device].map(str::to_owned);
        let numbers = [
            port.rx_packets,
            port.rx_bytes,
            port.rx_missed,
            port.rx_errors,
            port.tx_packets,
            port.tx_bytes,
        ];
        table.row(words.into_iter().chain(numbers.map(|number| number.to_string())));
    }
    match snapshot.workers.len() {
        0 | 1 => table.text(),
        _ => format!("{}\n{}", table.text(), spread(&snapshot.ports)),
    }
}

/// How packets came to the workers.
fn spread(ports: &[PortView]) -> String {
    let head = ["port", "spread by", "queues", "by worker", "wrong worker", "imbalance"];
    let mut table = Table::new(&head, 2);
    for port in ports {
        let by_worker = port.by_worker.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        table.row([
            port.name.clone(),
            port.spread.clone(),
            port.queues.to_string(),
            by_worker,
            share(port.misdirected, port.rx_packets),
            imbalance(&port.by_worker),
        ]);
    }
    table.text()
}

/// How often links have changed, and what devices do in the place of the processor.
fn offloads(ports: &[PortView]) -> String {
    let mut table = Table::new(&["port", "link changes", "its device"], 3);
    for port in ports {
        let does = if port.offloads.is_empty() { "-".into() } else { port.offloads.join(", ") };
        table.row([port.name.clone(), port.link_changes.to_string(), does]);
    }
    table.text()
}

fn counters(extended: &[ExtendedView]) -> String {
    let mut table = Table::new(&["port", "counter of the driver", "value"], 2);
    for view in extended {
        for (name, value) in &view.counters {
            table.row([view.port.clone(), name.clone(), value.to_string()]);
        }
    }
    table.text()
}

/// A part in percent; `-` of nothing.
fn share(part: u64, of: u64) -> String {
    match of {
        0 => "-".to_owned(),
        _ => format!("{:.2} %", 100.0 * part as f64 / of as f64),
    }
}

/// How many times its fair share the busiest worker received; `-` of nothing.
fn imbalance(by_worker: &[u64]) -> String {
    let sum: u64 = by_worker.iter().sum();
    let most = by_worker.iter().max().copied().unwrap_or(0);
    match sum {
        0 => "-".to_owned(),
        _ => format!("{:.2}", most as f64 * by_worker.len() as f64 / sum as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_node::show::WorkerView;

    #[test]
    fn the_spread_is_told_where_there_are_workers_to_spread_over() {
        let port = PortView {
            name: "access".into(),
            spread: "the sender chooses".into(),
            queues: 2,
            rx_packets: 400,
            by_worker: vec![300, 100],
            misdirected: 3,
            ..PortView::default()
        };
        let mut snapshot = Snapshot { ports: vec![port], ..Snapshot::default() };
        snapshot.workers = vec![WorkerView::default()];
        assert!(!text(&snapshot).contains("spread by"));
        snapshot.workers.push(WorkerView::default());
        let text = text(&snapshot);
        let row = text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(row, "access the sender chooses 2 300 100 0.75 % 1.50");
        assert_eq!((share(0, 0), imbalance(&[0, 0])), ("-".into(), "-".into()));
    }
}
