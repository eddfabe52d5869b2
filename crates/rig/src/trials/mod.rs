//! Trials: what is measured of a node, and how.

pub mod alone;
pub mod by_hand;
pub mod choice;
pub(crate) mod closed;
pub(crate) mod devices;
pub mod first_packets;
pub mod five;
pub(crate) mod open;
mod pace;
pub(crate) mod sections;
mod seen;
pub(crate) mod standing;
pub(crate) mod window;
