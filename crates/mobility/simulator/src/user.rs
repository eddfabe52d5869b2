//! A user: its radio, its traffic, and what has become of every packet.

use weft_mobility_protocol::{Direction, NodeId, User};

use crate::check::Promise;
use crate::event::Packet;

/// Why a packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// With a node, or at one that is dead.
    Died,
    /// In a cut.
    Cut,
    /// A gate was full.
    GateFull,
    /// The node does not have the user.
    NoOwner,
    /// The tunnel is over.
    Stale,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::Died => "died with a node",
            Cause::Cut => "cut",
            Cause::GateFull => "gate_full",
            Cause::NoOwner => "no_owner",
            Cause::Stale => "stale_epoch",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Delivered,
    Lost,
}

/// Packets that each direction's functions have processed.
pub(crate) type Context = [u64; 2];

pub(crate) fn index(direction: Direction) -> usize {
    direction as usize
}

/// Whether the user is to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// To be added, or added and not owned yet.
    Adding,
    /// It has, or had, an owner.
    There,
    Removing,
    Removed,
}

#[derive(Debug)]
pub(crate) struct UserState {
    pub user: User,
    pub anchor: NodeId,
    pub radio: NodeId,
    pub wanted: NodeId,
    pub life: Life,
    /// A node that had to do with the user died, something of it was cut off, or
    /// it comes or goes: packets of this time may be lost.
    pub touched: bool,
    /// A gate opened without its End Marker: packets of this time may be out of
    /// order.
    pub disordered: [bool; 2],
    /// The radio went before the target owned the user.
    pub early: bool,
    /// A station was not told that the radio left.
    pub untold: bool,
    /// The radio has sent a packet since it is where it is.
    pub spoke: bool,
    /// The station that owned the user last.
    pub owner: Option<NodeId>,
    /// The station that made contexts for the user last.
    pub importer: Option<NodeId>,
    /// What contexts must be: `None` when there are none.
    pub context: Option<Context>,
    /// Packets below these were sent before the user was last whole again.
    excused: [usize; 2],
    fates: [Vec<Fate>; 2],
    last: [Option<u64>; 2],
}

impl UserState {
    pub fn new(user: User, anchor: NodeId, station: NodeId) -> UserState {
        UserState {
            user,
            anchor,
            radio: station,
            wanted: station,
            life: Life::Adding,
            touched: true,
            disordered: [false; 2],
            early: false,
            untold: false,
            spoke: false,
            owner: None,
            importer: None,
            context: None,
            excused: [0; 2],
            fates: [Vec::new(), Vec::new()],
            last: [None; 2],
        }
    }

    pub fn send(&mut self, direction: Direction) -> Packet {
        let fates = &mut self.fates[index(direction)];
        let sequence = fates.len() as u64;
        fates.push(Fate::UnderWay);
        Packet { user: self.user, direction, sequence, tag: Default::default() }
    }

    /// From now on nothing excuses a loss any more; what was sent before stays
    /// excused.
    pub fn whole(&mut self) {
        self.touched = false;
        self.untold = false;
        self.disordered = [false; 2];
        self.excused = [self.fates[0].len(), self.fates[1].len()];
    }

    /// Whether anything excuses losses or disorder just now.
    pub fn is_excused(&self) -> bool {
        self.touched || self.untold || self.disordered != [false; 2]
    }

    /// A packet has arrived: what is wrong with that?
    pub fn deliver(&mut self, packet: Packet) -> Option<(Promise, String)> {
        let at = index(packet.direction);
        let before =
            std::mem::replace(&mut self.fates[at][packet.sequence as usize], Fate::Delivered);
        let of = || format!("{:?} packet {}", packet.direction, packet.sequence);
        match before {
            Fate::UnderWay => {}
            Fate::Delivered => {
                return Some((Promise::NothingDoubled, format!("{} arrived twice", of())));
            }
            Fate::Lost => {
                return Some((Promise::NothingDoubled, format!("{} was lost and arrived", of())));
            }
        }
        let last = self.last[at].unwrap_or(0);
        self.last[at] = Some(last.max(packet.sequence));
        let excused = self.disordered[at] || (packet.sequence as usize) < self.excused[at];
        (last > packet.sequence && !excused)
            .then(|| (Promise::Order, format!("{} arrived after {last}", of())))
    }

    /// A packet is lost: what is wrong with that?
    pub fn lose(&mut self, packet: Packet, cause: Cause) -> Option<(Promise, String)> {
        let at = index(packet.direction);
        let before = std::mem::replace(&mut self.fates[at][packet.sequence as usize], Fate::Lost);
        let of = || format!("{:?} packet {}", packet.direction, packet.sequence);
        if before == Fate::Delivered {
            return Some((Promise::NothingDoubled, format!("{} arrived and was lost", of())));
        }
        let excused = match cause {
            Cause::Died | Cause::Cut | Cause::GateFull => true,
            Cause::NoOwner | Cause::Stale => {
                self.touched || (packet.sequence as usize) < self.excused[at]
            }
        };
        (!excused).then(|| (Promise::NothingLost, format!("{} was lost: {}", of(), cause.name())))
    }

    /// A packet of which nothing is known any more.
    pub fn vanished(&self) -> Option<String> {
        Direction::ALL.into_iter().find_map(|direction| {
            let fates = &self.fates[index(direction)];
            let at = fates.iter().position(|fate| *fate == Fate::UnderWay)?;
            Some(format!("{direction:?} packet {at} neither arrived nor is it known to be lost"))
        })
    }
}
