//! GTP-U peers, and the messages between them and the node.

use weft_management_api::client::Client;
use weft_node::gtpu_peers::PathState;
use weft_node::show::{PeerView, SignalCounts, Snapshot};

use super::{Form, print};
use crate::failure::Failure;
use crate::table::Table;

pub fn run(client: &Client, form: Form) -> Result<(), Failure> {
    let peers: Vec<PeerView> = client.get("/v1/peers")?;
    let snapshot: Snapshot = client.get("/v1/snapshot")?;
    print(&peers, form, |peers| format!("{}\n{}", table(peers), messages(&snapshot.signals)))
}

fn table(peers: &[PeerView]) -> String {
    let titles = ["peer", "from", "state", "tunnels", "echo requests", "responses", "failures"];
    let mut table = Table::new(&titles, 3);
    for peer in peers {
        let state = match (peer.watched, peer.state) {
            (false, _) => "not asked",
            (true, PathState::Untested) => "not asked yet",
            (true, PathState::Up) => "up",
            (true, PathState::Down) => "down",
        };
        table.row([
            peer.peer.to_string(),
            peer.local.to_string(),
            state.to_owned(),
            peer.tunnels.to_string(),
            peer.requests.to_string(),
            peer.responses.to_string(),
            peer.failures.to_string(),
        ]);
    }
    if table.is_empty() { "no peers\n".to_owned() } else { table.text() }
}

fn messages(counts: &SignalCounts) -> String {
    let mut table = Table::new(&["message", "packets"], 1);
    let rows = [
        ("Echo Requests sent", counts.echo_requests),
        ("Echo Responses to them", counts.echo_responses),
        ("Echo Responses to nothing", counts.echo_responses_ignored),
        ("Echo Requests answered", counts.echo_requests_answered),
        ("Error Indications", counts.error_indications),
        ("Error Indications not acted on", counts.error_indications_ignored),
        ("End Markers sent", counts.end_markers),
    ];
    for (what, count) in rows {
        table.row([what.to_owned(), count.to_string()]);
    }
    table.text()
}
