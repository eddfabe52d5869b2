//! Chains of functions, and how they are composed.

pub(crate) mod capacity;
pub(crate) mod chains;
pub(crate) mod composition;
pub(crate) mod delay;
pub(crate) mod in_turn;
pub(crate) mod length;
pub(crate) mod mix;
pub(crate) mod overload;
pub(crate) mod processor;
pub(crate) mod size_sweep;
pub(crate) mod software_links;
pub(crate) mod throughput;
pub(crate) mod vf;
