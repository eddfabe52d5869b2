//! The resource-constraint model: what a chain of functions can carry on a machine,
//! and what limits it.
//!
//! After Bauer et al., *Intra-node Resource Isolation for SFC with SR-IOV*, §V. Their
//! model is a directed graph of components with capacities; [`graph`] holds it and
//! finds its limit, [`flow`](System::maximum_flow) finds the same as a maximum flow.
//! [`scenario`] has a template for each way to link functions, which makes a graph of
//! a machine ([`hardware`]), costs ([`costs`]) and traffic. [`answer`] asks the graph
//! what people ask: how much, what limits it, how many cores, what to change first.
//! [`plan`] splits a demand over nodes (the outer loop of Hahn et al., §II), and
//! [`mod@file`] reads all of it from YAML.
//!
//! Sizes are bytes of an Ethernet frame with its checksum, rates are per second.

#![forbid(unsafe_code)]

pub mod answer;
pub mod calibration;
pub mod cost;
pub mod costs;
pub mod file;
mod flow;
pub mod graph;
pub mod hardware;
mod mixture;
pub mod plan;
pub mod quantity;
pub mod scenario;
mod version;

pub use answer::running;
pub use calibration::Calibration;
pub use file::Model;
pub use graph::{Limit, System};
pub use mixture::dilution;
pub use scenario::{Composition, Scenario, Traffic};
