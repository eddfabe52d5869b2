//! The live page of a node and of a controller: files that the program carries, and a server
//! for them and for the API that they read.
//!
//! The page is plain HTML, CSS and JavaScript modules in `assets`, which nothing builds or
//! downloads. It asks only what the API describes. [`Listening`] takes the address;
//! [`Listening::serve`] serves page and API in a thread of the lowest priority, so that a
//! flood of requests takes no core from a worker. [`access`] says who may ask what.

#![forbid(unsafe_code)]

pub mod access;
mod assets;
mod server;

pub use assets::Kind;
pub use server::{Api, Listening, Options, PageError, Serving};
