//! What was dropped, by reason.

use weft_node::show::Snapshot;

use crate::table::Table;

pub fn text(snapshot: &Snapshot) -> String {
    let mut table = Table::new(&["dropped by", "reason", "packets"], 2);
    for drop in &snapshot.drops {
        let (place, name) = match (&drop.function, &drop.port) {
            (Some(function), _) => ("function ", function.as_str()),
            (None, Some(port)) => ("port ", port.as_str()),
            (None, None) => ("node", ""),
        };
        let reason = format!("{}: {}", drop.reason, drop.meaning);
        table.row([format!("{place}{name}"), reason, drop.packets.to_string()]);
    }
    let dropped = if table.is_empty() { "nothing was dropped\n".to_owned() } else { table.text() };
    dropped + &withheld(snapshot) + &ignored(snapshot)
}

/// Packets for the node itself of which nothing came.
fn ignored(snapshot: &Snapshot) -> String {
    let mut table = Table::new(&["for the node itself, ignored", "packets"], 1);
    for one in &snapshot.ignored {
        table.row([format!("{}: {}", one.cause, one.meaning), one.packets.to_string()]);
    }
    if table.is_empty() { String::new() } else { format!("\n{}", table.text()) }
}

/// Answers that the node did not give.
fn withheld(snapshot: &Snapshot) -> String {
    let mut table = Table::new(&["answers not given", "packets"], 1);
    for one in &snapshot.withheld {
        table.row([format!("{}: {}", one.cause, one.meaning), one.packets.to_string()]);
    }
    if table.is_empty() { String::new() } else { format!("\n{}", table.text()) }
}
