//! The states of a coordinator.

/// Where a coordinator is with a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The participant looks whether it has the function.
    Preparing,
    /// Packets wait; some are at the function still.
    Gating,
    /// Source: a piece is read.
    Reading,
    /// Source: the target is to take a piece.
    Sending,
    /// Target: the source is to give a piece.
    Fetching,
    /// Target: a piece is written.
    Writing,
    /// The point of no return: packets go on at the destination.
    Switching,
    /// The participant is to forget the move.
    Releasing,
    /// Packets go on where the function was.
    Restoring,
    /// The participant is to forget the move, which is given up.
    Aborting,
    /// The function is at its destination; nothing is to be done.
    Moved,
    /// The function is where it was; nothing is to be done.
    Failed,
}

impl State {
    /// The state's name in tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            State::Preparing => "Preparing",
            State::Gating => "Gating",
            State::Reading => "Reading",
            State::Sending => "Sending",
            State::Fetching => "Fetching",
            State::Writing => "Writing",
            State::Switching => "Switching",
            State::Releasing => "Releasing",
            State::Restoring => "Restoring",
            State::Aborting => "Aborting",
            State::Moved => "Moved",
            State::Failed => "Failed",
        }
    }

    /// Whether the move is over.
    pub fn is_over(self) -> bool {
        matches!(self, State::Moved | State::Failed)
    }

    /// Whether the node's own part is awaited; else it is the participant's.
    pub(super) fn is_local(self) -> bool {
        matches!(
            self,
            State::Gating | State::Reading | State::Writing | State::Switching | State::Restoring
        )
    }
}
