//! The integration tests of this crate, as one program: one to link, not one for each file.
//!
//! Beside it are those that need a process of their own: `leaks` compares the memory of the
//! environment, and `truncation` handles a signal of the whole process.

mod captures;
mod common;
mod crypto;
mod interfaces;
mod memory;
mod packet;
mod refusals;
mod shared;
mod table;
mod threads;
mod unprivileged;
