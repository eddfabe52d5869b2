//! How many users, bearers and groups there is room for.

use weft_node_config::Limits;

/// A limit of the configuration that a change would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// Users.
    #[error("no room for so many users; raise limits.users and restart")]
    Users,
    /// Dedicated bearers.
    #[error("no room for so many bearers; raise limits.bearers and restart")]
    Bearers,
    /// Groups.
    #[error("no room for so many groups; raise limits.groups and restart")]
    Groups,
}

/// Contexts that each worker has room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Users of one worker.
    pub users: u32,
    /// Dedicated bearers of one worker.
    pub bearers: u32,
    /// Groups of one worker.
    pub groups: u32,
}

impl Room {
    /// What the limits come to for one of `workers`. Users of a group stay
    /// together, so a worker must be able to hold them all.
    pub fn of(limits: &Limits, workers: usize, has_groups: bool) -> Room {
        let workers = if has_groups { 1 } else { workers as u32 };
        Room {
            users: limits.users.div_ceil(workers).max(1),
            bearers: limits.bearers.div_ceil(workers),
            groups: limits.groups.max(1),
        }
    }

    /// Contexts that an instance needs, whatever its scope.
    pub fn contexts(&self) -> usize {
        (self.users + self.bearers).max(self.groups) as usize
    }
}
