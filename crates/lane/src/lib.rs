//! The way of a worker's packets to a function that is elsewhere, and back.
//!
//! A [`Lane`] knows which packets are away, where each goes on, and how many more
//! may be let in; a [`Carrier`] takes them there and brings them back: a ring in
//! shared memory, a network. What the two have agreed on is in [`carrier`]; who looks
//! after the function and the lane tell each other what they need in [`Shared`].

#![forbid(unsafe_code)]

mod absence;
mod book;
pub mod carrier;
mod lane;
mod leaving;
mod onward;
mod pace;
mod shared;
mod ticket;

pub use carrier::{Address, Carrier, Coming, What};
pub use lane::{Held, Lane, Options, WINDOW};
pub use leaving::Leaving;
pub use onward::{HOPS, Hop, Onward, Past};
pub use shared::Shared;
pub use ticket::{Back, Place, Refusal, Ticket};

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
