//! What nodes, controllers and processes say to each other, and what they keep on disk.

pub mod bgp;
pub mod function_moves;
pub mod function_moves_http;
pub mod handover;
pub mod journal;
pub mod pfcp;
pub mod process_frame;
pub mod process_protocol;
pub mod transport;
