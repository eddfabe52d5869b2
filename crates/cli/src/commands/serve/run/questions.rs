//! What the controller asks the node, and what the node says.

use std::net::IpAddr;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use weft_mobility_protocol::NodeId;
use weft_mobility_transport::Sender;
use weft_mobility_transport::note::{self, N4Note, Note, Question, SessionsNote, SessionsQuestion};
use weft_node_config::Blueprint;
use weft_pfcp::ServerHandle;
use weft_pfcp::user_plane::show::Search;

/// UDP port at which N4 finds nodes.
const N4_PORT: u16 = 8805;

/// Sessions that one answer has, at most, and their octets, which a note has room for.
const MOST_SESSIONS: usize = 1000;
const MOST_OCTETS: usize = note::MOST - 64;

/// The server of control planes, once it runs.
pub type ControlPlanes = Arc<OnceLock<ServerHandle>>;

/// What the controller says.
pub enum Told {
    /// It asks something.
    Asked(Question),
    /// What the node is behind N4.
    N4(N4Note),
}

/// Where control planes find the node, if it has its own share and takes the word of a proxy for
/// them; empty if it is none for N4. A pair is named in the controller's file.
pub fn behind_n4(blueprint: &Blueprint, is_at_home: bool) -> Vec<IpAddr> {
    let pfcp = blueprint.pfcp.as_ref().filter(|_| is_at_home && blueprint.standby.is_none());
    let Some(pfcp) = pfcp.filter(|pfcp| !pfcp.proxies.is_empty()) else { return Vec::new() };
    if pfcp.port != N4_PORT {
        tracing::info!(port = pfcp.port, "the node is none for N4: that finds nodes at port 8805");
        return Vec::new();
    }
    pfcp.listen.clone()
}

/// Answers until the node stops.
///
/// # Errors
/// When the machine has no thread for it.
pub fn follow(
    told: Receiver<Told>,
    controller: Sender,
    (addresses, control_planes): (Vec<IpAddr>, ControlPlanes),
) -> std::io::Result<JoinHandle<()>> {
    let work = move || {
        let mut last = N4Note::default();
        for told in told {
            match told {
                Told::Asked(Question::N4) if !addresses.is_empty() => {
                    let addresses = addresses.clone();
                    // What is lost is asked for again with the next connection.
                    let note = Note::N4(N4Note { addresses, ..N4Note::default() });
                    controller.note(NodeId::CONTROLLER, &note);
                }
                Told::Asked(Question::N4) => {}
                Told::Asked(Question::Sessions(question)) => {
                    if let Some(said) = sessions(&question, &control_planes) {
                        controller.note(NodeId::CONTROLLER, &Note::Sessions(said));
                    }
                }
                Told::N4(answer) => {
                    if answer != last {
                        log(&answer);
                        last = answer;
                    }
                }
            }
        }
    };
    thread::Builder::new().name("questions".to_owned()).spawn(work)
}

/// The sessions that are asked for; none once the server has stopped.
fn sessions(asked: &SessionsQuestion, control_planes: &ControlPlanes) -> Option<SessionsNote> {
    let id = asked.id;
    // A node without control planes has no sessions.
    let Some(server) = control_planes.get() else {
        return Some(SessionsNote { id, next: 0, sessions: "[]".to_owned() });
    };
    let mut count = usize::from(asked.count).min(MOST_SESSIONS);
    loop {
        let found = server.find_sessions(Search {
            first: asked.first as usize,
            count,
            control_plane: asked.control_plane,
            ue: asked.ue,
        })?;
        let next = found.next.and_then(|next| u32::try_from(next).ok()).unwrap_or(0);
        // Texts and numbers can be written.
        let sessions = serde_json::to_string(&found.sessions).unwrap_or_default();
        if sessions.len() < MOST_OCTETS || count <= 1 {
            return Some(SessionsNote { id, next, sessions });
        }
        // Those with many rules are told a few at a time.
        count /= 2;
    }
}

fn log(answer: &N4Note) {
    match answer.number {
        0 => tracing::warn!("the node is not behind N4: {}", answer.reason),
        number => tracing::info!(number, "the node is behind N4"),
    }
}
