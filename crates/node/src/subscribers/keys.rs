//! How many keys users are known by, and how many the tables of the workers have room for.

use weft_dataplane::classify::Capacity;
use weft_node_config::{Blueprint, UserKey};

use super::Room;

/// How many keys of each kind the users of a blueprint have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keys {
    narrow: usize,
    ipv6: usize,
    flows: usize,
}

impl Keys {
    pub(crate) fn of(blueprint: &Blueprint) -> Keys {
        let mut keys = Keys::default();
        for plan in &blueprint.users {
            let count = plan.count as usize;
            for key in &plan.keys {
                match key {
                    UserKey::Ipv6 { .. } => keys.ipv6 += count,
                    UserKey::Flow { .. } => keys.flows += count,
                    _ => keys.narrow += count,
                }
            }
        }
        keys
    }

    /// Room for the users that are declared, and for all that may come later.
    pub(crate) fn capacity(self, blueprint: &Blueprint, room: Room) -> Capacity {
        let limit = blueprint.limits.users as usize;
        // A kind of key that no user has yet gets room for a few.
        let later = |now: usize| if now == 0 { limit.min(1024) } else { now.max(limit) };
        // Each user that moves has a tunnel, and three more while it does.
        let tunnels = blueprint.handover.as_ref().map_or(0, |_| limit + 3 * limit.min(1 << 16));
        Capacity {
            users: room.users as usize,
            bearers: room.bearers as usize,
            // An address and a TEID for each user.
            narrow: self.narrow.max(2 * limit) + tunnels,
            ipv6: later(self.ipv6),
            flows: later(self.flows),
        }
    }

    /// Whether tables made for `self` have room for `new`.
    pub(crate) fn has_room_for(self, new: Keys, blueprint: &Blueprint, room: Room) -> bool {
        let capacity = self.capacity(blueprint, room);
        new.narrow <= capacity.narrow && new.ipv6 <= capacity.ipv6 && new.flows <= capacity.flows
    }
}
