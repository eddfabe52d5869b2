//! The integration tests of this crate, as one program.

mod documents;
mod history;
mod rollout;
