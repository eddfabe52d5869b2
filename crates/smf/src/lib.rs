//! A PFCP control plane (3GPP TS 29.244) that loads a user plane, Weft's or another: it
//! establishes sessions at a rate, changes and deletes them, answers what the user plane
//! asks for, and accounts for each request: answered, late, lost, refused, wrong.
//!
//! A [`Profile`] is a file that says what is done. [`ControlPlane`] is a state machine without
//! I/O, driven by its caller; [`run`] drives it over a UDP socket.

#![forbid(unsafe_code)]

mod control_plane;
mod messages;
pub mod profile;
mod sessions;
mod socket;
mod statistics;
mod transactions;
mod tunnels;

pub use control_plane::{ControlPlane, Phase};
pub use profile::Profile;
pub use sessions::{Sessions, Tunnel};
pub use socket::run;
pub use statistics::{Asked, Kind, Requests, Statistics, Wrong};
pub use tunnels::write_tunnels;

/// What a cause is called (TS 29.244 §8.2.1), with its number.
pub fn cause(number: u8) -> String {
    match number {
        0 => "no cause".to_owned(),
        _ => weft_pfcp::codec::Cause(number).to_string(),
    }
}
