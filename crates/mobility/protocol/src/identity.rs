//! Who and what messages speak of.

use std::fmt;

macro_rules! number {
    ($(#[$text:meta])* $name:ident($inner:ty), $word:literal) => {
        $(#[$text])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

number! {
    /// A station, an anchor, or the controller.
    NodeId(u32), "node"
}
number! {
    /// A user, by a number that is the same at all nodes.
    User(u64), "user"
}
number! {
    /// A move, or the ownership that came of it. Epochs rise with every move of
    /// any user and are never given twice; 0 is none.
    Epoch(u64), "epoch"
}
number! {
    /// How often a node has started. Whatever it held in memory belongs to one
    /// incarnation; 0 is not known.
    Incarnation(u32), "incarnation"
}

impl NodeId {
    /// The controller's address.
    pub const CONTROLLER: NodeId = NodeId(0);
}

impl Epoch {
    /// No controller gives an epoch from here on. One that starts with less is far from it: it goes
    /// up by 2^[`TAG_BITS`](Self::TAG_BITS) at most at a time.
    pub const END: Epoch = Epoch(1 << 63);

    /// Bits of a [`tag`](Self::tag).
    pub const TAG_BITS: u32 = 10;

    /// What short names of an epoch say of it, as a TEID does. Tags of one user follow
    /// each other: two of its epochs have the same one only when it has had 1,023 between
    /// them, given-up moves among them, whatever other users do in the meantime.
    pub fn tag(self) -> u32 {
        self.0 as u32 & ((1 << Epoch::TAG_BITS) - 1)
    }

    /// The lowest epoch from here on whose tag is `steps` behind that of `before`.
    pub(crate) fn following(self, before: Epoch, steps: u64) -> Epoch {
        let tags = (1 << Epoch::TAG_BITS) - 1;
        Epoch(self.0 + (before.0.wrapping_add(steps).wrapping_sub(self.0) & tags))
    }
}

/// One way to a user: a station in one incarnation, and the epoch by which it
/// owns the user there. A tunnel of its own (a TEID) stands for it on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leg {
    /// The station.
    pub node: NodeId,
    /// The life of the station that is meant.
    pub incarnation: Incarnation,
    /// By which it owns the user, or is to.
    pub epoch: Epoch,
}

/// The way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the user.
    Uplink,
    /// To the user.
    Downlink,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::Uplink, Direction::Downlink];
}
