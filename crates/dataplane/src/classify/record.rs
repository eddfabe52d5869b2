//! What the classifier knows of each user.

use super::bearer::Action;
use weft_function::PacketMetadata;

/// What a worker is told of one of its users.
#[derive(Clone, Copy, Debug)]
pub struct UserRecord {
    /// Slot of the group; [`PacketMetadata::NONE`] without one.
    pub group: u32,
    /// Slot of the first dedicated bearer.
    pub bearers: u32,
    /// Which users it is alike for the rules.
    pub class: u16,
    /// How packets are told apart into dedicated bearers; 0 for not at all.
    pub bearer_profile: u16,
    /// Whether there is such a user.
    pub present: bool,
    /// What becomes of its packets.
    pub action: Action,
    /// Whether packets may belong to dedicated bearers that selectors find.
    pub selects: bool,
}

impl UserRecord {
    /// No user.
    pub const VACANT: UserRecord = UserRecord {
        group: PacketMetadata::NONE,
        bearers: PacketMetadata::NONE,
        class: 0,
        bearer_profile: 0,
        present: false,
        action: Action::Forward,
        selects: false,
    };
}

/// What a worker knows of one of its users: a quarter of a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub group: u32,
    pub bearers: u32,
    pub class: u16,
    pub bearer_profile: u16,
    pub standing: Standing,
    pub action: Action,
    pub selects: bool,
    pub stops: Stops,
}

/// What keeps packets of a user that has a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stops(u8);

impl Stops {
    pub const NONE: Stops = Stops(0);
    /// They go through a gate, as the user moves.
    pub const GATE: Stops = Stops(1);
    /// They wait, as contexts of the user are still being read.
    pub const LOADING: Stops = Stops(2);

    #[inline]
    pub fn has(self, one: Stops) -> bool {
        self.0 & one.0 != 0
    }

    pub fn set(self, one: Stops, is_set: bool) -> Stops {
        Stops(if is_set { self.0 | one.0 } else { self.0 & !one.0 })
    }
}

const _: () = assert!(size_of::<Record>() == 16);

/// All that is to be known of a user for most packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Standing {
    /// There is no such user.
    Vacant,
    /// Nothing is to be done for its packets but to forward them.
    Plain,
    /// Its packets have to be looked at.
    Special,
}

impl Record {
    pub fn new(told: UserRecord, stops: Stops) -> Record {
        let UserRecord { group, bearers, class, bearer_profile, present, action, selects } = told;
        let is_free = stops == Stops::NONE && action == Action::Forward;
        let plain = bearer_profile == 0 && !selects && is_free;
        let standing = match (present, plain) {
            (false, _) => Standing::Vacant,
            (true, true) => Standing::Plain,
            (true, false) => Standing::Special,
        };
        Record { group, bearers, class, bearer_profile, standing, action, selects, stops }
    }

    pub fn told(&self) -> UserRecord {
        let Record { group, bearers, class, bearer_profile, standing, action, selects, .. } = *self;
        let present = standing != Standing::Vacant;
        UserRecord { group, bearers, class, bearer_profile, present, action, selects }
    }
}
