//! HTTP as nodes and controllers serve it: on a Unix socket that only its owner
//! may open, and over TCP within bounds, with TLS if wanted; and the other end, for the command line.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod client;
pub mod connection;
pub mod extract;
pub mod metrics;
pub mod openapi;
pub mod pieces;
pub mod post;
pub mod prepared;
pub mod problem;
pub mod socket;
pub mod tls;
