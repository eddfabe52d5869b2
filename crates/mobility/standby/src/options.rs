//! How a node takes part in a pair.

use weft_mobility_protocol::Incarnation;
use weft_mobility_transport as transport;

/// How a node takes part.
#[derive(Debug)]
pub struct Options {
    /// Its connections.
    pub transport: transport::Options,
    /// The number of this life of the node; none before had it.
    pub incarnation: Incarnation,
    /// Answers wait until the standby has what they say.
    pub waits: bool,
    /// Octets of changes that are kept for a standby that is away, and of those that a standby
    /// keeps for its own node.
    pub bound: usize,
}
