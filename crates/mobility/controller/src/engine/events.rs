//! What happens, told to all who listen.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use utoipa::ToSchema;
use weft_mobility_protocol::NodeId;
use weft_mobility_protocol::controller::Notice;

use super::Engine;

/// Happenings that wait for one who reads slowly; then the oldest are missed.
const WAITING: usize = 16_384;

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct Happening {
    /// Counts all, from 1, since the controller started.
    pub number: u64,
    /// Milliseconds since 1970 (UTC).
    pub time: u64,
    /// `ready`: the user's radio may go to the node. `moved`: the node owns the
    /// user, and the move is over. `aborting`: the radio had better be at the
    /// node. `aborted`: the node still owns the user. `no-owner`: the owner is
    /// gone. `owned`: the node owns the user, which is new or had no owner.
    /// `removed`, `refused`: of a user. `connected`, `lost`: of a node. `registered`: a
    /// node has said where and what it is. `expired`: its lease has ended.
    /// `takes-over`: the standby owns the users of its pair.
    /// `rollout-failed`, `rollout-complete`: of documents. `spread`: users go to the node, as
    /// others carry more. `upgraded`: another process of the node runs. `upgrade-complete`,
    /// `upgrade-failed`, `upgrade-cancelled`: of the site. `n4-up`, `n4-silent`, `n4-cordoned`,
    /// `n4-leaving`, `n4-restarted`, `n4-given-up`: of a node behind N4. `n4-registered`: a
    /// node is behind N4, as it has registered. `n4-refused`: it cannot be. `n4-share-moved`,
    /// `n4-share-stays`: of a share, and the node that has it.
    pub event: String,
    /// The user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u64>,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Reads what happens.
pub type Watcher = broadcast::Receiver<Happening>;

/// Those who listen.
#[derive(Debug)]
pub struct Events {
    sender: broadcast::Sender<Happening>,
    number: u64,
}

impl Events {
    /// Without listeners.
    pub fn new() -> Events {
        Events { sender: broadcast::Sender::new(WAITING), number: 0 }
    }

    /// Tells all listeners, at that time.
    pub fn tell(&mut self, happening: Happening, since_1970: Duration) {
        self.number += 1;
        let time = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        // There may be no listener.
        let _ = self.sender.send(Happening { number: self.number, time, ..happening });
    }
}

impl Happening {
    fn new(event: &str, user: Option<u64>, node: Option<String>) -> Happening {
        Happening { number: 0, time: 0, event: event.to_owned(), user, node, reason: None }
    }

    /// A node has come or gone.
    pub fn connected(node: String, connected: bool) -> Happening {
        Happening::new(if connected { "connected" } else { "lost" }, None, Some(node))
    }

    /// A standby owns the users of its pair.
    pub fn takes_over(node: String) -> Happening {
        Happening::new("takes-over", None, Some(node))
    }

    /// A node behind N4 is otherwise than before.
    pub fn n4(node: String, state: &str) -> Happening {
        Happening::new(&format!("n4-{state}"), None, Some(node))
    }

    /// A node that registers cannot be behind N4.
    pub fn not_behind_n4(node: String, why: String) -> Happening {
        Happening { reason: Some(why), ..Happening::n4(node, "refused") }
    }

    /// A node has registered.
    pub fn registered(node: String) -> Happening {
        Happening::new("registered", None, Some(node))
    }

    /// The lease of a node has ended.
    pub fn expired(node: String) -> Happening {
        Happening::new("expired", None, Some(node))
    }

    /// Users go to a node so that others carry less.
    pub fn spread(node: String, said: String) -> Happening {
        Happening { reason: Some(said), ..Happening::new("spread", None, Some(node)) }
    }

    /// What becomes of documents: `failed` at a node, or `complete`.
    pub fn rollout(event: &str, node: Option<String>, said: String) -> Happening {
        Happening { reason: Some(said), ..Happening::new(&format!("rollout-{event}"), None, node) }
    }

    /// What becomes of the upgrade of the site: of a node, or as a whole.
    pub fn upgrade(event: &str, node: Option<String>, said: String) -> Happening {
        let reason = Some(said).filter(|said| !said.is_empty());
        Happening { reason, ..Happening::new(event, None, node) }
    }

    /// What the machine tells.
    pub fn of(notice: &Notice, name: impl Fn(NodeId) -> String) -> Happening {
        let (event, user, node) = match *notice {
            Notice::Ready(user, node) => ("ready", user, Some(node)),
            Notice::Moved(user, node) => ("moved", user, Some(node)),
            Notice::Aborting(user, node) => ("aborting", user, Some(node)),
            Notice::Aborted(user, node) => ("aborted", user, Some(node)),
            Notice::NoOwner(user) => ("no-owner", user, None),
            Notice::Owned(user, node) => ("owned", user, Some(node)),
            Notice::Removed(user) => ("removed", user, None),
            Notice::Refused(user, _) => ("refused", user, None),
        };
        let reason = match notice {
            Notice::Refused(_, refusal) => Some(refusal.to_string()),
            _ => None,
        };
        Happening { reason, ..Happening::new(event, Some(user.0), node.map(name)) }
    }
}

impl Engine {
    /// Listens from now on.
    pub fn watch(&self) -> Watcher {
        self.events.sender.subscribe()
    }
}
