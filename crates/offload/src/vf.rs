//! Functions in processes behind the virtual functions of a NIC, whose switch takes packets
//! from one to the next.

pub(crate) mod direct_path;
pub mod fabric;
