//! What can be wrong with a command.

use weft_dataplane::gates::tunnel::FIRST_TEID;

use super::{BearerId, User};
use crate::subscribers::NoRoom;

/// Why a batch was refused; nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[error("command {number} (bearer {id}): {wrong}")]
pub struct BearerError {
    /// Which command of the batch, from 1.
    pub number: usize,
    /// The bearer that it is about.
    pub id: BearerId,
    /// What is wrong with it.
    pub wrong: Wrong,
}

/// What can be wrong with a command.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// The number is taken.
    #[error("there is such a bearer already; change it, or remove it first")]
    Exists,
    /// No command has added it.
    #[error("no command has added such a bearer")]
    Unknown,
    /// The plan is not in the configuration.
    #[error("no users of the configuration are called `{0}`; name a plan to be like")]
    NoPlan(String),
    /// The plan has fewer users.
    #[error("nth: {nth} is beyond the users called `{like}`; there are {count}, counted from 0")]
    NoMember {
        /// The plan.
        like: String,
        /// Which of its users the command names.
        nth: u32,
        /// How many it has.
        count: u32,
    },
    /// The plan has dedicated bearers.
    #[error("`{0}` has dedicated bearers in the configuration; name a plan without")]
    PlanWithBearers(String),
    /// A key is taken.
    #[error("{0} belongs to another user already")]
    KeyTaken(String),
    /// A user without keys.
    #[error("nothing can match it; give a teid, ipv4, ipv6 or flow")]
    NoKey,
    /// The user is not there, or is itself a dedicated bearer.
    #[error("bearer {0} is not the default bearer of a user")]
    NoUser(BearerId),
    /// The configuration does not have the user.
    #[error("no user of the configuration is called `{name}`{}", in_brackets(meant))]
    NoConfigured {
        /// What the command calls it.
        name: Box<str>,
        /// Who may be meant.
        meant: Option<String>,
    },
    /// The user moves just now.
    #[error("{0} is on the move; try again when it has arrived, at the node where it is")]
    Moving(User),
    /// The user is at another node, or at none.
    #[error("{0} is not at this node; ask its controller where it is")]
    Elsewhere(User),
    /// The user would be gone for the node, and not for its controller.
    #[error(
        "{} is the controller's: remove it there (`weft ctl user remove {}`), and it goes here too",
        .0,
        .0.0
    )]
    Owned(User),
    /// No user moves by this number.
    #[error(
        "number {} is none of those that `handover.users` has for users added like `{like}`",
        .user.0
    )]
    NoNumber {
        /// The number.
        user: User,
        /// The plan that the user is like.
        like: String,
    },
    /// Another user moves by it.
    #[error("bearer {1} is {0} already")]
    NumberTaken(User, BearerId),
    /// The node itself sets the function for users that move.
    #[error("`{0}` is the tunnel of users that move, and the node gives it its settings")]
    Tunnel(String),
    /// Keys that mean nothing at another node.
    #[error(
        "a user that moves is known by at most one IPv4 address, IPv6 address or prefix, TEID and SPI"
    )]
    KeyStays,
    /// The TEID is of a tunnel of a user that moves.
    #[error("TEIDs from {:#x} on are those of users that move", FIRST_TEID)]
    MovingTeid,
    /// Another bearer of the user has the selector.
    #[error("bearer {0} of the same user has this selector already")]
    SelectorTaken(BearerId),
    /// A filter that says nothing.
    #[error("a filter gives at least one of protocol, remote, remotePort, userPort")]
    EmptyFilter,
    /// The default bearer cannot go first.
    #[error("{0} dedicated bearers of the user are still there; remove them first")]
    HasDedicated(usize),
    /// The function is not in the configuration.
    #[error("there is no function `{0}`")]
    NoFunction(String),
    /// The function keeps no context that is the bearer's.
    #[error("`{0}` keeps one context for each {1}, so a bearer cannot set it")]
    WrongScope(String, &'static str),
    /// The function refuses the settings.
    #[error("functions.{0}: {1}")]
    Settings(String, String),
    /// No slot is left.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// No room for the key.
    #[error("no room for so many keys of this kind; raise limits.users and restart")]
    NoRoomForKeys,
    /// What is changed could not be kept.
    #[error("{0}; commands are refused for as long as that is so")]
    NotKept(std::sync::Arc<str>),
    /// Another process takes the node over, or did not in the end.
    #[error("another process is taking the node over; try again")]
    Upgrading,
    /// The workers are behind.
    #[error("too many changes wait for the workers; try again")]
    Busy,
    /// The command as it was written means nothing.
    #[error("{0}")]
    Written(String),
}

fn in_brackets(text: &Option<String>) -> String {
    text.as_ref().map_or_else(String::new, |text| format!(" ({text})"))
}
