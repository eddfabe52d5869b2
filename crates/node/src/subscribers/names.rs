//! Names that nodes share: of bearers, and of what contexts belong to.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Names a bearer; the caller that adds it chooses the number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(transparent)]
pub struct BearerId(pub u64);

impl fmt::Display for BearerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of a session; the sender of the commands chooses it. For PFCP it is the node's SEID.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(transparent)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Whose a context is, by the names that nodes share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Whose {
    /// A user's of the configuration, or its default bearer's.
    User(String),
    /// A dedicated bearer's of the configuration.
    Dedicated {
        /// Name of the user.
        user: String,
        /// Name of the bearer.
        bearer: String,
    },
    /// A bearer's that a command has added.
    Added(BearerId),
    /// A group's.
    Group(String),
    /// A PFCP session's.
    Session(SessionId),
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::User(name) => write!(f, "user `{name}`"),
            Whose::Dedicated { user, bearer } => write!(f, "bearer `{bearer}` of user `{user}`"),
            Whose::Added(id) => write!(f, "bearer {id}, added by a command,"),
            Whose::Group(name) => write!(f, "group `{name}`"),
            Whose::Session(id) => write!(f, "session {id}"),
        }
    }
}
