//! What becomes of a user's packets at a station and at an anchor: the postures
//! that the machines ask for, carried out.
//!
//! A plane says of each packet what is to be done with it, and keeps those that
//! wait. It does not know what a packet is, nor how it travels.

use std::collections::BTreeMap;

use crate::gate::{Bounds, Gate, Held, Policy, Room};
use crate::identity::{Direction, Epoch, Leg, NodeId, User};
use crate::output::{AnchorPosture, Posture, Treatment};

/// How much may wait, and what gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In one gate of a user.
    pub user: Bounds,
    /// In all gates of the node.
    pub node: Bounds,
    /// When a gate is full.
    pub policy: Policy,
}

/// Where a packet comes to a station from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the user.
    Radio,
    /// From the anchor, in the tunnel of this epoch.
    Anchor(Epoch),
    /// From another station, in the tunnel of this move.
    Station(Epoch),
}

/// What is to be done with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<P> {
    /// The user's path: functions, then out; uplink in the tunnel of this epoch.
    Process(P, Epoch),
    /// Untouched to another station, in the tunnel of this move.
    Forward(P, NodeId, Epoch),
    /// An anchor's: on, to where uplink goes.
    Pass(P),
    /// Nothing, it waits. The machine is told of the first one in a gate for
    /// fresh packets: `held` of [`Station`](crate::Station) or
    /// [`Anchor`](crate::Anchor).
    Wait {
        /// It is such a one.
        first: bool,
    },
    /// Drop it; at a full gate it may be an older one than the one that came.
    Drop(P, DropReason),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// The node does not have the user.
    NoOwner,
    /// The tunnel is over, or not one that is processed here.
    StaleEpoch,
    /// The gate, or all room of the node, is full.
    GateFull,
}

impl DropReason {
    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::NoOwner => "no_owner",
            DropReason::StaleEpoch => "stale_epoch",
            DropReason::GateFull => "gate_full",
        }
    }
}

/// A user at a station.
#[derive(Debug)]
struct UserGates {
    posture: Posture,
    fresh: [Gate; 2],
    forwarded: [Gate; 2],
}

/// The users of a station, and what waits for them.
#[derive(Debug)]
pub struct StationPlane<P> {
    limits: Limits,
    room: Room<P>,
    users: BTreeMap<User, UserGates>,
}

impl<P> StationPlane<P> {
    /// A station without users.
    pub fn new(limits: Limits) -> StationPlane<P> {
        StationPlane { limits, room: Room::new(limits.node), users: BTreeMap::new() }
    }

    /// How the user's packets are treated; `None` for a user that is not here.
    pub fn posture(&self, user: User) -> Option<&Posture> {
        self.users.get(&user).map(|entry| &entry.posture)
    }

    /// Users that are here, in order.
    pub fn users(&self) -> impl Iterator<Item = User> {
        self.users.keys().copied()
    }

    /// Packets that wait for the user.
    pub fn waiting(&self, user: User) -> usize {
        let gates =
            |entry: &UserGates| entry.fresh.iter().chain(&entry.forwarded).map(Gate::len).sum();
        self.users.get(&user).map_or(0, gates)
    }

    /// What waits in all.
    pub fn used(&self) -> Bounds {
        self.room.used()
    }

    /// The user's packets are treated so from now on. What waits and may go is to
    /// be had from [`next`](StationPlane::next), before any other packet of the
    /// user is looked at.
    pub fn steer(&mut self, user: User, posture: Posture) {
        match self.users.get_mut(&user) {
            Some(entry) => entry.posture = posture,
            None => {
                let (fresh, forwarded) = Default::default();
                self.users.insert(user, UserGates { posture, fresh, forwarded });
            }
        }
    }

    /// A packet of so many bytes has come.
    pub fn arrive(
        &mut self,
        (user, direction): (User, Direction),
        origin: Origin,
        packet: P,
        bytes: usize,
    ) -> Action<P> {
        let Some(entry) = self.users.get_mut(&user) else {
            return Action::Drop(packet, DropReason::NoOwner);
        };
        let Posture { epoch, link, fresh, forwarded } = entry.posture;
        let (ways, gates, stale) = match origin {
            Origin::Radio => (fresh, &mut entry.fresh, false),
            Origin::Anchor(of) => (fresh, &mut entry.fresh, of != epoch),
            Origin::Station(of) => (forwarded, &mut entry.forwarded, of != link),
        };
        if stale {
            return Action::Drop(packet, DropReason::StaleEpoch);
        }
        let treatment = ways.of(direction);
        if treatment != Treatment::Hold {
            return treat(packet, &entry.posture, treatment);
        }
        let (Limits { user, policy, .. }, room) = (self.limits, &mut self.room);
        match gates[direction as usize].hold(packet, bytes, user, room, policy) {
            Held::First => Action::Wait { first: !matches!(origin, Origin::Station(_)) },
            Held::Behind => Action::Wait { first: false },
            Held::Full(packet) => Action::Drop(packet, DropReason::GateFull),
        }
    }

    /// The next packet of the user that waited and is not to wait any more:
    /// forwarded ones before fresh ones, oldest first.
    pub fn next(&mut self, user: User) -> Option<Action<P>> {
        let UserGates { posture, fresh, forwarded } = self.users.get_mut(&user)?;
        for (ways, gates) in [(posture.forwarded, forwarded), (posture.fresh, fresh)] {
            for direction in Direction::ALL {
                let treatment = ways.of(direction);
                if treatment == Treatment::Hold {
                    continue;
                }
                if let Some(packet) = gates[direction as usize].release(&mut self.room) {
                    return Some(treat(packet, posture, treatment));
                }
            }
        }
        None
    }

    /// The user is not here any more; what waits for it is given to `dropped`.
    pub fn discard(&mut self, user: User, mut dropped: impl FnMut(P)) {
        let Some(mut entry) = self.users.remove(&user) else { return };
        for gate in entry.forwarded.iter_mut().chain(&mut entry.fresh) {
            while let Some(packet) = gate.release(&mut self.room) {
                dropped(packet);
            }
        }
    }
}

/// Does with a packet that does not wait what the posture says.
fn treat<P>(packet: P, posture: &Posture, treatment: Treatment) -> Action<P> {
    match treatment {
        Treatment::Process => Action::Process(packet, posture.epoch),
        Treatment::Forward(to) => Action::Forward(packet, to, posture.link),
        // What is to wait was seen to before.
        Treatment::Refuse | Treatment::Hold => Action::Drop(packet, DropReason::StaleEpoch),
    }
}

/// A user at an anchor.
#[derive(Debug)]
struct Anchor {
    posture: AnchorPosture,
    /// Uplink of the next way.
    gate: Gate,
}

/// The users of an anchor, and what waits for them.
#[derive(Debug)]
pub struct AnchorPlane<P> {
    limits: Limits,
    /// Packets, with the epochs of their tunnels.
    room: Room<(P, Epoch)>,
    users: BTreeMap<User, Anchor>,
}

/// What an anchor does with uplink of a tunnel.
enum Verdict {
    Pass,
    Hold,
    Refuse,
}

impl Anchor {
    fn verdict(&self, tunnel: Epoch) -> Verdict {
        match self.posture.next {
            _ if self.posture.accept == Some(tunnel) => Verdict::Pass,
            Some((epoch, true)) if epoch == tunnel => Verdict::Pass,
            Some((epoch, false)) if epoch == tunnel => Verdict::Hold,
            _ => Verdict::Refuse,
        }
    }
}

impl<P> AnchorPlane<P> {
    /// An anchor without users.
    pub fn new(limits: Limits) -> AnchorPlane<P> {
        AnchorPlane { limits, room: Room::new(limits.node), users: BTreeMap::new() }
    }

    /// How the user's packets are treated; `None` for a user that is not here.
    pub fn posture(&self, user: User) -> Option<&AnchorPosture> {
        self.users.get(&user).map(|entry| &entry.posture)
    }

    /// Users that are here, in order.
    pub fn users(&self) -> impl Iterator<Item = User> {
        self.users.keys().copied()
    }

    /// Packets that wait for the user.
    pub fn waiting(&self, user: User) -> usize {
        self.users.get(&user).map_or(0, |entry| entry.gate.len())
    }

    /// What waits in all.
    pub fn used(&self) -> Bounds {
        self.room.used()
    }

    /// The user's packets are treated so from now on. What waits and may go is to
    /// be had from [`next`](AnchorPlane::next), before any other packet of the user
    /// is looked at.
    pub fn steer(&mut self, user: User, posture: AnchorPosture) {
        match self.users.get_mut(&user) {
            Some(entry) => entry.posture = posture,
            None => {
                self.users.insert(user, Anchor { posture, gate: Gate::default() });
            }
        }
    }

    /// The way of a packet to the user.
    ///
    /// # Errors
    /// Why it is dropped.
    pub fn downlink(&self, user: User) -> Result<Leg, DropReason> {
        self.posture(user).and_then(|posture| posture.downlink).ok_or(DropReason::NoOwner)
    }

    /// A packet of so many bytes has come from a station, in the tunnel of this
    /// epoch.
    pub fn uplink(&mut self, user: User, tunnel: Epoch, packet: P, bytes: usize) -> Action<P> {
        let Some(entry) = self.users.get_mut(&user) else {
            return Action::Drop(packet, DropReason::NoOwner);
        };
        match entry.verdict(tunnel) {
            Verdict::Pass => Action::Pass(packet),
            Verdict::Refuse => Action::Drop(packet, DropReason::StaleEpoch),
            Verdict::Hold => {
                let Limits { user, policy, .. } = self.limits;
                let held = (packet, tunnel);
                match entry.gate.hold(held, bytes, user, &mut self.room, policy) {
                    Held::First => Action::Wait { first: true },
                    Held::Behind => Action::Wait { first: false },
                    Held::Full((packet, _)) => Action::Drop(packet, DropReason::GateFull),
                }
            }
        }
    }

    /// The next packet of the user that waited and is not to wait any more, oldest
    /// first.
    pub fn next(&mut self, user: User) -> Option<Action<P>> {
        let entry = self.users.get_mut(&user)?;
        let (_, tunnel) = entry.gate.oldest(&self.room)?;
        let pass = match entry.verdict(*tunnel) {
            Verdict::Hold => return None,
            Verdict::Pass => true,
            Verdict::Refuse => false,
        };
        let (packet, _) = entry.gate.release(&mut self.room)?;
        Some(match pass {
            true => Action::Pass(packet),
            false => Action::Drop(packet, DropReason::StaleEpoch),
        })
    }

    /// The user is not here any more; what waits for it is given to `dropped`.
    pub fn discard(&mut self, user: User, mut dropped: impl FnMut(P)) {
        let Some(mut entry) = self.users.remove(&user) else { return };
        while let Some((packet, _)) = entry.gate.release(&mut self.room) {
            dropped(packet);
        }
    }
}
