//! What is promised, and how it was broken.

use std::fmt;

use weft_mobility_protocol::User;

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// Never more than one owner.
    OneOwner,
    /// Nothing lost but with a dead node, in a cut, or beyond a gate's bounds.
    NothingLost,
    /// Nothing delivered twice.
    NothingDoubled,
    /// Per user and direction, packets arrive in the order they were sent.
    Order,
    /// Contexts are those of the packets processed so far, or counted as lost.
    Contexts,
    /// Gates open by End Markers where none was lost.
    Markers,
    /// At the end every user has one owner, and nothing else is left over.
    Settled,
    /// At the end no packet waits anywhere.
    NothingHeld,
    /// States change as the tables of the protocol say.
    Transitions,
}

impl Promise {
    /// All of them.
    pub const ALL: [Promise; 9] = [
        Promise::OneOwner,
        Promise::NothingLost,
        Promise::NothingDoubled,
        Promise::Order,
        Promise::Contexts,
        Promise::Markers,
        Promise::Settled,
        Promise::NothingHeld,
        Promise::Transitions,
    ];
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::OneOwner => "one owner",
            Promise::NothingLost => "nothing lost",
            Promise::NothingDoubled => "nothing doubled",
            Promise::Order => "order",
            Promise::Contexts => "contexts",
            Promise::Markers => "end markers",
            Promise::Settled => "settled",
            Promise::NothingHeld => "nothing held",
            Promise::Transitions => "transitions",
        })
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// Whose, where it is one user's.
    pub user: Option<User>,
    /// When, in microseconds of virtual time.
    pub time: u64,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.promise)?;
        if let Some(user) = self.user {
            write!(f, "{user}: ")?;
        }
        write!(f, "{}, at {}.{:06} s", self.what, self.time / 1_000_000, self.time % 1_000_000)
    }
}
