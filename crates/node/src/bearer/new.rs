//! A bearer that is about to come, by a command or by a record: all that the books are to have of
//! it, so that nothing is copied on the way there.

use std::sync::Arc;

use weft_node_config::UserKey;

use super::entry::Setting;
use super::{Action, BearerId, DefaultBearer, Selector, User};

/// A bearer that is not in the books yet.
#[derive(Debug)]
pub(crate) struct NewBearer {
    pub id: BearerId,
    pub action: Action,
    pub role: NewRole,
    /// Those that are given, beyond the settings of the plan or in their place.
    pub settings: Vec<Setting>,
}

/// What it is to be to its user.
#[derive(Debug)]
pub(crate) enum NewRole {
    /// The default bearer of a user that comes with it.
    User { like: Arc<str>, nth: u32, keys: Box<[UserKey]>, user: Option<User> },
    /// A dedicated bearer of a user that is there.
    Dedicated { of: DefaultBearer, selector: Selector },
}

impl NewBearer {
    /// Whether it is a dedicated bearer, which comes behind its user's default bearer.
    pub fn is_dedicated(&self) -> bool {
        matches!(self.role, NewRole::Dedicated { .. })
    }

    /// What its user is known by.
    pub fn keys(&self) -> &[UserKey] {
        match &self.role {
            NewRole::User { keys, .. } => keys,
            NewRole::Dedicated { .. } => &[],
        }
    }
}
