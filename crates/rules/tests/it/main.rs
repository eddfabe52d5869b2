//! The integration tests of this crate, as one program: one to link, not one for each file.

mod check;
mod common;
mod equivalence;
mod meaning;
mod mistakes;
mod programs;
mod robustness;
