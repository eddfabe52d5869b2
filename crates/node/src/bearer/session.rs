//! PFCP sessions: users whose rules a control plane has given (3GPP TS 29.244 §5.2).
//!
//! A session is one user with one slot. What its packets are known by (the local F-TEIDs of
//! its packet detection rules, and the user's addresses) follows from its rules. The functions
//! `session-detection` and `session-forwarding` of the node carry the rules out; other
//! functions get the settings of the `users` entry that the session is like.

mod asked;
mod books;
mod kept;
mod listeners;
mod timers;

use std::net::IpAddr;
use std::sync::Arc;

use weft_functions::session::rules::{FarId, PdrId, Session, UrrId};
use weft_functions::session::usage::Usage;

pub(crate) use self::asked::StagedSessions;
pub(crate) use self::books::{SessionEntry, SessionFunctions, Sessions};
pub use self::kept::{Keep, Kept, KeptSession, VERSION};
pub(crate) use self::timers::{has_timers, may_be_due};
pub use crate::subscribers::SessionId;

/// A change of one session, applied whole or not at all. Commands of a batch do not depend on
/// each other: one that is refused leaves the others alone.
#[derive(Clone, Debug)]
pub enum SessionCommand {
    /// A session comes.
    Establish {
        /// Its number.
        id: SessionId,
        /// The `users` entry that it is like: of its chain, tags and group, with its settings
        /// of other functions.
        like: Arc<str>,
        /// Its rules.
        rules: Arc<Session>,
    },
    /// A session changes. Rates, counters and reports of rules that stay go on.
    Modify {
        /// Its number.
        id: SessionId,
        /// All its rules from now on.
        rules: Arc<Session>,
        /// Forwarding action rules whose old tunnels end with an End Marker (SNDEM, §8.2.41),
        /// where they change.
        end_markers: Vec<FarId>,
        /// Rules whose usage is wanted, as it is just before the change: a report of each is
        /// in [`SessionEvent::Applied`].
        query: Query,
        /// Packets that wait are dropped (DROBU, §8.2.41).
        drop_waiting: bool,
    },
    /// A session goes. The last usage of its rules is in [`SessionEvent::Applied`].
    Remove {
        /// Its number.
        id: SessionId,
    },
}

impl SessionCommand {
    /// The session that it is about.
    pub fn id(&self) -> SessionId {
        match self {
            SessionCommand::Establish { id, .. }
            | SessionCommand::Modify { id, .. }
            | SessionCommand::Remove { id } => *id,
        }
    }
}

/// Whose usage is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Query {
    /// That of no rule.
    #[default]
    None,
    /// That of these rules (Query URR, §7.5.4.10).
    Of(Vec<UrrId>),
    /// That of all rules (QAURR, §8.2.41).
    All,
}

/// What came of a batch of commands.
#[derive(Debug)]
pub struct SessionsChanged {
    /// Number of the batch: [`SessionEvent::Applied`] tells when packets see it.
    pub batch: u64,
    /// For each command, whether it is applied.
    pub results: Vec<Result<(), SessionError>>,
}

/// Why a command is refused; nothing of it has been applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The number is taken.
    #[error("there is a session {0} already")]
    Exists(SessionId),
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(SessionId),
    /// The configuration has no function that carries out rules.
    #[error("the node has no function `session-detection`")]
    NoFunction,
    /// The `users` entry is not in the configuration.
    #[error("no users of the configuration are called `{0}`")]
    NoPlan(Arc<str>),
    /// A rule cannot be carried out.
    #[error("{path}: {message}")]
    Rule {
        /// The rule and its part, such as `pdrs.0.network`.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// Another user has one of the keys.
    #[error("{0} belongs to another user already")]
    KeyTaken(String),
    /// Nothing of the session can be found.
    #[error("no rule has a tunnel or an address that packets are known by")]
    NoKey,
    /// No room for another user or its keys.
    #[error("no room for so many sessions; raise limits.users and restart")]
    NoRoom,
    /// The workers are behind.
    #[error("too many changes wait for the workers; try again")]
    Busy,
}

/// What the node tells of sessions. Times are nanoseconds since the node started.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEvent {
    /// All workers have applied a batch, so that packets see it.
    Applied {
        /// Number of the batch.
        batch: u64,
        /// Usage of rules that commands have removed, or asked for: at most one entry for
        /// each session.
        usage: Vec<(SessionId, Vec<Usage>)>,
        /// The newest usage that was told: [`Agent::keep`](crate::Agent::keep) says so much of it.
        told: u64,
    },
    /// Rules have something to report (§7.5.8.3).
    Usage {
        /// The session.
        session: SessionId,
        /// Their reports.
        usage: Vec<Usage>,
        /// The newest usage that was told.
        told: u64,
    },
    /// The first packet waits (§7.5.8.2). Told again each time that the session has become
    /// idle.
    DownlinkData {
        /// The session.
        session: SessionId,
        /// The rule that the packet matched.
        pdr: PdrId,
    },
    /// A peer does not know a tunnel that packets are put into (§7.5.8.4).
    ErrorIndication {
        /// The session.
        session: SessionId,
        /// The TEID at the peer.
        teid: u32,
        /// The peer.
        peer: IpAddr,
    },
    /// No packet has passed for the time that [`Session::inactivity`] says (§5.11.3).
    Inactive {
        /// The session.
        session: SessionId,
    },
}
