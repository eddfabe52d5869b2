//! Whole nodes.

pub mod fused;
pub mod gateway;
pub mod service_path;
