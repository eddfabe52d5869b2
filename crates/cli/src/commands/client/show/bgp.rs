//! Routers that are told of networks.

use weft_bgp::BgpView;
use weft_management_api::client::Client;

use super::{Form, print};
use crate::failure::Failure;
use crate::table::Table;

pub fn run(client: &Client, form: Form) -> Result<(), Failure> {
    let view: BgpView = client.get("/v1/bgp")?;
    print(&view, form, table)
}

fn table(view: &BgpView) -> String {
    let mut table = Table::new(&["router", "AS", "state", "networks", "sessions", "reason"], 1);
    for peer in &view.peers {
        table.row([
            peer.address.to_string(),
            peer.autonomous_system.to_string(),
            peer.state.clone(),
            peer.announced.to_string(),
            peer.sessions.to_string(),
            peer.reason.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    let networks = view.networks.join(" ");
    format!("{}\nAS {} announces {networks}\n", table.text(), view.autonomous_system)
}
