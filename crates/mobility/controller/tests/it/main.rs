//! The integration tests of this crate, as one program: one to link, not one for each file.

mod api;
mod balance;
mod documents;
mod field;
mod members;
mod moves;
mod n4;
mod replicas;
mod shares;
mod upgrade;
