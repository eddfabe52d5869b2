//! Users that move: those of the configuration, and those that commands have added.

use weft_mobility_protocol::station;
use weft_node_config::Blueprint;

use super::*;

/// Where a user is, for commands about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// At this node, and it stays.
    Here,
    /// On its way.
    Moves,
    /// At another station, if at any.
    Away,
    /// No message has told this anchor of it.
    Nowhere,
}

/// Why the node can have nothing to do with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unknown {
    #[error("no such user in `handover.users`")]
    Number,
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

impl Mobility {
    /// The slot of a user; one that is not of the configuration gets one.
    pub(super) fn slot_of(&self, host: &mut dyn Host, user: User) -> Result<u32, Unknown> {
        let ranges = self.plan.users.iter();
        let found = ranges.filter_map(|range| Some((range, range.nth(user)?))).next();
        let (range, nth) = found.ok_or(Unknown::Number)?;
        if nth < range.count {
            let member = host.configured_member(&range.plan, nth).ok_or(Unknown::Number)?;
            return Ok(member.slots[0]);
        }
        Ok(host.hold_dynamic_user(user, &range.plan, nth)?)
    }

    /// Whether a user is not of the configuration.
    pub(crate) fn is_dynamic(&self, user: User) -> bool {
        self.plan.users.iter().any(|range| range.added(user).is_some())
    }

    /// All workers know what packets of a user that is not of the configuration are
    /// known by before anything else is done for it: they come to any of them.
    pub(super) fn wait_for_keys(&mut self, host: &mut dyn Host, user: User) {
        if !self.is_dynamic(user) {
            return;
        }
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        mobile.pending += host.workers().count();
        for link in host.workers().iter_mut() {
            link.send(Command::Order(Box::new(Order {
                user,
                slot: mobile.slot,
                gone: Vec::new(),
                keys: Vec::new(),
                tunnels: Tunnels::new(),
                settings: Vec::new(),
                act: Act::None,
            })));
        }
    }

    /// What the node knows of a user by now.
    pub(super) fn member(&self, host: &dyn Host, user: User) -> Option<Member> {
        let ranges = self.plan.users.iter();
        let (range, nth) = ranges.filter_map(|range| Some((range, range.nth(user)?))).next()?;
        host.member_of(&range.plan, nth)
    }

    /// A user that is not of the configuration is forgotten when the node has nothing
    /// to do with it any more.
    pub(super) fn release_if_idle(&mut self, host: &mut dyn Host, user: User) {
        let idle = |mobile: &Mobile| mobile.pending == 0 && mobile.outputs.is_empty();
        if !self.is_dynamic(user)
            || self.machine.has(user)
            || !self.mobiles.get(&user).is_some_and(idle)
        {
            return;
        }
        self.settle(host, user, false);
        if let Some(mobile) = self.mobiles.remove(&user) {
            self.slots.remove(&mobile.slot);
            host.release_dynamic_user(user);
        }
    }

    /// Where a user is.
    pub(crate) fn standing(&self, user: User) -> Standing {
        match &self.machine {
            Machine::Station(station) => match station.state(user) {
                Some(station::State::Owning) => Standing::Here,
                Some(_) => Standing::Moves,
                None => Standing::Away,
            },
            Machine::Anchor(anchor) if anchor.state(user).is_some() => Standing::Here,
            Machine::Anchor(_) => Standing::Nowhere,
        }
    }

    /// The tunnel that a user's packets are put into by now.
    pub(crate) fn steered(&self, blueprint: &Blueprint, user: User) -> Option<Steered> {
        let mobile = self.mobiles.get(&user)?;
        let number = user.0 as u32;
        let (node, epoch) = match &self.machine {
            Machine::Station(_) => (mobile.anchor?, mobile.posture?.epoch),
            Machine::Anchor(_) => mobile.legs[0].map(|leg| (leg.node, leg.epoch))?,
        };
        let settings =
            self.tunnel_to(blueprint, node, self.teids.of(Purpose::Fresh, number, epoch))?;
        Some(Steered { user: mobile.slot, function: self.plan.tunnel, settings })
    }
}
