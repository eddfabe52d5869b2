//! The node.
#![forbid(unsafe_code)]
pub mod config;
