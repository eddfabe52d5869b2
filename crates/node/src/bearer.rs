//! Bearers that come and go while traffic runs.
//!
//! Commands have the shape of the packet forwarding model of TS 29.244 §5.2.1,
//! so that a session's rules become commands one by one:
//!
//! | TS 29.244 | here |
//! |---|---|
//! | packet detection: local F-TEID, UE IP address in a network instance | the keys of a user's default bearer |
//! | packet detection: QFI, SDF filter | the [`Selector`] of a dedicated bearer |
//! | forwarding action: FORW, DROP, BUFF, NOCP | [`Action`] |
//! | outer header creation, QoS enforcement | settings of the functions that do it |
//! | usage reporting | what contexts of counting functions show |
//!
//! A batch of commands is applied whole or not at all. Workers apply it between
//! bursts, a few commands at a time, in the order that was given.

mod bearers;
mod change;
mod dedicated;
mod dynamic_users;
mod entry;
mod listeners;
mod members;
mod new;
pub(crate) mod record;
pub mod session;
mod subscribers;
mod tunnels;
mod written;
mod wrong;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
pub use weft_compose::Settings;
pub use weft_dataplane::classify::{Action, Filter, Selector};
pub use weft_mobility_protocol::User;
use weft_node_config::UserKey;

pub(crate) use self::bearers::{Bearers, KeyConflict};
pub use self::change::BearersChanged;
pub(crate) use self::change::{MOST_WAITING, Staged, Steered, Work, text as key_text};
pub(crate) use self::entry::{BearerRole, Entry};
pub(crate) use self::listeners::Listeners;
pub(crate) use self::members::Members;
pub(crate) use self::new::NewBearer;
pub(crate) use self::subscribers::{Subscribers, TunnelUsers};
pub(crate) use self::written::Reader;
pub use self::written::{WrittenBearer, WrittenChange, WrittenCommand, WrittenMatch};
pub use self::wrong::{BearerError, Wrong};
use crate::ports::LinkState;
pub use crate::subscribers::BearerId;

/// What is looked up by numbers, many times for each command: with a fast hash. The numbers are a
/// control plane's, which can do worse than heap them up; the seed is random all the same.
pub type Numbered<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The default bearer of a user: that of a dedicated one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum DefaultBearer {
    /// A command has added it.
    Added(BearerId),
    /// It is that of the user of this name in the configuration.
    Configured(Box<str>),
}

impl fmt::Display for DefaultBearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefaultBearer::Added(id) => id.fmt(f),
            DefaultBearer::Configured(name) => name.fmt(f),
        }
    }
}

/// What packets of a bearer are known by.
#[derive(Clone, Debug)]
pub enum Detection {
    /// The default bearer of a user, like those of the plan of that name:
    /// of the same chain, tags and group, with the same settings.
    User {
        /// Name of the plan: of some `users` in the configuration.
        like: String,
        /// Which of the plan's users it is like, from 0, in its settings.
        nth: u32,
        /// At least one key that no other bearer has.
        keys: Vec<UserKey>,
        /// The number that it moves by: one that `handover.users.*.added` has for
        /// users like these. It has at most one address or prefix of each IP version,
        /// one TEID and one SPI then.
        user: Option<User>,
    },
    /// A dedicated bearer of a user.
    Dedicated {
        /// The user's default bearer.
        of: DefaultBearer,
        /// Which of the user's packets.
        selector: Selector,
    },
}

/// Settings of one function for one bearer; see
/// [`Agent::settings`](crate::Agent::settings).
#[derive(Clone, Debug)]
pub struct BearerSettings {
    /// Name of the function's instance.
    pub function: String,
    /// What is set.
    pub settings: Settings,
    /// Which of the users that the settings were written for this is, from 0.
    pub nth: u32,
}

/// A change of the bearer table.
#[derive(Clone, Debug)]
pub enum BearerCommand {
    /// A bearer comes.
    Add {
        /// Its name.
        id: BearerId,
        /// What its packets are known by.
        detection: Detection,
        /// What becomes of them.
        action: Action,
        /// Settings beyond those of the plan, or in their place.
        settings: Vec<BearerSettings>,
    },
    /// A bearer changes; its contexts go on.
    Change {
        /// Its name.
        id: BearerId,
        /// What becomes of its packets from now on.
        action: Option<Action>,
        /// Settings that change.
        settings: Vec<BearerSettings>,
        /// Whether an End Marker (TS 29.281 §7.3.2) is sent into each tunnel that
        /// the settings replace, behind the last packet: *SNDEM* of TS 29.244
        /// §8.2.41.
        end_marker: bool,
    },
    /// A bearer goes, with its contexts and all that waits for it.
    Remove {
        /// Its name.
        id: BearerId,
    },
}

impl BearerCommand {
    /// The bearer that it is about.
    pub fn id(&self) -> BearerId {
        match self {
            BearerCommand::Add { id, .. }
            | BearerCommand::Change { id, .. }
            | BearerCommand::Remove { id } => *id,
        }
    }
}

/// What a node tells of its bearers, its GTP-U peers and its ports. Times are nanoseconds
/// since the node started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A packet waits for an idle user: the *Downlink Data Report* of TS 29.244
    /// §7.5.8.2. Told once until the bearer's action changes.
    DownlinkData {
        /// The bearer.
        bearer: BearerId,
        /// When.
        time: u64,
    },
    /// The link of a port has changed, or its device has gone or is back.
    PortChanged {
        /// The port.
        port: String,
        /// How it is now.
        state: LinkState,
        /// When.
        time: u64,
    },
    /// A peer does not know a tunnel that packets are sent into: the *Error
    /// Indication Report* of TS 29.244 §7.5.8.4.
    ErrorIndication {
        /// The bearer, if a command has added it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bearer: Option<BearerId>,
        /// The user, if it is one of the configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// The tunnel at the peer.
        teid: u32,
        /// The peer.
        #[schema(value_type = String)]
        peer: IpAddr,
        /// When.
        time: u64,
    },
    /// A peer does not answer Echo Requests any more: the *User Plane Path Failure
    /// Report* of TS 29.244 §7.4.5.1.2.
    PeerFailed {
        /// The node's address.
        #[schema(value_type = String)]
        local: IpAddr,
        /// The peer's address.
        #[schema(value_type = String)]
        peer: IpAddr,
        /// When.
        time: u64,
    },
    /// It answers again: the *User Plane Path Recovery Report* of TS 29.244
    /// §7.4.5.1.3.
    PeerReturned {
        /// The node's address.
        #[schema(value_type = String)]
        local: IpAddr,
        /// The peer's address.
        #[schema(value_type = String)]
        peer: IpAddr,
        /// When.
        time: u64,
    },
}
