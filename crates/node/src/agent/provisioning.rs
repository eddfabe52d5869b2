//! Users, bearers and sessions that come, change and go by commands.

mod bearers;
mod sessions;

use weft_dataplane::clock::Clock;
use weft_node_config::Blueprint;

use super::state::Persistence;
use crate::bearer::Subscribers;
use crate::gtpu_peers::GtpuPeers;
use crate::plan::Trials;
use crate::ports::Ports;
use crate::workers::Workers;

/// The parts of a node that a change of its users has to do with.
pub(crate) struct Provisioning<'a> {
    pub blueprint: &'a Blueprint,
    pub trials: &'a Trials,
    pub subscribers: &'a mut Subscribers,
    pub workers: &'a mut Workers,
    pub ports: &'a mut Ports,
    /// Tunnels lead to them.
    pub gtpu_peers: &'a mut GtpuPeers,
    pub persistence: &'a mut Persistence,
    pub clock: &'a Clock,
}
