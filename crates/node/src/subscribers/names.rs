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

/// What the name of a session as a user begins with.
const SESSION: &str = "session-";

impl SessionId {
    /// Its name as a user: `session-`, and the number in 16 hexadecimal digits.
    #[must_use]
    pub fn user_name(self) -> String {
        format!("{SESSION}{:016x}", self.0)
    }

    /// The session that has this name as a user.
    #[must_use]
    pub fn of_user_name(name: &str) -> Option<SessionId> {
        SessionId::of_digits(name.strip_prefix(SESSION)?)
    }

    /// The session of this number in 16 hexadecimal digits.
    #[must_use]
    pub fn of_digits(digits: &str) -> Option<SessionId> {
        let are_digits = digits.len() == 16 && digits.bytes().all(|one| one.is_ascii_hexdigit());
        are_digits.then(|| u64::from_str_radix(digits, 16).ok().map(SessionId))?
    }
}

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

#[cfg(test)]
mod tests {
    use super::SessionId;

    #[test]
    fn the_name_of_a_session_is_read_as_it_was_written() {
        for number in [0, 7, 0x0123_4567_89ab_cdef, u64::MAX] {
            let id = SessionId(number);
            assert_eq!(SessionId::of_user_name(&id.user_name()), Some(id));
        }
        assert_eq!(SessionId(0xab).user_name(), "session-00000000000000ab");
        for wrong in
            ["session-", "session-7", "session-+00000000000000a", "00000000000000ab", "session-é"]
        {
            assert_eq!(SessionId::of_user_name(wrong), None, "{wrong}");
        }
        assert_eq!(SessionId::of_digits("ééééé0000000"), None);
    }
}
