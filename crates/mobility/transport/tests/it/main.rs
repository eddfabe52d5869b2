//! The integration tests of this crate, as one program: one to link, not one for each file.

mod ports;
mod tls;
mod transport;
