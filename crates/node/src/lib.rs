//! The node.
#![forbid(unsafe_code)]
