//! Commands that run until they are told to end: nodes, controllers and functions, and the
//! virtual functions that they need.

pub mod control;
pub mod function;
mod page;
pub mod run;
pub mod vf;
