//! Moves handover messages between nodes and their controller, over TCP.
//!
//! Every participant has a [`Transport`] with a thread of its own: envelopes go in
//! by [`Sender::send`], which never waits, and what arrives is given to a closure.
//! A node dials its controller and keeps at it; other nodes it dials when it has
//! something to say to them, at the addresses that the controller tells. Either
//! side of a connection may speak. A connection begins with a [greeting](hello)
//! that shows the token; behind it come envelopes, as [`weft_mobility_protocol`] writes
//! them, and octets 0 in between when there has been nothing to say for a while.
//!
//! Messages are never changed, and may be lost: when a connection breaks, or a
//! queue is full, which is counted. The protocol repeats them. Whatever does not
//! read as a message, or speaks for another node, ends the connection with one
//! line in the log.
//!
//! With [`Security`], connections are enciphered (TLS 1.3), both ends show a certificate of
//! one authority, and the name in a greeting has to be one of its certificate. Without it
//! who knows the token speaks for any node, and the network has to be trusted.

#![forbid(unsafe_code)]

mod accept;
mod channel;
mod dial;
pub mod hello;
mod hub;
mod link;
pub mod note;
mod options;
mod peer;
mod settings;
mod stream;
mod token;
mod transport;

pub use channel::direct;
pub use hello::PeerAddress;
pub use hub::{Event, Statistics};
pub use note::{Load, Note, Registered, Registration, Report};
pub use options::{Options, Security, Timing};
pub use settings::TransportSettings;
pub use token::{Token, TokenError};
pub use transport::{Sender, Transport, TransportError};
