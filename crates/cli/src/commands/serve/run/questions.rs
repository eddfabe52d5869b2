//! What the controller asks the node, and what the node says.

use std::net::IpAddr;
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

use weft_mobility_protocol::NodeId;
use weft_mobility_transport::Sender;
use weft_mobility_transport::note::{N4Note, Note, Question};
use weft_node_config::Blueprint;

/// UDP port at which N4 finds nodes.
const N4_PORT: u16 = 8805;

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
    addresses: Vec<IpAddr>,
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

fn log(answer: &N4Note) {
    match answer.number {
        0 => tracing::warn!("the node is not behind N4: {}", answer.reason),
        number => tracing::info!(number, "the node is behind N4"),
    }
}
