//! How a running node is looked at and changed from outside.
//!
//! A node serves one HTTP API on a Unix socket of its own, which only its owner
//! may open: [`Listening::claim`] takes the socket (and with it the node's name,
//! so that no second node of that name starts), [`Listening::serve`] answers
//! there. What monitoring asks for, `/metrics`, is served on a TCP address as
//! well, where one is given; so is a [page](weft_page) with the API that it reads. [`client`] is the other end, for the command line.
//!
//! Everything is asked of the node's agent through its
//! [`Handle`](weft_node::Handle); nothing here is on the way of a packet, and
//! nothing that a client does, or leaves undone, holds a packet up: requests are
//! bounded in size, time and number, and what a slow reader does not take is
//! counted and dropped.

#![forbid(unsafe_code)]

pub mod api;
pub mod json_lines;
pub mod live;
pub mod pcapng;
mod question;
mod requests;
mod routes;
mod server;
mod state;
mod upgrades;
mod watch;

pub use live::busy;
pub use server::{ControlError, Listening, Options, Serving};
pub use upgrades::{Outcome, Starter, UpgradeRequest};
pub use weft_http::client;
pub use weft_http::socket::{nodes, socket_path};
