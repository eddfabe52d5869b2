//! Ports, their links and counters.

use weft_node::show::Snapshot;

use crate::table::Table;

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
        let link = if port.up { "up" } else { "down" };
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
    table.text()
}
