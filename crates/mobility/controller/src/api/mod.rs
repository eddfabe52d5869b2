//! The HTTP API of a controller: on its socket, which only its owner may open, and
//! over TCP for those who know a token.
//!
//! The routes are listed once, in `routes`, from which both the server and its description
//! (OpenAPI 3.1, at `/v1/openapi.json`) are made. A refusal is answered as RFC 9457 has it
//! (`application/problem+json`).

mod answer;
mod events;
mod handovers;
mod leader;
mod metrics;
mod nodes;
mod routes;
mod server;
mod site;
mod standby;
mod state;
mod types;
mod users;

pub use crate::engine::{Happening as Event, Measure};
pub use server::{Listening, ServeError, Serving};
pub use site::{documents, n4, sessions, shares, upgrade};
pub use types::{
    DrainOrder, Gone, Handover, HandoverOrder, Load, Node, Pair, Placement, Rebalance,
    RebalanceOrder, Share, Unmoved, User,
};
pub use weft_http::problem::Problem;
