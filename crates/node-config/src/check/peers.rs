//! Programs that the node tells of itself without being asked: routers and collectors.

pub(super) mod bgp;
pub(super) mod ipfix;
