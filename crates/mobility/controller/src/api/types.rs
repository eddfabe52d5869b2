//! What goes over the API, as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::engine::Measure;

/// The controller itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Version of its program.
    pub version: String,
    /// Which of several replicas it is; null for a controller alone.
    #[serde(default)]
    pub replica: Option<String>,
    /// The replica that leads; null if that is not known, or there is one controller.
    #[serde(default)]
    pub leader: Option<String>,
    /// The term of that: later leaders have higher ones.
    #[serde(default)]
    pub term: Option<u64>,
}

/// What a node carries, as it says itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Packets that it has received since it started.
    pub received: u64,
    /// Packets that it has dropped since then.
    pub dropped: u64,
    /// Packets that it received a second in the last five seconds; null before they have
    /// begun.
    pub received_per_second: Option<f64>,
    /// Packets that it dropped a second.
    pub dropped_per_second: Option<f64>,
    /// Share of the time of its busiest core that packets took in the last seconds, 0 to 1;
    /// null where that is not known.
    pub busy: Option<f64>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its number in messages.
    pub number: u32,
    /// Where other nodes connect to it.
    pub address: String,
    /// Whether it is connected with the controller.
    pub connected: bool,
    /// Milliseconds since 1970 (UTC) at which something of it was last heard; null for
    /// nothing since the controller started.
    #[serde(default)]
    pub last_heard: Option<u64>,
    /// The number of its life, once it has said so: higher each time it starts.
    pub incarnation: Option<u32>,
    /// Who takes its users, if it was said not to come back; null if not, or once it has
    /// come back all the same.
    #[serde(default)]
    pub successor: Option<String>,
    /// Whether it takes no further users.
    #[serde(default)]
    pub cordoned: bool,
    /// What it says that it can carry, in packets a second; null for nothing.
    #[serde(default)]
    pub capacity: Option<u64>,
    /// Version of its program, if it says so.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether it has registered, and is not in the controller's file.
    #[serde(default)]
    pub registered: bool,
    /// Whether its lease has ended: nothing was heard of it for too long.
    #[serde(default)]
    pub expired: bool,
    /// Users that it owns and that stay.
    pub users: usize,
    /// Users whose moves begin or end at it, or would.
    pub moving: usize,
    /// What it carries; null if it has not said so in the last ten seconds.
    #[serde(default)]
    pub load: Option<Load>,
}

/// Two nodes for one set of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pair {
    /// Who owns the users.
    pub owner: String,
    /// Who stands by.
    pub standby: String,
    /// By which they are owned; 0 before a node has claimed them.
    pub epoch: u64,
    /// Whether the owner was heard lately.
    pub owner_heard: bool,
    /// Whether the standby was heard lately.
    pub standby_heard: bool,
    /// Whether the standby has all records and may take over.
    pub whole: bool,
    /// Whether the standby's node is built, with all users: one that is not is built when it takes
    /// over, and users wait for that.
    #[serde(default)]
    pub built: bool,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Its number, the same at all nodes.
    pub user: u64,
    /// The node that stands before the stations.
    pub anchor: String,
    /// Its owner, or the one it had when the change under way began; null for none.
    pub owner: Option<String>,
    /// The number of its ownership, or of what is under way.
    pub epoch: u64,
    /// The number of the owner's ownership; 0 without an owner.
    #[serde(default)]
    pub owned: u64,
    /// Where it is to go; null when nothing is under way.
    pub target: Option<String>,
    /// `Settled`, the stage of what is under way, or `Waiting` for nodes that have
    /// not connected yet.
    pub state: String,
}

/// Where a new user is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The node that stands before the stations.
    pub anchor: String,
    /// The node that is to own it; without one, the station that has the fewest users for what
    /// it can carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Who is to be handed over, and where to: one user, or all of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandoverOrder {
    /// The user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u64>,
    /// The node whose users are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_from: Option<String>,
    /// The node that is to own them.
    pub to: String,
}

/// An order to hand users over, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handover {
    /// Its number.
    pub id: u64,
    /// The node that is to own them.
    pub to: String,
    /// The node whose users are meant, if it is all of a node's.
    pub all_from: Option<String>,
    /// Users that are meant.
    pub users: usize,
    /// Users that are there.
    pub moved: usize,
    /// Users that stayed or went elsewhere: their moves were given up.
    pub aborted: usize,
    /// Users whose moves did not begin.
    pub refused: usize,
    /// Users of whom it is not known yet.
    pub under_way: usize,
    /// Whether nothing more will come of it.
    pub finished: bool,
    /// Why users are not there, for the first hundred.
    pub reasons: Vec<Unmoved>,
}

/// Why a user is not where it was to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unmoved {
    /// The user.
    pub user: u64,
    /// In one sentence.
    pub reason: String,
}

/// How a node is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainOrder {
    /// Whether the node takes users again once it has started anew. One that was cordoned before
    /// stays so.
    pub until_restart: bool,
}

/// Whether stations are only looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RebalanceOrder {
    /// What stations are compared by; without it, the first of these that all of them say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Measure>,
    /// Whether no user is to move.
    pub dry_run: bool,
}

/// What stations carry, and users who move so that all carry the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rebalance {
    /// What stations are compared by.
    pub measure: Measure,
    /// The stations that can take users.
    pub stations: Vec<Share>,
    /// Orders to hand users over; none for a dry run.
    pub orders: Vec<Handover>,
}

/// What a station carries, and what it should carry then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// Its name.
    pub node: String,
    /// Users that it has.
    pub users: usize,
    /// What it carries, by the measure.
    pub load: f64,
    /// Users that it has then.
    pub users_then: usize,
    /// What it should carry then, if all of a station's users cost the same.
    pub load_then: f64,
}

/// A node does not come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Gone {
    /// The node that takes its users.
    pub successor: String,
}
