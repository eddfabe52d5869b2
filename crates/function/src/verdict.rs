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

/// Why a packet was dropped: a name as it appears in `weft_drops_total{reason}`,
/// worded for an operator. Functions list theirs in
/// [`UserPlaneFunction::DROPS`](crate::UserPlaneFunction::DROPS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason(pub &'static str);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
