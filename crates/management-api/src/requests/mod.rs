//! What requests are answered with, one file for each thing that they are about.

pub(crate) mod bearers;
pub(crate) mod capture;
pub(crate) mod configuration;
pub(crate) mod function_move;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod probe;
pub(crate) mod radio;
pub(crate) mod trace;
pub(crate) mod upgrade;
pub(crate) mod views;
pub(crate) mod workers;
