//! A node that stands by for another one: it is built, with all users, and carries no packet.

use std::time::Instant;

use weft_dataplane::worker::Worker;
use weft_dpdk::{Eal, Holder, Ingress};
use weft_node_config::Blueprint;
use weft_state::{Change, Records, Store};

use super::{Node, keeping};
use crate::agent::{Followed, Keeping, change_functions, configured, restore_compositions};
use crate::assemble::{Devices, seconds_since_1970};
use crate::error::BuildError;

/// A node that stands by with what the records of another one say. Its ports are open and take
/// nothing in, and none of its threads run.
pub struct StandingNode {
    node: Node,
    followed: Followed,
    keeping: Keeping,
    /// Of ports that can be shut.
    ingress: Vec<Ingress>,
}

impl Node {
    /// Builds a node that stands by, with users, bearers and sessions of `records`.
    ///
    /// # Errors
    /// As [`Node::restore`].
    pub fn stand_by(
        eal: &Eal,
        mut blueprint: Blueprint,
        records: &(dyn Records + Sync),
    ) -> Result<StandingNode, BuildError> {
        let begun = Instant::now();
        let (keeping, configured) = (keeping(&blueprint), configured(&blueprint));
        restore_compositions(&mut blueprint, records)?;
        let mut node = Node::build_with(eal, blueprint, None, Devices::Own)?;
        let Node { agent, workers, .. } = &mut node;
        agent.persistence.configured = configured;
        let mut ingress = Vec::new();
        for port in agent.ports.iter() {
            let of_port = port.port_device().ingress(Holder::First).and_then(|of_port| {
                // What comes to a TAP device can only go to another process.
                let of_port = of_port.filter(Ingress::copies);
                of_port.iter().try_for_each(Ingress::shut)?;
                Ok(of_port)
            });
            match of_port {
                Ok(of_port) => ingress.extend(of_port),
                // What it takes in until the node owns the users is dropped then.
                Err(error) => tracing::warn!(port = port.name(), %error, "it cannot be shut"),
            }
        }
        let followed = agent.restoration(workers).begin_to_follow(records)?;
        let bearers = agent.subscribers.bearers.count();
        let sessions = agent.subscribers.sessions.entries.len();
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(bearers, sessions, seconds, "the node stands by with all users");
        Ok(StandingNode { node, followed, keeping, ingress })
    }
}

impl StandingNode {
    /// Does what changes of the records say. False, and nothing has changed, where the node has
    /// to be built anew for them: they are about how functions are run.
    ///
    /// # Errors
    /// As [`Node::restore`]; the node is of no use then.
    pub fn apply(&mut self, changes: &[Change]) -> Result<bool, BuildError> {
        if change_functions(changes) {
            return Ok(false);
        }
        let Node { agent, workers, .. } = &mut self.node;
        agent.restoration(workers).follow(changes, &mut self.followed)?;
        Ok(true)
    }

    /// The node owns the users, and goes on with `store`, which has the records. It waits to be
    /// started; its ports take packets in from now on.
    ///
    /// # Errors
    /// As [`Node::restore`].
    pub fn own(self, store: Store) -> Result<Node, BuildError> {
        let StandingNode { mut node, followed, keeping, ingress } = self;
        let Node { agent, workers, .. } = &mut node;
        agent.restoration(workers).own(store, keeping, followed)?;
        agent.started = seconds_since_1970();
        workers.iter_mut().for_each(Worker::discard_received);
        for of_port in &ingress {
            of_port.open().map_err(BuildError::Shut)?;
        }
        Ok(node)
    }
}
