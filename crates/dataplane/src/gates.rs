//! The gates of one worker: what becomes of packets of users that move.
//!
//! Users that do not move pass without a look at any of this: whether packets go
//! through a gate stands in the user's record, which is read for every packet anyway.

pub mod tunnel;

use std::net::IpAddr;

use weft_compose::{Burst, Positions};
use weft_dpdk::Packet;
use weft_function::{Metadata, Tunnel};
use weft_mobility_protocol::plane::{
    Action, AnchorPlane, DropReason as Reason, Limits, Origin, StationPlane,
};
use weft_mobility_protocol::{AnchorPosture, Direction, Epoch, NodeId, Posture, User};

use self::tunnel::{MovingTunnel, Purpose, Tunnels};
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
    /// All of the user's tunnels; for its own worker.
    pub tunnels: Tunnels,
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
    /// The addresses of the peers, in order.
    addresses: Box<[IpAddr]>,
    /// The port that tunnels leave by.
    pub(crate) port: u16,
    /// The users' slots and tunnels, in the order of the slots.
    tunnels: Vec<(u32, Tunnels)>,
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
    /// Gates for users of these slots, as one of so many workers.
    pub fn new(plan: &GatesPlan, mut slots: Vec<u32>, workers: usize) -> Gates {
        let mut limits = plan.limits;
        limits.node.packets /= workers;
        limits.node.bytes /= workers;
        let plane = match plan.role {
            HandoverRole::Station => Plane::Station(StationPlane::new(limits)),
            HandoverRole::Anchor => Plane::Anchor(AnchorPlane::new(limits)),
        };
        slots.sort_unstable();
        let mut addresses: Vec<_> = plan.peers.iter().map(|(_, address)| *address).collect();
        addresses.sort_unstable();
        Gates {
            plane,
            local: plan.local,
            peers: plan.peers.clone().into(),
            addresses: addresses.into(),
            port: plan.port,
            tunnels: slots.into_iter().map(|slot| (slot, Tunnels::new())).collect(),
            sent: 0,
        }
    }

    pub(crate) fn peer(&self, node: NodeId) -> Option<IpAddr> {
        self.peers.iter().find(|(known, _)| *known == node).map(|(_, address)| *address)
    }

    /// Of packets in tunnels, those in a tunnel of a user that moves that none of the peers
    /// has sent.
    pub(crate) fn strangers(&self, burst: &Burst, tunnelled: Positions) -> Positions {
        let mut strangers = Positions::NONE;
        for position in tunnelled {
            let packet = &burst.packets[position];
            if tunnel::is_moving_tunnel(packet) && !self.has_peer(packet) {
                strangers.insert(position);
            }
        }
        strangers
    }

    fn has_peer(&self, packet: &Packet) -> bool {
        let from = packet.outer_addresses().map(|(from, _)| from);
        from.is_some_and(|from| self.addresses.binary_search(&from).is_ok())
    }

    /// The user at this slot has these tunnels.
    pub(crate) fn learn(&mut self, slot: u32, tunnels: Tunnels) {
        match self.tunnels.binary_search_by_key(&slot, |(slot, _)| *slot) {
            Ok(at) => self.tunnels[at].1 = tunnels,
            Err(at) => self.tunnels.insert(at, (slot, tunnels)),
        }
    }

    fn tunnels(&self, slot: u32) -> &[MovingTunnel] {
        let at = self.tunnels.binary_search_by_key(&slot, |(slot, _)| *slot);
        at.map_or(&[], |at| &self.tunnels[at].1)
    }

    /// The TEID under which packets of a user go to another station in a move.
    pub(crate) fn forwarding(&self, slot: u32, direction: Direction, move_: Epoch) -> Option<u32> {
        let wanted = (Purpose::Forwarded(direction), move_);
        let mut tunnels = self.tunnels(slot).iter();
        tunnels.find(|one| (one.purpose, one.epoch) == wanted).map(|one| one.teid)
    }

    /// What is to be done with a packet of this direction.
    pub(crate) fn arrive(&mut self, packet: Packet, direction: Direction) -> Action<Packet> {
        let user = User(packet.metadata().user.into());
        let teid = tunnel::teid_of(&packet);
        let came = teid.and_then(|teid| Some((tunnel::purpose(teid)?, teid)));
        // None is of the epoch 0: a tunnel that is over.
        let epoch_of = |teid: u32| {
            let mut tunnels = self.tunnels(packet.metadata().user).iter();
            tunnels.find(|one| one.teid == teid).map_or(Epoch(0), |one| one.epoch)
        };
        let came = came.map(|(purpose, teid)| (purpose, epoch_of(teid)));
        let bytes = packet.len();
        match &mut self.plane {
            Plane::Station(plane) => {
                let Some(Posture { epoch, .. }) = plane.posture(user).copied() else {
                    return Action::Drop(packet, Reason::NoOwner);
                };
                let origin = match came {
                    Some((Purpose::Fresh, epoch)) => Origin::Anchor(epoch),
                    Some((Purpose::Forwarded(_), epoch)) => Origin::Station(epoch),
                    None if direction == Direction::Uplink => Origin::Radio,
                    // What the node itself has for the user.
                    None => Origin::Anchor(epoch),
                };
                plane.arrive((user, direction), origin, packet, bytes)
            }
            Plane::Anchor(plane) if direction == Direction::Uplink => {
                let posture = plane.posture(user).copied();
                let Some(AnchorPosture { accept, next, .. }) = posture else {
                    return Action::Drop(packet, Reason::NoOwner);
                };
                let known = accept.or(next.map(|(epoch, _)| epoch)).unwrap_or_default();
                let epoch = came.map_or(known, |(_, epoch)| epoch);
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
        let slots: Vec<_> = self.tunnels.iter().map(|(slot, _)| *slot).collect();
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
