//! What a source sends, and when.

use crate::source::captured::Captured;
use crate::source::selection::Selection;
use crate::template::Template;

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// So many packets per second.
    Packets(f64),
    /// A share of an Ethernet link, between 0 and 1, counted in bits on the
    /// link ([`link_bits`](super::link::link_bits)).
    Link {
        /// The link's rate, bits per second.
        bits: u64,
        /// How much of it is used.
        share: f64,
    },
    /// As much as the port takes: there is no set gap, and nothing is late.
    Unlimited,
}

/// How packets follow each other; the rate is the mean of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// One gap behind each packet.
    #[default]
    Constant,
    /// Gaps with exponential distribution.
    Poisson,
    /// So many packets back to back, then the gap of all of them.
    Burst(u32),
}

/// What one source sends: one stream, or several in a set ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// How much is sent, all streams together.
    pub rate: Rate,
    /// How packets follow each other.
    pub arrivals: Arrivals,
    /// The streams whose packets are made.
    pub shares: Vec<Share>,
    /// The streams whose packets a capture has; they come behind the others.
    pub captured: Vec<CapturedShare>,
    /// All that is drawn at random follows from it.
    pub seed: u64,
}

/// One stream of a [`Load`].
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// What its packets look like.
    pub template: Template,
    /// How many users it has.
    pub users: u32,
    /// Whose packet is next.
    pub selection: Selection,
    /// How many packets it has for those of the other streams.
    pub weight: u32,
}

/// One stream of captured packets of a [`Load`].
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedShare {
    /// Number of the stream, by which the receiver knows it.
    pub stream: u16,
    /// Its packets.
    pub packets: Captured,
    /// How many packets it has for those of the other streams.
    pub weight: u32,
}

impl Load {
    /// One stream with a constant gap between packets, its flows in turn.
    pub fn constant(template: Template, users: u32, rate: Rate) -> Load {
        let selection = Selection::RoundRobin;
        let shares = vec![Share { template, users, selection, weight: 1 }];
        Load { rate, arrivals: Arrivals::Constant, shares, captured: Vec::new(), seed: 1 }
    }
}
