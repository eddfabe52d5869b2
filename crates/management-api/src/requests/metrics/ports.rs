//! What ports and their drivers count.

use std::fmt;

use weft_http::metrics::Families;
use weft_node::show::{ExtendedView, Snapshot};

/// Series of one port, at most: a driver has some tens of counters beside those of queues.
const MOST: usize = 128;

/// How packets came to workers, and what drivers count by their own names.
pub(super) fn families(
    families: &mut Families<'_>,
    snapshot: &Snapshot,
    extended: &[ExtendedView],
) -> fmt::Result {
    let misdirected = snapshot.ports.iter().map(|port| ([("port", &*port.name)], port.misdirected));
    let help = "Packets that a worker received and another one owns.";
    families.counter("weft_port_misdirected_packets", help, misdirected)?;
    let rules = snapshot.ports.iter().map(|port| ([("port", &*port.name)], port.flow_rules));
    let help = "Flow rules by which the device of a port sends users to their workers.";
    families.gauge("weft_port_flow_rules", help, rules)?;
    let refused = snapshot.ports.iter();
    let refused = refused.map(|port| ([("port", &*port.name)], port.flow_rules_refused));
    let help = "Flow rules that the device of a port refuses or has no room for.";
    families.gauge("weft_port_flow_rules_refused", help, refused)?;
    let changes = snapshot.ports.iter().map(|port| ([("port", &*port.name)], port.link_changes));
    let help = "How often the link of a port has changed, or its device has gone or come back.";
    families.counter("weft_port_link_changes", help, changes)?;
    let samples = extended.iter().flat_map(|view| {
        let own = view.counters.iter().filter(|(name, _)| !is_of_queue(name)).take(MOST);
        own.map(|(name, value)| ([("port", &*view.port), ("counter", &**name)], *value))
    });
    let help = "What the driver of a port counts, by its own names; without those of queues.";
    families.counter("weft_port_extended", help, samples)
}

/// Whether a counter is one of many like it: `rx_q3_packets`, `tx_queue_0_bytes`, `rx3_bytes`.
fn is_of_queue(name: &str) -> bool {
    let digits = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let is_queue = |rest: &str| {
        ["q", "queue_", "queue", ""].iter().any(|word| rest.strip_prefix(word).is_some_and(digits))
    };
    ["rx_", "tx_", "rx", "tx"].iter().any(|way| name.strip_prefix(way).is_some_and(is_queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_queues_are_told_from_others() {
        for name in ["rx_q0_packets", "tx_q15_bytes", "rx_queue_3_drops", "rx0_good", "tx2_x"] {
            assert!(is_of_queue(name), "{name}");
        }
        for name in ["rx_good_packets", "rx_missed_errors", "tx_size_64_packets", "rx_quiet"] {
            assert!(!is_of_queue(name), "{name}");
        }
    }
}
