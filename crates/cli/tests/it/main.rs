//! The integration tests of this crate, as one program: one to link, not one for each file.

mod common;
mod compare;
mod demo;
mod disappear;
mod generate;
mod metrics;
mod model;
mod page;
mod replay;
mod run;
mod show;
mod usage;
mod watch;
mod watched;
