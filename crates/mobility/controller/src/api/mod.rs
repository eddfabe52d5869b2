//! The HTTP API of a controller: on its socket, which only its owner may open, and
//! over TCP for those who know a token.
//!
//! What is there is listed once, in `operations`, from which both the server and
//! its [description] (OpenAPI 3.1) are made. What is not granted is
//! answered as RFC 9457 has it (`application/problem+json`).

mod answer;
pub mod description;
mod events;
mod handovers;
mod metrics;
mod nodes;
mod operations;
mod server;
mod shared;
mod types;
mod users;

pub use crate::engine::Happening as Event;
pub use server::{Listening, ServeError, Serving};
pub use types::{Gone, Handover, HandoverOrder, Node, Placement, Problem, Unmoved, User};
