//! The controllers of a site, as they are, on a simulated etcd and among simulated nodes, in
//! virtual time.
//!
//! Elections, leases, the store of records and the engine of the controller are the program's
//! own. What is simulated is all around them: etcd with its semantics ([`weft_etcd::model`]) and
//! its members, connections, nodes without packets, operators, deaths, standstills and cuts.
//! Everything follows from a seed, so a run that breaks a promise can be had again, with its log.
//!
//! What is checked, all the while and at the end, is in [`Promise`]; the history of ownership in
//! [`history`].
#![forbid(unsafe_code)]

mod capacity;
pub mod history;
mod processes;
mod scenario;
mod world;

pub use capacity::{Capacity, Load, measure};
pub use scenario::{Faults, Mutation, Outcome, Promise, Scenario, Statistics, Violation};
pub use world::run;
