//! What is sent: captures, frames, loads.

pub mod capture;
pub mod datagram;
pub(crate) mod flood;
pub(crate) mod offered;
