//! What moves between compositions and between nodes: users with all that belongs to them,
//! and functions with their contexts.

pub mod contexts;
pub(crate) mod relocation;
pub(crate) mod split;
pub mod transfer;
