//! Packets of users, as a generator sends them.

use weft_traffic::{Direction, Endpoints, Load, Rate, Selection, Sizes, Template};

/// The address that users send to.
pub(crate) const PEER: [u8; 4] = [198, 51, 100, 1];

/// Packets of so many users, 10.0.0.0 and on, drawn at random, in frames of so
/// many bytes with their checksum.
pub fn uplink(users: u32, frame_bytes: usize, rate: Rate) -> Load {
    let endpoints = Endpoints {
        direction: Direction::Uplink,
        first_user: [10, 0, 0, 0].into(),
        peer: PEER.into(),
    };
    // The checksum is not in memory.
    let sizes = Sizes::Fixed(frame_bytes.saturating_sub(4));
    let template = Template { sizes, ..Template::new(1, endpoints) };
    let mut load = Load::constant(template, users, rate);
    load.shares[0].selection = Selection::Random;
    load
}
