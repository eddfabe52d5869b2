//! Why a node is not built, and why it is not changed.

use crate::bearer::{BearerId, KeyConflict};
use crate::plan::TooManyClasses;
use crate::subscribers::NoRoom;

/// What can go wrong with a blueprint that was found good: the machine.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A port, pool or ring.
    #[error(transparent)]
    Dpdk(#[from] weft_dpdk::Error),
    /// A port, by name.
    #[error("port {port}: {error}")]
    Port {
        /// Name of the port.
        port: String,
        /// What is wrong.
        error: weft_dpdk::Error,
    },
    /// A function that could not be made, though it could be on trial.
    #[error("function {function}: {error}")]
    Function {
        /// Name of the instance.
        function: String,
        /// What is wrong.
        error: weft_function::ConfigError,
    },
    /// A function whose ring could not be made.
    #[error("function {function}: {error}")]
    Process {
        /// Name of the instance.
        function: String,
        /// What is wrong.
        error: weft_offload::process::StartError,
    },
    /// Rules with too many ways.
    #[error("rules: {0}")]
    Rules(#[from] weft_rules::CompileError),
    /// Users without room.
    #[error(transparent)]
    Users(#[from] NoRoom),
    /// Users of too many classes.
    #[error(transparent)]
    Classes(#[from] TooManyClasses),
    /// What the node has kept cannot be read.
    #[error(transparent)]
    State(#[from] weft_state::StateError),
    /// The configuration cannot have a bearer that the node has kept.
    #[error(
        "state: bearer {id}: {reason}; start with the configuration that the node had, or \
         without what it has kept (--without-state)"
    )]
    Kept {
        /// The bearer.
        id: BearerId,
        /// Why not.
        reason: String,
    },
    /// The configuration cannot have a PFCP session that another process has.
    #[error("state: session {id}: {reason}; start with a configuration that can have it")]
    KeptSession {
        /// The session.
        id: crate::bearer::session::SessionId,
        /// Why not.
        reason: String,
    },
    /// A port of a node that has stood by takes nothing in.
    #[error("a port that was shut cannot be opened again: {0}")]
    Shut(std::io::Error),
    /// No thread for what is kept.
    #[error("no thread to write the state: {0}")]
    NoThread(std::io::Error),
}

/// Why a change was refused; nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A part of the configuration that stays as long as the node runs.
    #[error("{0} cannot be changed while the node runs; restart it")]
    Fixed(&'static str),
    /// A function that would go into its process or to another node, or come back.
    #[error(
        "`{0}` goes into its process or to another node, and back, by `weft ctl function`; do \
         that first"
    )]
    Composed(String),
    /// More processes and stages than there may be.
    #[error("{0} processes and threads for functions, with those that there were, are too many")]
    Queues(usize),
    /// More keys of users than the tables were made for.
    #[error("no room for so many addresses or flows; raise limits.users and restart")]
    Keys,
    /// A key of a user that a bearer has which a command added.
    #[error(
        "what a user is known by belongs to bearer {0}, which a command added; remove it first"
    )]
    Taken(BearerId),
    /// A dedicated bearer that a command added to a user that would go.
    #[error("bearer {0}, which a command added, is of a user that would go; remove it first")]
    HasBearer(BearerId),
    /// What cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An earlier change is still being applied.
    #[error("an earlier change is still being applied; try again")]
    Busy,
}

/// Why a function is run as it was.
#[derive(Debug, thiserror::Error)]
pub enum NotComposed {
    /// There is no such function.
    #[error("there is no function `{0}`")]
    Unknown(String),
    /// What is behind a NIC is there as long as the node runs.
    #[error("`{0}`: behind a NIC, or back, only by the configuration and a restart of the node")]
    Elsewhere(String),
    /// Another node has to do with it.
    #[error(
        "`{0}` goes to another node, or comes back, only by a node that carries its contexts: \
         `weft ctl function {0} --composition … --peer NODE`"
    )]
    Carried(String),
    /// No path was made ready.
    #[error(
        "`{0}` has no other node to go to: write `remote: {{path: …, port: …, to: …}}` beside its \
         `composition`, and restart the node"
    )]
    NoPath(String),
    /// It is there already.
    #[error("`{0}` is at the other node")]
    There(String),
    /// It has not left.
    #[error("`{0}` is at this node")]
    Here(String),
    /// It is not on its way, or not any more.
    #[error("`{0}` is not on its way to another node, or back")]
    NotGated(String),
    /// No process was made ready.
    #[error(
        "`{0}` has no process to go to: write `process: {{}}` beside its `composition`, and \
         restart the node"
    )]
    NotPrepared(String),
    /// A function of others.
    #[error("`{0}` has no tags in its process (`tags: none`), and nothing to bring or to take")]
    Plain(String),
    /// Its process does not run.
    #[error("`{0}` has no process to go to: {1}")]
    Absent(String, String),
    /// To be asked for again.
    #[error("{0}; try again")]
    NotYet(String),
    /// It has no micro-operations.
    #[error("`{0}` cannot be fused under its configuration")]
    NotFused(String),
    /// A thread for a function that does not stand on one.
    #[error("`{0}`: only composition thread has a thread and a core")]
    NoThread(String),
    /// The thread is elsewhere.
    #[error("the thread `{0}` is not on core {1}; give another name, or none")]
    OtherCore(String, u32),
    /// What follows packets into an anchor's tunnel would overtake them.
    #[error("`{0}`: at an anchor, whose End Markers go behind packets, no function has a thread")]
    Anchor(String),
    /// As for any change.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl NotComposed {
    /// Whether it may be granted a little later.
    pub fn passes(&self) -> bool {
        matches!(self, NotComposed::NotYet(_) | NotComposed::Refused(Refused::Busy))
    }
}

impl From<KeyConflict> for Refused {
    fn from(conflict: KeyConflict) -> Refused {
        match conflict {
            KeyConflict::Taken(id) => Refused::Taken(id),
            KeyConflict::NoRoom => Refused::Keys,
        }
    }
}
