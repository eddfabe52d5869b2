//! The history of all users of a site, as it comes.

use std::collections::BTreeMap;

use super::{Seen, check};

/// Who owns users, and what was seen of them until now. Times are of one clock, and do not go
/// back.
#[derive(Debug, Default)]
pub struct SiteHistory {
    /// Whose packets the anchor takes, by which epoch, and since when.
    owners: BTreeMap<u64, (u32, u64, u64)>,
    seen: BTreeMap<u64, Vec<Seen>>,
}

impl SiteHistory {
    /// Users of which something is known, in order.
    pub fn users(&self) -> impl Iterator<Item = u64> {
        let owned = self.owners.keys().filter(|user| !self.seen.contains_key(user));
        self.seen.keys().chain(owned).copied()
    }

    /// The node whose packets of a user the anchor takes, and by which epoch.
    pub fn owner(&self, user: u64) -> Option<(u32, u64)> {
        self.owners.get(&user).map(|(node, epoch, _)| (*node, *epoch))
    }

    /// Times in which a user was owned by one node and epoch.
    pub fn ownerships(&self) -> usize {
        let is_owned = |seen: &&Seen| matches!(seen, Seen::Owned { .. });
        self.owners.len() + self.seen.values().flatten().filter(is_owned).count()
    }

    /// How many users a node owns.
    pub fn count_of(&self, node: u32) -> usize {
        self.owners.values().filter(|(owner, ..)| *owner == node).count()
    }

    /// From now on these nodes own the user, by these epochs, and the anchor takes their packets.
    ///
    /// # Errors
    /// When they are more than one.
    pub fn owned(&mut self, user: u64, owners: &[(u32, u64)], time: u64) -> Result<(), String> {
        let now = owners.first().copied();
        if now != self.owner(user) {
            if let Some((node, epoch, from)) = self.owners.remove(&user) {
                let seen = Seen::Owned { node, epoch, from, until: Some(time) };
                self.seen.entry(user).or_default().push(seen);
            }
            if let Some((node, epoch)) = now {
                self.owners.insert(user, (node, epoch, time));
            }
        }
        match owners.len() {
            0 | 1 => Ok(()),
            _ => Err(format!("user {user} has the owners {owners:?} (node, epoch) at {time}")),
        }
    }

    /// A question was answered.
    pub fn answered(&mut self, user: u64, read: Seen) {
        self.seen.entry(user).or_default().push(read);
    }

    /// At the end: checks the history of each user.
    ///
    /// # Errors
    /// The first user whose history cannot be, and why.
    pub fn conclude(mut self) -> Result<(), String> {
        for (user, (node, epoch, from)) in std::mem::take(&mut self.owners) {
            let seen = Seen::Owned { node, epoch, from, until: None };
            self.seen.entry(user).or_default().push(seen);
        }
        let broken = |(user, seen): (&u64, &Vec<Seen>)| Some((*user, check(seen).err()?));
        match self.seen.iter().find_map(broken) {
            Some((user, what)) => Err(format!("user {user}: {what}")),
            None => Ok(()),
        }
    }
}
