//! Links, namespaces and switches of the kernel and of DPDK.

pub mod cable;
pub(crate) mod delay;
pub mod environments;
pub(crate) mod iproute;
pub mod namespace;
pub(crate) mod remains;
pub(crate) mod software_vf;
