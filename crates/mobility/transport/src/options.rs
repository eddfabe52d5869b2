//! Who takes part, and where.

use std::net::SocketAddr;
use std::time::Duration;

use weft_http::tls::Mutual;
use weft_mobility_protocol::NodeId;

use crate::hello::PeerAddress;
use crate::note::Registration;
use crate::token::Token;

/// How one takes part.
#[derive(Clone, Debug)]
pub struct Options {
    /// The own number; [`NodeId::CONTROLLER`] for the controller.
    pub node: NodeId,
    /// The own name.
    pub name: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// What all who take part share.
    pub token: Token,
    /// Where a node's controllers listen, as `HOST:PORT`: one of them leads, and is looked for.
    /// Empty for a controller.
    pub controllers: Vec<String>,
    /// The term in which a controller leads; 0 for one without replicas, and for a node.
    pub term: u64,
    /// A controller's nodes: no other is welcome, and each is told of the
    /// others. Empty for a node.
    pub places: Vec<PeerAddress>,
    /// What a node says of itself to its controllers, so that it need not be in their files.
    pub registration: Option<Registration>,
    /// Whether a controller hears of nodes that it does not know and that register
    /// ([`Event::Registered`](crate::Event::Registered)).
    pub admits: bool,
    /// Times and bounds.
    pub timing: Timing,
    /// How connections are enciphered; none when they are not.
    pub security: Option<Security>,
}

/// How connections are enciphered.
#[derive(Clone, Debug)]
pub struct Security {
    /// The own certificate, and the authority of all.
    pub mutual: Mutual,
    /// By what name the controller's certificate is; a controller's own.
    pub controller: String,
}

/// Times and bounds of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a greeting may take, and the making of a connection.
    pub greeting: Duration,
    /// Pause after the first attempt at a connection that came to nothing; each
    /// further pause is twice as long.
    pub pause: Duration,
    /// The longest pause.
    pub pause_most: Duration,
    /// After so long without anything to say an octet is sent.
    pub alive: Duration,
    /// Who has said nothing for so long, or read nothing, is given up.
    pub silence: Duration,
    /// Messages that wait for one peer; further ones are dropped.
    pub queue: usize,
    /// Octets that wait for one peer; for all together eight times as many.
    pub queue_octets: usize,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            greeting: Duration::from_secs(5),
            pause: Duration::from_millis(50),
            pause_most: Duration::from_secs(5),
            alive: Duration::from_secs(2),
            silence: Duration::from_secs(8),
            queue: 65_536,
            queue_octets: 32 << 20,
        }
    }
}
