//! The machine: its cores, how fast they are, and what disturbs them.

pub(crate) mod account;
pub(crate) mod burner;
pub(crate) mod control_group;
pub(crate) mod cores;
pub(crate) mod disturbance;
pub(crate) mod perf;
pub(crate) mod probe;
pub(crate) mod slices;
