//! A pair of nodes: one owns the users, and the other one stands by with the same records.
//!
//! A [`Pair`] is the part of one node. It tells the controller what the node is, hears from it
//! who owns the users, and keeps the lease by which an owner may carry packets. While the node
//! stands by, it writes what the owner sends into the node's store, and passes it on, so that
//! the node has the users already; as soon as it owns them, it gives the store away, and sends
//! what is written there to the other node. Another process of the node may go on with the part
//! of an owner ([`Successor`]).
//!
//! `docs/design/standby.md` says why no two nodes ever own the users.

#![forbid(unsafe_code)]

mod clock;
mod follow;
mod handoff;
mod input;
mod kept;
mod mirror;
mod options;
mod owner;
mod pair;
mod sending;
mod successor;
mod told;
mod view;

pub use handoff::Released;
pub use options::Options;
pub use pair::Pair;
pub use successor::{GoOnError, Successor};
pub use told::{Changes, Told};
pub use view::{PairView, Role};
