//! What a function says of a packet.

use std::fmt;

/// What happens to a packet after a function has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, to where the rules send it.
    Forward,
    /// It ends here, and is counted under the reason.
    Drop(Reason),
    /// The node keeps it for the function, in a bounded queue of the user's,
    /// until the function [releases](crate::Emit::release) it.
    Keep,
}

/// Why a packet was dropped. Functions list their reasons in
/// [`UserPlaneFunction::DROPS`](crate::UserPlaneFunction::DROPS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    /// The name that metrics carry: `weft_drops_total{reason}`.
    pub name: &'static str,
    /// What it tells an operator, in a few words.
    pub meaning: &'static str,
}

impl Reason {
    /// A reason of that name and meaning.
    #[inline]
    pub const fn new(name: &'static str, meaning: &'static str) -> Reason {
        Reason { name, meaning }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
