//! What outlives the node.

use weft_management_api::client::Client;
use weft_node::StateView;

use super::{Form, print};
use crate::failure::Failure;
use crate::table::Table;

pub fn run(client: &Client, form: Form) -> Result<(), Failure> {
    let state: Option<StateView> = client.get("/v1/state")?;
    print(&state, form, |state| match state {
        Some(state) => table(state),
        None => "the node keeps nothing: its configuration has no `state`\n".to_owned(),
    })
}

fn table(state: &StateView) -> String {
    let milliseconds = |nanoseconds: u64| format!("{:.1} ms", nanoseconds as f64 / 1e6);
    let mut table = Table::new(&["state", ""], 1);
    let rows = [
        ("not durable since", milliseconds(state.behind)),
        ("changes made durable", state.changes.to_string()),
        ("in writes of the disk", state.commits.to_string()),
        ("oldest checkpoint", milliseconds(state.checkpoint_age)),
        ("bearers from before the start", state.restored_bearers.to_string()),
        ("sessions from before the start", state.restored_sessions.to_string()),
        ("contexts from before the start", state.restored_contexts.to_string()),
        ("failure", state.failure.clone().unwrap_or_else(|| "none".to_owned())),
    ];
    for (what, value) in rows {
        table.row([what.to_owned(), value]);
    }
    table.text()
}
