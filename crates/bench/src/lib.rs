//! The bench: the instrument that says what Weft costs.
//!
//! An experiment ([`experiments`] has one file for each) makes trials on the [`rig`],
//! again and again, beside [`baseline`]s where these are installed, and keeps every
//! repetition ([`run`]). [`statistics`] turns repetitions into means with
//! intervals; [`search`] finds the highest load a system carries without loss, or
//! with a stated share of it; [`results`] is the file that an experiment leaves
//! behind, and [`machine`] says where it was made. What is read by people, the
//! [`report`] and [`compare`], is computed from that file alone, so it can be drawn
//! again or compared years later.
//!
//! Only [`experiments`] knows particular experiments, and only the rig and the
//! baselines touch a packet.

#![forbid(unsafe_code)]

pub mod baseline;
pub mod calibration;
pub mod compare;
pub mod experiment;
pub mod experiments;
pub mod machine;
pub mod report;
pub mod results;
pub mod rig;
pub mod run;
pub mod search;
pub mod statistics;

/// Whatever kept a measurement from being made, in one line.
pub type Failure = Box<dyn std::error::Error>;
