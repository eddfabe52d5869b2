//! PFCP (3GPP TS 29.244): how a control plane drives the user plane.
//!
//! [`codec`] reads and writes messages and does nothing else: no state, no input or output.
#![forbid(unsafe_code)]

pub mod codec;
