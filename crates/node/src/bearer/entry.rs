//! What the agent knows of a bearer that a command has added, and of its user.

use weft_compose::Settings;
use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::Configure;
use weft_function::{Scope, TunnelEnd, TunnelEnds};
use weft_node_config::UserKey;

use super::{BearerId, DefaultBearer, Selector};
use crate::plan::Trials;

/// A bearer in the record.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub slot: u32,
    pub record: UserRecord,
    pub place: BearerRole,
    pub settings: Box<[Setting]>,
}

impl Entry {
    /// Whether functions with that scope have a context of it.
    pub fn has_context(&self, scope: Scope) -> bool {
        match self.place {
            BearerRole::Default { .. } => scope != Scope::Group,
            BearerRole::Dedicated { .. } => scope == Scope::Bearer,
        }
    }

    /// The tunnels that the bearer sends into.
    pub fn tunnels<'a>(&'a self, trials: &'a Trials) -> impl Iterator<Item = TunnelEnd> + 'a {
        self.settings.iter().flat_map(|one| one.tunnels(trials))
    }
}

/// What a bearer is to its user.
#[derive(Clone, Debug)]
pub(crate) enum BearerRole {
    Default {
        keys: Box<[UserKey]>,
        /// The number that it moves by.
        user: Option<u32>,
    },
    Dedicated {
        of: DefaultBearer,
        /// Slot of the user.
        user: u32,
        selector: Selector,
    },
}

/// Settings of the function of that number.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub function: u16,
    pub settings: Settings,
    pub nth: u32,
    /// By a command, and not by the plan that the user is like.
    pub is_given: bool,
}

impl Setting {
    pub fn tunnels(&self, trials: &Trials) -> TunnelEnds {
        trials.instance(self.function.into()).tunnels(&self.settings, self.nth)
    }

    pub fn configure(&self, slot: u32) -> Configure {
        let Setting { function, settings, nth, .. } = self;
        Configure { function: *function, slot, settings: settings.clone(), nth: *nth }
    }
}

/// A user that moves and is not of the configuration. It is here as long as there is a bearer of it, or it is on its way.
#[derive(Clone, Debug)]
pub(crate) struct DynamicUser {
    pub slot: u32,
    /// The plan that it is like, and its number among the plan's users.
    pub like: Box<str>,
    pub number: u32,
    /// Which of the plan's users it is like in its settings.
    pub nth: u32,
    /// Its default bearer.
    pub id: Option<BearerId>,
    /// The node has to do with its moves.
    pub held: bool,
}
