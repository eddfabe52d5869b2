//! A pair of nodes: one owns the users, and the other one stands by with the same records.
//!
//! A [`Pair`] is the part of one node. It tells the controller what the node is, hears from it
//! who owns the users, and keeps the lease by which an owner may carry packets. While the node
//! stands by, it writes what the owner sends into the node's store, and passes it on, so that
//! the node has the users already; as soon as it owns them, it gives the store away, and sends
//! what is written there to the other node.
//!
//! `docs/design/standby.md` says why no two nodes ever own the users.

#![forbid(unsafe_code)]

mod clock;
mod follow;
mod input;
mod kept;
mod mirror;
mod owner;
mod pair;
mod sending;
mod told;
mod view;

pub use pair::{Options, Pair};
pub use told::{Changes, Told};
pub use view::{PairView, Role};
