//! What functions of several domains use.

pub(crate) mod congestion;
pub(crate) mod export;
pub(crate) mod file_version;
pub(crate) mod first_fragments;
pub mod icmp_error;
pub mod prefix;
pub(crate) mod shared_ports;
pub mod text;
