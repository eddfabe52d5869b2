//! Looks at the whole: who owns whom, and whether a user is at rest.

use weft_mobility_protocol::{Direction, Leg, NodeId, Treatment, User, Ways};

use crate::check::Promise;
use crate::event::Event;
use crate::user::Life;
use crate::world::{Phase, World};

impl World {
    /// Never two owners, nor two that process.
    pub fn check_owner(&mut self, user: User) {
        let owners: Vec<NodeId> = self
            .stations
            .iter()
            .filter(|(_, station)| {
                let owns = station.machine.as_ref().is_some_and(|machine| machine.owns(user));
                let process = station.plane.posture(user).is_some_and(|posture| {
                    Direction::ALL.into_iter().any(|way| {
                        posture.fresh.of(way) == Treatment::Process
                            || posture.forwarded.of(way) == Treatment::Process
                    })
                });
                owns || process
            })
            .map(|(node, _)| *node)
            .collect();
        if owners.len() > 1 {
            self.violated(Promise::OneOwner, Some(user), format!("owners are {owners:?}"));
        }
    }

    /// Users at rest are excused nothing from now on.
    pub fn survey(&mut self) {
        for user in self.users.keys().copied().collect::<Vec<_>>() {
            let excused = self.users.get(&user).is_some_and(|state| state.is_excused());
            if excused
                && self.unsettled(user).is_none()
                && let Some(state) = self.users.get_mut(&user)
            {
                state.whole();
                self.note(Some(user), || "is whole".to_owned());
            }
        }
    }

    /// Why a user is not at rest, if it is not.
    fn unsettled(&self, user: User) -> Option<String> {
        let state = self.users.get(&user)?;
        let Some(controller) = &self.controller.machine else {
            return Some("the controller is dead".to_owned());
        };
        let entries = self.stations.iter().filter_map(|(node, station)| {
            let machine = station.machine.as_ref().and_then(|machine| machine.state(user));
            let plane = station.plane.posture(user).is_some();
            (machine.is_some() || plane).then_some((*node, machine))
        });
        let entries: Vec<_> = entries.collect();
        let anchor = self.anchors.get(&state.anchor)?;
        if state.life == Life::Removed {
            let anchored = anchor.plane.posture(user).is_some();
            let left = !entries.is_empty() || anchored || controller.stage(user).is_some();
            return left.then(|| format!("removed, and is still at {entries:?}"));
        }
        let Some(owner) = controller.owner(user) else {
            return Some(format!("the controller: {:?}", controller.stage(user)));
        };
        match entries.as_slice() {
            [(node, Some(weft_mobility_protocol::station::State::Owning))]
                if *node == owner.node => {}
            other => return Some(format!("{} owns, stations have {other:?}", owner.node)),
        }
        self.closed(user, owner).or_else(|| {
            let away = state.radio != owner.node || state.wanted != owner.node;
            away.then(|| format!("the radio is at {}, the owner {}", state.radio, owner.node))
        })
    }

    /// What of a user's way is not open.
    fn closed(&self, user: User, owner: Leg) -> Option<String> {
        let state = self.users.get(&user)?;
        let station = self.stations.get(&owner.node)?;
        let posture = station.plane.posture(user)?;
        let waiting = station.plane.waiting(user);
        let open = Ways::both(Treatment::Process);
        let right = posture.epoch == owner.epoch
            && posture.fresh == open
            && posture.forwarded == open
            && station.life == owner.incarnation.0;
        if !right || waiting > 0 {
            return Some(format!("{posture:?} at the owner, {waiting} wait"));
        }
        let anchor = self.anchors.get(&state.anchor)?;
        let Some(posture) = anchor.plane.posture(user) else {
            return Some("the anchor has no way".to_owned());
        };
        let waiting = anchor.plane.waiting(user);
        let right = posture.downlink == Some(owner)
            && posture.accept == Some(owner.epoch)
            && posture.next.is_none()
            && waiting == 0;
        (!right).then(|| format!("{posture:?} at the anchor, {waiting} wait"))
    }

    /// Nothing is left to happen. Returns whether that is the end.
    pub fn rest(&mut self) -> bool {
        match self.phase {
            Phase::Running => {
                self.violated(Promise::Settled, None, "nothing happens any more".to_owned());
                true
            }
            Phase::Draining => {
                self.at_rest();
                self.survey();
                self.phase = Phase::Probing;
                self.since = self.time;
                for user in self.users.keys().copied().collect::<Vec<_>>() {
                    for (direction, at) in
                        Direction::ALL.into_iter().flat_map(|d| [(d, 1), (d, 20)])
                    {
                        self.after(at, Event::Traffic { user, direction });
                    }
                }
                false
            }
            Phase::Probing => {
                self.at_rest();
                true
            }
        }
    }

    /// All users are at rest, and nothing is left over.
    fn at_rest(&mut self) {
        for user in self.users.keys().copied().collect::<Vec<_>>() {
            if let Some(what) = self.unsettled(user) {
                return self.violated(Promise::Settled, Some(user), what);
            }
            let state = self.users.get(&user);
            if let Some(what) = state.and_then(|state| state.vanished()) {
                return self.violated(Promise::NothingLost, Some(user), what);
            }
        }
        let stations = self.stations.iter().map(|(node, station)| (*node, station.plane.used()));
        let anchors = self.anchors.iter().map(|(node, anchor)| (*node, anchor.plane.used()));
        let held = stations.chain(anchors).find(|(_, used)| used.packets > 0 || used.bytes > 0);
        if let Some((node, used)) = held {
            return self.violated(Promise::NothingHeld, None, format!("{used:?} wait at {node}"));
        }
        if !self.controller.writes.is_empty() {
            self.violated(Promise::Settled, None, "a record is still being written".to_owned());
        }
    }
}
