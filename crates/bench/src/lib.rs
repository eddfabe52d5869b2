//! The bench: the instrument that says what Weft costs.
//!
//! An experiment ([`experiments`] has one file for each) makes trials on the rig
//! ([`weft_rig`]), again and again, beside baselines where these are installed, and keeps
//! every repetition ([`run`]). [`results`] is the file that an experiment leaves behind, and
//! [`machine`] says where it was made. What is read by people, the [`report`] and
//! [`compare`], is computed from that file alone, so it can be drawn again or compared
//! years later.
//!
//! Only [`experiments`] knows particular experiments, and only the rig touches a packet.

#![forbid(unsafe_code)]

pub mod calibration;
pub mod compare;
pub mod experiment;
pub mod experiments;
pub mod machine;
pub mod report;
pub mod results;
pub mod run;
mod shapes;
