//! What stations have for a user besides their plane: contexts, and packets that are
//! inside functions.

use weft_mobility_protocol::Epoch;

use crate::user::Context;

/// A user at a station.
#[derive(Debug)]
pub(crate) struct Functions {
    /// Tells entries of one user apart that follow one another.
    pub number: u64,
    pub context: Option<Context>,
    /// Packets inside functions.
    pub inside: u32,
    /// When the last packet of a direction comes out of functions.
    pub out: [u64; 2],
    pub exporting: Option<Epoch>,
}

impl Functions {
    pub fn new(number: u64) -> Functions {
        Functions { number, context: None, inside: 0, out: [0; 2], exporting: None }
    }
}
