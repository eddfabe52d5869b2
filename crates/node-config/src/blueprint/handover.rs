//! Users that move between nodes.

use std::net::IpAddr;

use weft_dataplane::gates::{GatesPlan, HandoverRole};
use weft_mobility_protocol::{NodeId, User};

/// How users move between this node and others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverPlan {
    /// Number of this node.
    pub node: NodeId,
    /// What it is.
    pub role: HandoverRole,
    /// Own address that tunnels end at.
    pub local: IpAddr,
    /// The port that has it: a position in [`Blueprint::ports`](super::Blueprint::ports).
    pub port: u16,
    /// Number of the port's network instance.
    pub network: u32,
    /// Numbers of the other nodes, and where their tunnels end.
    pub peers: Vec<(NodeId, IpAddr)>,
    /// The users that move.
    pub users: Vec<MovingUsers>,
    /// The function that puts packets into tunnels: a position in
    /// [`Blueprint::functions`](super::Blueprint::functions).
    pub tunnel: u16,
    /// How much may wait.
    pub limits: weft_mobility_protocol::plane::Limits,
    /// What says that a user's radio has arrived, and times of the protocol.
    pub settings: weft_mobility_protocol::Settings,
    /// Times and bounds of connections with the controller and with other nodes.
    pub timing: weft_mobility_transport::Timing,
    /// How connections are enciphered.
    pub security: Option<HandoverSecurity>,
    /// Whether connections beyond this machine may do without.
    pub plaintext: bool,
}

/// How connections with the controller and with other nodes are enciphered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverSecurity {
    /// The node's certificate and key, and the authority; the folder of the configuration is
    /// where paths begin.
    pub files: weft_http::tls::CertificateFiles,
    /// Name of the controller.
    pub controller: String,
}

impl HandoverPlan {
    /// What workers make their gates from.
    pub fn gates(&self) -> GatesPlan {
        GatesPlan {
            role: self.role,
            limits: self.limits,
            local: self.local,
            peers: self.peers.clone(),
            port: self.port,
        }
    }
}

/// Users that move: all of a plan, and those that are added like them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovingUsers {
    /// Name of the plan.
    pub plan: String,
    /// Number of the first of them.
    pub first: u64,
    /// How many the plan has.
    pub count: u32,
    /// How many may be added.
    pub added: u32,
}

impl MovingUsers {
    /// The first number behind theirs.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.count) + u64::from(self.added)
    }

    /// Which of them, from 0, has this number.
    pub fn nth(&self, user: User) -> Option<u32> {
        let nth = user.0.checked_sub(self.first).filter(|_| user.0 < self.end())?;
        u32::try_from(nth).ok()
    }

    /// The same, of those that may be added.
    pub fn added(&self, user: User) -> Option<u32> {
        self.nth(user).filter(|nth| *nth >= self.count)
    }
}

/// Its part in a pair of nodes for one set of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyPlan {
    /// The number of this node.
    pub node: NodeId,
    /// Answers wait until the standby has what they say.
    pub wait: bool,
    /// Octets of changes that are kept for a standby that is away.
    pub buffer: usize,
    /// How connections are enciphered; none when they are not.
    pub security: Option<HandoverSecurity>,
    /// Whether that is meant, beyond this machine.
    pub plaintext: bool,
}

/// The site that a node is of, where it says nothing else of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePlan {
    /// The number of this node.
    pub node: NodeId,
    /// How connections are enciphered; none when they are not.
    pub security: Option<HandoverSecurity>,
    /// Whether that is meant, beyond this machine.
    pub plaintext: bool,
}
