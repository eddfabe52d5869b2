//! What happens, and when.

use std::cmp::Ordering;

use weft_mobility_protocol::{Contexts, Direction, EndMarker, Epoch, NodeId, TimerKey, User};

/// Octets of every packet.
pub(crate) const OCTETS: usize = 128;

/// A packet of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub user: User,
    pub direction: Direction,
    pub sequence: u64,
    /// The tunnel that it is in.
    pub tag: Epoch,
}

/// What goes over a link of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// From the radio, from an anchor, or uplink at an anchor.
    Fresh(Packet),
    /// From another station.
    Forwarded(Packet),
    Marker(User, EndMarker),
    RadioLeft(User),
    RadioArrived(User),
}

impl Item {
    pub fn user(&self) -> User {
        match self {
            Item::Fresh(packet) | Item::Forwarded(packet) => packet.user,
            Item::Marker(user, _) | Item::RadioLeft(user) | Item::RadioArrived(user) => *user,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Message {
        to: NodeId,
        bytes: Vec<u8>,
    },
    Data {
        to: NodeId,
        item: Item,
    },
    Timer {
        node: NodeId,
        key: TimerKey,
        generation: u64,
    },
    /// A packet comes out of a station's functions; `entry` is the number of what
    /// the station had for the user when it went in.
    Emerge {
        node: NodeId,
        entry: u64,
        packet: Packet,
    },
    Exported {
        node: NodeId,
        entry: u64,
        user: User,
        epoch: Epoch,
    },
    Imported {
        node: NodeId,
        entry: u64,
        user: User,
        epoch: Epoch,
        contexts: Contexts,
    },
    /// The oldest record of this life of a station is durable.
    Kept {
        node: NodeId,
        life: u32,
    },
    /// The oldest write of this life of the controller is durable.
    Stored {
        life: u32,
    },
    Traffic {
        user: User,
        direction: Direction,
    },
    /// What the air still held for a station has come to it.
    Drained {
        node: NodeId,
        user: User,
        epoch: Epoch,
    },
    /// The radio goes where it is wanted.
    Radio(User),
    /// The user is to be added, again or for the first time.
    Add(User),
    Order,
    Fault,
    Restart(NodeId),
    DeclareGone(NodeId),
}

/// An event at its time; events of one time happen in the order they were made.
#[derive(Debug)]
pub(crate) struct Scheduled {
    pub time: u64,
    pub number: u64,
    pub event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        (self.time, self.number) == (other.time, other.number)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// The earliest is the greatest, as the heap gives the greatest first.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}
