//! How far the standby of a node is.

use weft_management_api::client::Client;
use weft_node::{StandbyView, StateView};

use super::{Form, print};
use crate::failure::Failure;
use crate::table::Table;

pub fn run(client: &Client, form: Form) -> Result<(), Failure> {
    let state: Option<StateView> = client.get("/v1/state")?;
    print(&state.and_then(|state| state.standby), form, |standby| match standby {
        Some(standby) => table(standby),
        None => "the node has no standby: its configuration has no `standby`\n".to_owned(),
    })
}

fn table(standby: &StandbyView) -> String {
    let milliseconds = |nanoseconds: u64| format!("{:.1} ms", nanoseconds as f64 / 1e6);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let mut table = Table::new(&["standby", ""], 1);
    let rows = [
        ("epoch", standby.epoch.to_string()),
        ("other node", standby.peer.to_string()),
        ("it is heard", yes(standby.hears)),
        ("it has all records", yes(standby.whole)),
        ("it lags", milliseconds(standby.lag)),
        ("octets that wait for it", standby.waiting.to_string()),
        ("answers that wait for it", standby.answers.to_string()),
        ("lease of this node", milliseconds(standby.lease)),
        ("copies of all records", standby.copies.to_string()),
        ("pieces of changes", standby.pieces.to_string()),
        ("messages refused", standby.refused.to_string()),
    ];
    for (what, value) in rows {
        table.row([what.to_owned(), value]);
    }
    table.text()
}
