//! UDP and TCP.

pub mod tcp;
pub mod udp;
