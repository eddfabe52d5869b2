//! Functions that run elsewhere, as a worker sees them: lanes that packets go away by and
//! come back on, while the worker goes on with others.

pub mod absent;
mod ahead;
mod dropped;
mod lanes;
pub mod stage;
pub mod states;

pub use self::ahead::Ahead;
pub use self::dropped::{FNV, drop_of, hash, note_drop, state_of_drop, sum_of};
pub use self::lanes::{LANES, Lanes, Leaving};
pub(crate) use self::lanes::{Promises, reason_of};

/// Where a function is that moves, and the lane at which its packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifted {
    /// Packets are still with it.
    #[expect(missing_docs, reason = "numbers of function and lane")]
    Emptying { function: u16, lane: u16 },
    /// The agent has it.
    #[expect(missing_docs, reason = "numbers of function and lane")]
    Gone { function: u16, lane: u16 },
    /// It is at hand again; what waits goes on.
    #[expect(missing_docs, reason = "numbers of function and lane")]
    Back { function: u16, lane: u16 },
}

impl Lifted {
    /// Number of the function.
    pub fn function(self) -> u16 {
        match self {
            Lifted::Emptying { function, .. }
            | Lifted::Gone { function, .. }
            | Lifted::Back { function, .. } => function,
        }
    }
}
