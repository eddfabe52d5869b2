//! The commands, each a module with its arguments and a `run` that returns a
//! [`Failure`](crate::failure::Failure) where it does not succeed.

pub mod check;
pub mod client;
pub mod doctor;
pub mod document;
pub mod measure;
pub mod schema;
pub mod serve;
pub mod version;
