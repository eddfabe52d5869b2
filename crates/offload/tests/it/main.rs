//! The integration tests of this crate, as one program: one to link, not one for each file.

mod common;
mod hostile;
mod loopback;
mod ring;
