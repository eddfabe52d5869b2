//! What runs beside a node in its process, and asks its agent.

use std::path::Path;

use weft_bgp::Speaker;
use weft_function::Events;
use weft_ipfix::Exporter;
use weft_node::Handle;
use weft_node_config::Blueprint;
use weft_pfcp::Server;

use super::handover::{Joined, Part};
use super::orders::Orders;
use crate::failure::Failure;

/// What asks the agent of a node, and ends before it: in the order of the fields.
pub struct Beside {
    /// Control planes.
    pub pfcp: Option<Server>,
    /// Moves of users.
    pub joined: Option<Joined>,
    /// A collector of IPFIX.
    pub exporter: Option<Exporter>,
    /// Routers.
    pub speaker: Option<Speaker>,
}

impl Beside {
    /// Starts what the configuration has; the node's part in moves was prepared before.
    pub fn start(
        (part, blueprint): (Option<Part>, &Blueprint),
        socket: &Path,
        handle: &Handle,
        (events, orders): (Option<Events>, &Orders),
    ) -> Result<Beside, Failure> {
        let joined = part.map(|part| part.take(blueprint, socket, (handle, orders))).transpose()?;
        let pfcp = blueprint.pfcp.as_ref();
        let pfcp = pfcp.map(|plan| Server::start(plan, handle.clone()));
        let pfcp = pfcp.transpose().map_err(Failure::input)?;
        if let (Some(joined), Some(pfcp)) = (&joined, &pfcp) {
            // It is the first one.
            let _ = joined.control_planes.set(pfcp.handle());
        }
        let (name, plan) = (blueprint.name.clone(), blueprint.ipfix.clone());
        let exporter = plan.map(|plan| Exporter::start(plan, name, handle.clone(), events));
        let exporter = exporter.transpose().map_err(Failure::broken)?;
        // Last: what routers are told of is there by now.
        let speaker = blueprint.bgp.as_ref().map(Speaker::start);
        let speaker = speaker.transpose().map_err(Failure::broken)?;
        Ok(Beside { pfcp, joined, exporter, speaker })
    }

    /// Another process of the node, or its standby, goes on with its routes.
    pub fn leave_routes(&self) {
        if let Some(speaker) = &self.speaker {
            speaker.leave();
        }
    }

    /// The name of a thread that has ended by itself.
    pub fn dead(&self) -> Option<&str> {
        let pfcp = self.pfcp.as_ref().filter(|pfcp| pfcp.is_finished()).map(|_| "pfcp");
        let exporter = self.exporter.as_ref().filter(|exporter| exporter.is_dead());
        let speaker = self.speaker.as_ref().filter(|speaker| speaker.is_dead()).map(|_| "bgp");
        let others = pfcp.or(exporter.map(|_| "ipfix")).or(speaker);
        self.joined.as_ref().and_then(Joined::dead).or(others)
    }
}
