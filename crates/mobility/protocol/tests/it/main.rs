//! The integration tests of this crate, as one program: one to link, not one for each file.

mod by_node;
mod course;
mod encoding;
mod kept;
mod plane;
mod tables;
mod turns;
