//! `weft get sessions`: PFCP sessions behind N4.

use std::net::IpAddr;

use weft_http::client::Client;
use weft_mobility_controller::api::sessions::Sessions;

use super::{Format, escaped, members};
use crate::failure::Failure;
use crate::number::counted;
use crate::output;
use crate::table::Table;

/// Sessions that are shown where it is not said how many.
const MOST: usize = 1000;
/// Sessions that one request asks for.
const PAGE: usize = 1000;

#[derive(clap::Args)]
pub struct Filter {
    /// Sessions at the node of this name
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Sessions of the control plane at this address
    #[arg(long, value_name = "ADDRESS")]
    control_plane: Option<IpAddr>,
    /// Sessions of this user's address
    #[arg(long, value_name = "ADDRESS")]
    ue: Option<IpAddr>,
    /// At most so many sessions; 1000 by default
    #[arg(long, value_name = "N")]
    most: Option<usize>,
}

impl Filter {
    /// Whether any of it is given.
    pub fn is_given(&self) -> bool {
        let Filter { node, control_plane, ue, most } = self;
        node.is_some() || control_plane.is_some() || ue.is_some() || most.is_some()
    }

    fn query(&self, node: Option<&str>, count: usize, from: Option<&str>) -> String {
        let address = |address: IpAddr| escaped(&address.to_string());
        let mut query = format!("count={count}");
        for (key, value) in [
            ("node", node.map(escaped)),
            ("controlPlane", self.control_plane.map(address)),
            ("ue", self.ue.map(address)),
            ("from", from.map(escaped)),
        ] {
            if let Some(value) = value {
                query.push_str(&format!("&{key}={value}"));
            }
        }
        query
    }
}

/// Shows sessions; nodes are asked page by page.
pub fn show(
    client: &Client,
    filter: &Filter,
    name: Option<&str>,
    format: Format,
) -> Result<(), Failure> {
    let (most, node) = (filter.most.unwrap_or(MOST), name.or(filter.node.as_deref()));
    let mut all = Sessions::default();
    while all.sessions.len() < most {
        let count = (most - all.sessions.len()).min(PAGE);
        let query = filter.query(node, count, all.next.as_deref());
        let page: Sessions = client.get(&format!("/v1/sessions?{query}"))?;
        all.sessions.extend(page.sessions);
        all.unanswered.extend(page.unanswered);
        all.next = page.next;
        if all.next.is_none() {
            break;
        }
    }
    if format == Format::Json {
        return members::as_json(&all);
    }
    let head =
        ["node", "SEID", "SEID at", "control plane", "addresses", "TEIDs", "PDR/FAR/QER/URR"];
    let mut table = Table::new(&head, 7);
    for one in &all.sessions {
        let teids: Vec<_> = one.teids.iter().map(|teid| format!("{teid:#x}")).collect();
        table.row([
            one.node.clone(),
            one.seid.clone(),
            one.cp_seid.clone(),
            one.cp_address.clone(),
            one.ue_addresses.join(", "),
            teids.join(", "),
            one.rules.map(|count| count.to_string()).join("/"),
        ]);
    }
    if !table.is_empty() {
        output::print(&table.text())?;
    }
    for one in &all.unanswered {
        output::line(&format!("{} is left out: {}", one.node, one.reason))?;
    }
    let more = if all.next.is_some() { ", and there may be more (--most)" } else { "" };
    output::line(&format!("{}{more}", counted(all.sessions.len() as u64, "session")))
}
