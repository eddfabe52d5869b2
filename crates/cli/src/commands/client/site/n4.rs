//! `weft get n4`: the nodes behind N4.

use weft_http::client::Client;
use weft_mobility_controller::n4::N4View;

use super::{Format, members};
use crate::failure::Failure;
use crate::number::counted;
use crate::output;
use crate::table::Table;

/// Shows which node has how many sessions, and the control planes.
pub fn show(client: &Client, format: Format) -> Result<(), Failure> {
    let view: N4View = client.get("/v1/n4")?;
    if format == Format::Json {
        return members::as_json(&view);
    }
    let head =
        ["node", "state", "named by", "address", "SEIDs", "sessions", "most", "associations"];
    let mut table = Table::new(&head, 5);
    for node in &view.nodes {
        table.row([
            node.name.clone(),
            node.state.clone(),
            if node.registered { "itself" } else { "file" }.to_owned(),
            node.address.clone(),
            format!("{:04x}…", node.number),
            node.sessions.to_string(),
            node.most.to_string(),
            node.associations.to_string(),
        ]);
    }
    output::print(&table.text())?;
    for one in &view.refused {
        output::line(&format!("{} is not behind N4: {}", one.node, one.reason))?;
    }
    let up = view.control_planes.iter().filter(|one| one.up).count();
    let all = counted(view.control_planes.len() as u64, "control plane");
    output::line(&format!("{all}, of which {up} answer"))
}
