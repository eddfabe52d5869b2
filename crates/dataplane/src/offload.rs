//! Functions that run elsewhere, as a worker sees them.
//!
//! A [`RemoteQueue`] knows which packets are away, where each goes on, and how many more
//! may be let in; a [`Carrier`] takes them there and brings them back: a ring in shared
//! memory, a network. The data plane defines the [`Carrier`] and knows none: the crate
//! `offload` has one for each way to be elsewhere. What looks after the function and the
//! queue tell each other what they need in [`Shared`]. [`RemoteQueues`] are those of one
//! worker, and [`stage`] is the worker's end of a thread that functions stand on.

pub mod carrier;
mod credits;
mod dropped;
mod in_flight_entry;
mod in_flight_table;
mod next_hops;
mod placeholder;
mod queues_ahead;
mod remote_queue;
mod remote_queues;
mod send_queue;
mod shared;
pub mod stage;
pub mod states;

pub use self::carrier::{Address, Carrier, Coming, FrameKind};
pub use self::credits::Credits;
pub use self::dropped::{FNV, FunctionDrop, hash, note_drop, sum_of};
pub use self::in_flight_entry::{Back, InFlightEntry, Refusal, ResumePoint};
pub use self::in_flight_table::WINDOW;
pub use self::next_hops::{HOPS, NextHop, NextHops, Past};
pub use self::placeholder::{ContextOrders, Placeholder};
pub use self::queues_ahead::QueuesAhead;
pub use self::remote_queue::{Held, Options, RemoteQueue};
pub(crate) use self::remote_queues::{CreditReservations, Links, reason_of};
pub use self::remote_queues::{Leaving, REMOTE_QUEUES, RemoteQueues};
pub use self::send_queue::SendQueue;
pub use self::shared::Shared;

/// Where a function is that moves, and the queue at which its packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifted {
    /// Packets are still with it.
    #[expect(missing_docs, reason = "numbers of function and queue")]
    Emptying { function: u16, remote_queue: u16 },
    /// The agent has it.
    #[expect(missing_docs, reason = "numbers of function and queue")]
    Gone { function: u16, remote_queue: u16 },
    /// It is at hand again; what waits goes on.
    #[expect(missing_docs, reason = "numbers of function and queue")]
    Back { function: u16, remote_queue: u16 },
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

/// What becomes of packets while their function is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// They are dropped.
    #[default]
    Drop,
    /// They go on as if the function had handled them.
    Bypass,
    /// They wait, so many of them at each worker; others are dropped.
    Hold(u32),
}
