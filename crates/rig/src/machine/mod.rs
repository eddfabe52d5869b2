//! The machine: its cores, how fast they are, what disturbs them, and other processes on it.

pub(crate) mod account;
pub(crate) mod burner;
pub(crate) mod control_group;
pub(crate) mod cores;
pub(crate) mod disturbance;
pub(crate) mod perf;
pub(crate) mod probe;
pub mod program;
pub(crate) mod slices;
