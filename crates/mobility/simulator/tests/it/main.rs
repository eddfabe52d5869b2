//! The integration tests of this crate, as one program: one to link, not one for each file.

mod function_moves;
mod mutations;
mod seeds;
