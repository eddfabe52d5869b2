//! Commands that send traffic, measure or simulate, and report on it.

pub mod bench;
pub mod compare;
pub mod demo;
pub mod generate;
pub mod model;
pub mod replay;
pub mod simulate;
pub mod smf;
