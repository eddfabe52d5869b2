//! Files.

pub mod capture;
pub mod configuration;
pub mod rules;
pub mod yaml;
