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
    /// Bits of a [`tag`](Self::tag).
    pub const TAG_BITS: u32 = 10;

    /// What short names of an epoch say of it, as a TEID does. Tags of one user follow
    /// each other: two of its epochs have the same one only when it has had 1,023 between
    /// them, given-up moves among them, whatever other users do in the meantime.
    pub fn tag(self) -> u32 {
        self.0 as u32 & ((1 << Epoch::TAG_BITS) - 1)
    }

    /// The bit above the tag: a node is given a user back.
    const BACK: u64 = 1 << Epoch::TAG_BITS;

    /// Bits above that one, by which such an epoch says to which node and from which epoch.
    const MARK_BITS: u32 = 17;

    /// The bits above the tag. Of epochs with the same ones each has its own tag, and so its own
    /// meaning.
    fn mark(self, node: NodeId, before: Epoch) -> u64 {
        let whose = u64::from(node.0) << Epoch::TAG_BITS | u64::from(self.tag());
        // As splitmix64 mixes.
        let mixed = before.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ whose;
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed >> (64 - Epoch::MARK_BITS) << 1 | 1
    }

    /// The lowest epoch from here on with the same tag that gives a user back to the node that had
    /// it by `before`, or was to.
    pub(crate) fn giving_back(self, node: NodeId, before: Epoch) -> Epoch {
        let marks = (1 << (Epoch::MARK_BITS + 1)) - 1;
        let further = self.mark(node, before).wrapping_sub(self.0 >> Epoch::TAG_BITS) & marks;
        Epoch(self.0 + (further << Epoch::TAG_BITS))
    }

    /// The lowest epoch from here on with the same tag that gives no user back.
    pub(crate) fn giving(self) -> Epoch {
        Epoch(self.0 + (self.0 & Epoch::BACK))
    }

    /// Whether an epoch gives a user back to the node that had it by `before`, or was to. Of those
    /// that give it back from another one, one in 2^17 seems to.
    pub(crate) fn gives_back(self, node: NodeId, before: Epoch) -> bool {
        self > before && self.giving_back(node, before) == self
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
