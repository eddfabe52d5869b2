//! Users of the configuration that no node has owned yet: each begins when its
//! node and its anchor have said hello.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use weft_mobility_protocol::controller::{Notice, Record};
use weft_mobility_protocol::{Controller, NodeId, User};

use crate::config::Users;

/// Users of one node and anchor that begin at once.
const AT_ONCE: usize = 256;

/// Users that have not begun.
#[derive(Debug)]
pub struct Seeds {
    /// By anchor and node.
    waiting: BTreeMap<(NodeId, NodeId), Bed>,
    /// Users that are beginning, and where.
    beginning: HashMap<User, (NodeId, NodeId)>,
    /// Users of the configuration that were removed.
    removed: BTreeSet<User>,
    configured: Vec<Users>,
    /// Something has changed since it was last looked for one that can begin.
    look: bool,
}

#[derive(Debug, Default)]
struct Bed {
    users: VecDeque<User>,
    beginning: usize,
}

impl Seeds {
    /// Those of whom there is no record.
    pub fn new(configured: &[Users], records: &BTreeMap<User, Option<Record>>) -> Seeds {
        let mut waiting: BTreeMap<_, Bed> = BTreeMap::new();
        for users in configured {
            let new = users.iter().filter(|user| !records.contains_key(user));
            waiting.entry((users.anchor, users.node)).or_default().users.extend(new);
        }
        let is_configured = |user: &User| configured.iter().any(|users| users.contains(*user));
        let gone = records.iter().filter(|(_, record)| record.is_none()).map(|(user, _)| *user);
        Seeds {
            waiting,
            beginning: HashMap::new(),
            removed: gone.filter(is_configured).collect(),
            configured: configured.to_vec(),
            look: true,
        }
    }

    /// A node may have become known.
    pub fn look(&mut self) {
        self.look = true;
    }

    /// One that can begin now: the user, its anchor and its node.
    pub fn next(&mut self, machine: &Controller) -> Option<(User, NodeId, NodeId)> {
        if !self.look {
            return None;
        }
        for ((anchor, node), bed) in &mut self.waiting {
            let known = [*anchor, *node].iter().all(|node| machine.incarnation(*node).is_some());
            while known && bed.beginning < AT_ONCE {
                let Some(user) = bed.users.pop_front() else { break };
                if machine.record(user).is_some() {
                    continue;
                }
                bed.beginning += 1;
                self.beginning.insert(user, (*anchor, *node));
                return Some((user, *anchor, *node));
            }
        }
        self.look = false;
        None
    }

    /// What the machine tells.
    pub fn noted(&mut self, notice: &Notice) {
        let user = match notice {
            Notice::Owned(user, _) | Notice::Refused(user, _) => *user,
            Notice::Removed(user) => {
                self.remove(*user);
                *user
            }
            _ => return,
        };
        if let Some(bed) = self.beginning.remove(&user).and_then(|at| self.waiting.get_mut(&at)) {
            bed.beginning -= 1;
            self.look = true;
        }
    }

    /// The user is not to begin; whether it was waiting to.
    pub fn remove(&mut self, user: User) -> bool {
        let Some(users) = self.configured.iter().find(|users| users.contains(user)) else {
            return false;
        };
        self.removed.insert(user);
        let Some(bed) = self.waiting.get_mut(&(users.anchor, users.node)) else { return false };
        let before = bed.users.len();
        bed.users.retain(|waiting| *waiting != user);
        bed.users.len() < before
    }

    /// The user is there after all, by an order.
    pub fn returned(&mut self, user: User) {
        self.removed.remove(&user);
    }

    /// Whether the user waits for its nodes: its anchor and node.
    pub fn place(&self, user: User) -> Option<(NodeId, NodeId)> {
        let users = self.configured.iter().find(|users| users.contains(user))?;
        let at = (users.anchor, users.node);
        let bed = self.waiting.get(&at)?;
        bed.users.contains(&user).then_some(at)
    }

    /// Users that wait for their nodes.
    pub fn len(&self) -> usize {
        self.waiting.values().map(|bed| bed.users.len()).sum()
    }

    /// Users of the configuration that were removed.
    pub fn removed(&self) -> impl Iterator<Item = User> {
        self.removed.iter().copied()
    }
}
