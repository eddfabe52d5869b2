//! The gates of one worker: what becomes of packets of users that move.
//!
//! Users that do not move pass without a look at any of this: whether packets go
//! through a gate stands in the user's record, which is read for every packet anyway.

pub mod tunnel;

use std::net::IpAddr;

use weft_dpdk::Packet;
use weft_function::Metadata;
use weft_mobility_protocol::plane::{
    Action, AnchorPlane, DropReason as Reason, Limits, Origin, StationPlane,
};
use weft_mobility_protocol::{AnchorPosture, Direction, Epoch, NodeId, Posture, User};

use self::tunnel::Purpose;
use crate::classify::UserKey;
use crate::counters::DropReason;
use crate::forward::Configure;

/// What the agent asks of workers for one user: of all of them to know its tunnels, of
/// the user's own to treat it so from now on.
pub struct Order {
    /// Number of the user, told when it is done.
    pub user: User,
    /// Slot of the user.
    pub slot: u32,
    /// Tunnels that are over.
    pub gone: Vec<UserKey>,
    /// Tunnels that packets may come in.
    pub keys: Vec<UserKey>,
    /// Settings of the function that puts packets into the tunnel.
    pub settings: Vec<Configure>,
    /// What its own worker does.
    pub act: Act,
}

/// What the worker of a user does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Nothing: the user is another worker's.
    None,
    /// A station's: treats the user so, behind a gate.
    Station(Posture),
    /// An anchor's: treats the user so, behind a gate.
    Anchor(AnchorPosture),
    /// Takes the gate away, which lets all through.
    Open,
    /// Forgets how the user is treated; what waits is dropped, as is what comes.
    Forget,
}

/// Who is moved, and what waits.
pub(crate) enum Plane {
    Station(StationPlane<Packet>),
    Anchor(AnchorPlane<Packet>),
}

/// The gates of one worker. Users are known by their slots.
pub struct Gates {
    pub(crate) plane: Plane,
    pub(crate) local: IpAddr,
    peers: Box<[(NodeId, IpAddr)]>,
    /// The port that tunnels leave by.
    pub(crate) port: u16,
    /// The users' slots and numbers, in the order of the slots.
    numbers: Vec<(u32, u32)>,
    /// Numbers the tunnels' packets.
    pub(crate) sent: u16,
}

/// What a node is in the moves of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverRole {
    /// It owns users and hands them over.
    Station,
    /// It stands before the stations, and switches the paths of users.
    Anchor,
}

impl HandoverRole {
    /// As configurations write it.
    pub const fn name(self) -> &'static str {
        match self {
            HandoverRole::Station => "station",
            HandoverRole::Anchor => "anchor",
        }
    }
}

/// What the gates of a node are made from.
#[derive(Clone, Debug)]
pub struct GatesPlan {
    /// What the node is.
    pub role: HandoverRole,
    /// How much may wait at the node.
    pub limits: Limits,
    /// Own address that tunnels end at.
    pub local: IpAddr,
    /// Numbers of the other nodes, and where their tunnels end.
    pub peers: Vec<(NodeId, IpAddr)>,
    /// The port that tunnels leave by.
    pub port: u16,
}

impl Gates {
    /// Gates for users of these slots and numbers, as one of so many workers.
    pub fn new(plan: &GatesPlan, mut numbers: Vec<(u32, u32)>, workers: usize) -> Gates {
        let mut limits = plan.limits;
        limits.node.packets /= workers;
        limits.node.bytes /= workers;
        let plane = match plan.role {
            HandoverRole::Station => Plane::Station(StationPlane::new(limits)),
            HandoverRole::Anchor => Plane::Anchor(AnchorPlane::new(limits)),
        };
        numbers.sort_unstable();
        Gates {
            plane,
            local: plan.local,
            peers: plan.peers.clone().into(),
            port: plan.port,
            numbers,
            sent: 0,
        }
    }

    pub(crate) fn peer(&self, node: NodeId) -> Option<IpAddr> {
        self.peers.iter().find(|(known, _)| *known == node).map(|(_, address)| *address)
    }

    /// The user at this slot has this number.
    pub(crate) fn learn(&mut self, slot: u32, user: User) {
        let number = user.0 as u32;
        match self.numbers.binary_search_by_key(&slot, |(slot, _)| *slot) {
            Ok(at) => self.numbers[at].1 = number,
            Err(at) => self.numbers.insert(at, (slot, number)),
        }
    }

    pub(crate) fn number(&self, slot: u32) -> u32 {
        let at = self.numbers.binary_search_by_key(&slot, |(slot, _)| *slot);
        at.map_or(0, |at| self.numbers[at].1)
    }

    /// What is to be done with a packet of this direction.
    pub(crate) fn arrive(&mut self, packet: Packet, direction: Direction) -> Action<Packet> {
        let user = User(packet.metadata().user.into());
        let teid = tunnel::teid_of(&packet).filter(|teid| tunnel::purpose(*teid).is_some());
        let bytes = packet.len();
        match &mut self.plane {
            Plane::Station(plane) => {
                let Some(Posture { epoch, link, .. }) = plane.posture(user).copied() else {
                    return Action::Drop(packet, Reason::NoOwner);
                };
                let of = |teid: u32, epoch: Epoch| match tunnel::is_of(teid, epoch) {
                    true => epoch,
                    false => Epoch(0),
                };
                let origin = match (teid, teid.and_then(tunnel::purpose)) {
                    (Some(teid), Some(Purpose::Fresh)) => Origin::Anchor(of(teid, epoch)),
                    (Some(teid), Some(Purpose::Forwarded(_))) => Origin::Station(of(teid, link)),
                    _ if direction == Direction::Uplink => Origin::Radio,
                    // What the node itself has for the user.
                    _ => Origin::Anchor(epoch),
                };
                plane.arrive((user, direction), origin, packet, bytes)
            }
            Plane::Anchor(plane) if direction == Direction::Uplink => {
                let posture = plane.posture(user).copied();
                let Some(AnchorPosture { accept, next, .. }) = posture else {
                    return Action::Drop(packet, Reason::NoOwner);
                };
                let known = accept.into_iter().chain(next.map(|(epoch, _)| epoch));
                let mut known =
                    known.filter(|epoch| teid.is_none_or(|teid| tunnel::is_of(teid, *epoch)));
                let epoch = known.next().unwrap_or_default();
                plane.uplink(user, epoch, packet, bytes)
            }
            Plane::Anchor(plane) => match plane.downlink(user) {
                Ok(_) => Action::Pass(packet),
                Err(reason) => Action::Drop(packet, reason),
            },
        }
    }

    pub(crate) fn next(&mut self, slot: u32) -> Option<Action<Packet>> {
        let user = User(slot.into());
        match &mut self.plane {
            Plane::Station(plane) => plane.next(user),
            Plane::Anchor(plane) => plane.next(user),
        }
    }

    /// Forgets a user; how many packets waited for it.
    pub(crate) fn forget(&mut self, slot: u32) -> usize {
        let (user, mut dropped) = (User(slot.into()), 0);
        let count = |packet: Packet| {
            drop(packet);
            dropped += 1;
        };
        match &mut self.plane {
            Plane::Station(plane) => plane.discard(user, count),
            Plane::Anchor(plane) => plane.discard(user, count),
        }
        dropped
    }

    /// Drops all that waits, as the node stops; how many packets.
    pub fn clear(&mut self) -> usize {
        let slots: Vec<_> = self.numbers.iter().map(|(slot, _)| *slot).collect();
        slots.into_iter().map(|slot| self.forget(slot)).sum()
    }
}

impl From<Reason> for DropReason {
    fn from(reason: Reason) -> DropReason {
        match reason {
            Reason::NoOwner => DropReason::NoOwner,
            Reason::StaleEpoch => DropReason::StaleEpoch,
            Reason::GateFull => DropReason::GateFull,
        }
    }
}
