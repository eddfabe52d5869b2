//! The rules of PFCP sessions (3GPP TS 29.244), and what they measure.

pub mod rules;
pub mod usage;
