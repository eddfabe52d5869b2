//! Control planes and their sessions (PFCP).

use weft_management_api::client::Client;
use weft_pfcp::user_plane::show::{PfcpView, SessionView};

use super::{Form, print};
use crate::failure::Failure;
use crate::table::Table;

#[derive(clap::Args)]
pub struct Arguments {
    /// Skip so many sessions
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: usize,
    /// Show at most so many sessions
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
}

pub fn run(arguments: &Arguments, client: &Client, form: Form) -> Result<(), Failure> {
    let Arguments { first, count } = arguments;
    let path = format!("/v1/sessions?first={first}&count={count}");
    let sessions: Vec<SessionView> = client.get(&path)?;
    print(&sessions, form, |sessions| many(sessions))
}

fn many(sessions: &[SessionView]) -> String {
    let titles = ["user", "SEID at", "control plane", "addresses", "TEIDs", "PDR/FAR/QER/URR"];
    let mut table = Table::new(&titles, 6);
    for session in sessions {
        let teids: Vec<_> = session.teids.iter().map(|teid| format!("{teid:#x}")).collect();
        table.row([
            session.name.clone(),
            session.cp_seid.clone(),
            session.cp_address.clone(),
            session.ue_addresses.join(", "),
            teids.join(", "),
            session.rules.map(|count| count.to_string()).join("/"),
        ]);
    }
    if table.is_empty() { "no sessions\n".to_owned() } else { table.text() }
}

pub fn associations(client: &Client, form: Form) -> Result<(), Failure> {
    let view: PfcpView = client.get("/v1/pfcp")?;
    print(&view, form, |view| format!("{}\n{}", table(view), messages(view)))
}

fn table(view: &PfcpView) -> String {
    let mut table = Table::new(&["control plane", "address", "state", "features", "sessions"], 4);
    for one in &view.associations {
        table.row([
            one.node.clone(),
            one.address.clone(),
            if one.up { "up" } else { "lost" }.to_owned(),
            one.features.join(" "),
            one.sessions.to_string(),
        ]);
    }
    if table.is_empty() { "no associations\n".to_owned() } else { table.text() }
}

fn messages(view: &PfcpView) -> String {
    let counts = &view.counts;
    let mut table = Table::new(&["what", "count"], 1);
    for (what, count) in [
        ("datagrams received", counts.received),
        ("messages sent", counts.sent),
        ("requests sent again", counts.sent_again),
        ("requests not answered", counts.unanswered),
        ("requests repeated by peers", counts.repeated),
        ("requests refused", counts.refused),
        ("from peers not listed", counts.unlisted),
        ("not readable", counts.unreadable),
        ("of unknown types", counts.unknown_messages),
        ("responses to nothing", counts.unexpected),
        ("without room for a transaction", counts.no_transaction),
        ("under another node's name", counts.hijacks),
        ("sessions established", counts.established),
        ("sessions modified", counts.modified),
        ("sessions ended", counts.deleted),
        ("session reports", counts.reports()),
    ] {
        table.row([what.to_owned(), count.to_string()]);
    }
    format!("features  {}\n\n{}", view.features.join(" "), table.text())
}
