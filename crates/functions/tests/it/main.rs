//! The integration tests of this crate, as one program: one to link, not one for each file.

mod checksums;
mod common;
mod guide;
mod hostile;
mod iphc;
mod pages;
mod sessions;
mod transfer;
