//! What goes over the socket beside what the node itself shows
//! ([`weft_node::show`]): questions and answers, as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub use weft_http::problem::{Mistake, Problem};
pub use weft_node::mobility::Radio;
pub use weft_node_config::Composition;

/// Which users are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// Only users that are found by this: a part of their name, an address, TEID, SPI, VLAN
    /// or session.
    pub search: Option<String>,
    /// Users to skip, in the order of the configuration.
    #[param(default = 0)]
    pub first: usize,
    /// Users wanted; at most 10,000 are given.
    #[param(default = 100, maximum = 10_000)]
    pub count: usize,
}

impl Page {
    /// Users or bearers that one answer holds.
    pub const MOST: usize = 10_000;
}

impl Default for Page {
    fn default() -> Page {
        Page { search: None, first: 0, count: 100 }
    }
}

/// What has become of users' radios at a station.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RadioOrder {
    /// They have left, or arrived.
    pub radio: Radio,
    /// The users' numbers, as the controller has them.
    pub users: Vec<u64>,
}

/// What a station was told of radios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RadioNoted {
    /// Of so many users.
    pub users: usize,
}

/// How many workers are to have threads of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkersOrder {
    /// So many, from 1 on. The others are parked: threads of these run them, too.
    pub threads: usize,
}

/// Which threads run which workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkersRun {
    /// By the number of the worker: the thread.
    pub threads: Vec<usize>,
    /// Whether they do so by now.
    pub settled: bool,
}

/// Where the process connects that is to have the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpgradeSocket {
    /// Path of the socket.
    pub socket: String,
}

/// Another process has the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Upgraded {
    /// Its number.
    pub process: u32,
    /// For how long packets waited, in nanoseconds, as the old process saw it.
    pub waited: u64,
    /// Packets that waited for idle bearers or functions: the old process has dropped them, and
    /// counted them as `taken_over`.
    #[serde(default)]
    pub dropped: u64,
    /// How ports went over.
    #[serde(default)]
    pub ports: PortsWent,
}

/// How ports went over to another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PortsWent {
    /// Both processes had them open, and no packet was lost.
    #[default]
    Beside,
    /// One has closed them, and then the other has opened them: for so many nanoseconds none had
    /// them, and what came was lost.
    InTurn {
        /// How many.
        closed: u64,
    },
    /// They are closed as this is said, and are opened once the other process has built the node.
    Behind,
}

/// How a function is to be run from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Composed {
    /// The composition.
    pub composition: Composition,
    /// Name of the thread, with `thread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The processor core of the thread, with `thread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
}

/// A function is to be at another node, or at this one again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionMove {
    /// `remote` for the other node; else how the function is run here from then on.
    pub composition: Composition,
    /// Name of the thread, with `thread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The processor core of the thread, with `thread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// Path of the other node's socket. A function that comes back without it begins with fresh
    /// contexts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

/// What the last move of a function has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum FunctionMoved {
    /// It is under way.
    Moving {
        /// Its step, as `docs/function-moves.md` names it.
        step: String,
    },
    /// The function is where it was to be.
    Moved {
        /// Contexts that went along.
        contexts: u64,
        /// How long packets waited, in nanoseconds.
        waited: u64,
        /// Whether all workers have taken the change over already.
        settled: bool,
    },
}

/// The last move of a function between this node and another, as it is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionMoveView {
    /// The function.
    pub function: String,
    /// How it is to be run: `remote` for the other node.
    pub composition: Composition,
    /// The other node's socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// `moving`, `moved` or `refused`.
    pub state: String,
    /// While it is moving: its step, as `docs/function-moves.md` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Contexts that went along.
    #[serde(default)]
    pub contexts: u64,
    /// How long packets waited, in nanoseconds.
    #[serde(default)]
    pub waited: u64,
    /// Why it stays where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a change of the configuration came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// Functions that go on as they were.
    pub functions_kept: usize,
    /// Functions that are new, or have a new configuration.
    pub functions_new: usize,
    /// Users before.
    pub users_before: usize,
    /// Users now.
    pub users_now: usize,
    /// Whether all workers have taken the change over already.
    pub settled: bool,
    /// What is probably not meant.
    pub warnings: Vec<Mistake>,
    /// What is to be done at another node as well, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
}

/// Which packets a trace or a capture is of. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Question {
    /// Packets of this user: its name, or the address or TEID of a PFCP session.
    pub user: Option<String>,
    /// Packets that came in at this port.
    pub port: Option<String>,
    /// Packets for which this condition holds, as rules write it.
    pub when: Option<String>,
    /// Only at this place: `port NAME rx`, `port NAME tx`, `before FUNCTION` or
    /// `after FUNCTION`; everywhere where none is given.
    pub at: Option<String>,
    /// So many packets; without an end where none is given.
    pub count: Option<u64>,
    /// Most bytes of each packet that are wanted.
    pub bytes: Option<usize>,
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A packet at one place.
    Step(Step),
    /// The last line.
    End(End),
}

/// A packet at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Same for all steps of one packet.
    pub packet: u64,
    /// Nanoseconds since the node started.
    pub time: u64,
    /// The place.
    pub place: String,
    /// Whether the way of the packet ends here.
    pub last: bool,
    /// The packet's user, once it is known.
    pub user: Option<String>,
    /// The packet's tags, by name.
    pub tags: BTreeMap<String, String>,
    /// Bytes of the packet.
    pub length: usize,
    /// The bytes, or the first of them, in hexadecimal digits.
    pub bytes: String,
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct End {
    /// Packets that were seen.
    pub packets: u64,
    /// Steps that are missing, because they came faster than they were read.
    pub missed: u64,
}
