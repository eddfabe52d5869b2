//! `GET /metrics`: counters for Prometheus.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use weft_etcd::Counts;
use weft_http::metrics::{Families, NO_LABELS, answer};
use weft_http::problem::Failure;

use super::state::Shared;
use crate::engine::{Engine, NodeView};
use crate::n4::N4View;
use crate::standing::Standing;

/// Counters for Prometheus, in OpenMetrics where the client asks for it.
#[utoipa::path(
    get,
    path = "/metrics",
    responses((
        status = 200,
        description = "The metrics",
        content((String = "text/plain"), (String = "application/openmetrics-text")),
    )),
)]
pub async fn metrics(
    State(shared): State<Shared>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let read = |engine: &mut Engine| Counted {
        counters: engine.counters(),
        nodes: engine.nodes(),
        waiting: engine.waiting(),
    };
    let standing = shared.site.standing();
    let mut registry = Registry::default();
    let leads = !matches!(standing, Standing::Follows(_));
    registry.register_collector(Box::new(Leads(leads)));
    if let Standing::Leads(_, counts) = standing {
        registry.register_collector(Box::new(InEtcd(counts)));
    }
    if leads {
        registry.register_collector(Box::new(shared.handle.ask(read).await?));
        if let Some(view) = shared.n4.get() {
            registry.register_collector(Box::new(OfN4(view)));
        }
    }
    Ok(answer(&registry, &headers))
}

/// Whether it leads.
#[derive(Debug)]
struct Leads(bool);

impl Collector for Leads {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether this replica leads; a controller alone does.";
        let samples = [(NO_LABELS, u64::from(self.0))];
        Families::new(encoder).gauge("weft_controller_leads", help, samples)
    }
}

/// What records in etcd have cost since this replica leads.
#[derive(Debug)]
struct InEtcd(Arc<Counts>);

impl Collector for InEtcd {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let help = "Transactions of etcd since this replica leads.";
        let count = [(NO_LABELS, self.0.transactions())];
        families.counter("weft_controller_etcd_transactions", help, count)?;
        let help = "Octets of values written to etcd since this replica leads.";
        families.counter("weft_controller_etcd_bytes", help, [(NO_LABELS, self.0.octets())])
    }
}

/// N4 for several nodes.
#[derive(Debug)]
struct OfN4(N4View);

impl Collector for OfN4 {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let nodes = || self.0.nodes.iter().map(|node| ([("node", &*node.name)], node));
        let help = "PFCP sessions of the node, as it has said.";
        let sessions = nodes().map(|(node, one)| (node, u64::from(one.sessions)));
        families.gauge("weft_controller_n4_node_sessions", help, sessions)?;
        let help = "PFCP sessions that the node has room for.";
        let most = nodes().map(|(node, one)| (node, u64::from(one.most)));
        families.gauge("weft_controller_n4_node_sessions_limit", help, most)?;
        let help = "Whether the node takes new PFCP sessions.";
        let up = nodes().map(|(node, one)| (node, u64::from(one.state == "up")));
        families.gauge("weft_controller_n4_node_up", help, up)?;
        let help = "Whether the control plane answers.";
        let peers = self.0.control_planes.iter();
        let peers = peers.map(|one| ([("peer", &*one.node)], u64::from(one.up)));
        families.gauge("weft_controller_n4_peer_up", help, peers)?;
        let help = "What N4 has counted since this controller serves it, by what it is.";
        let counts = self.0.counts.iter().map(|(name, count)| ([("what", &**name)], *count));
        families.counter("weft_controller_n4_counts", help, counts)
    }
}

/// One look at what the controller counts.
#[derive(Debug)]
struct Counted {
    counters: Vec<(&'static str, u64)>,
    nodes: Vec<NodeView>,
    waiting: usize,
}

impl Collector for Counted {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        for (name, count) in &self.counters {
            let family = format!("weft_controller_{name}");
            families.counter(&family, help(name), [(NO_LABELS, *count)])?;
        }
        type Gauge = (&'static str, &'static str, fn(&NodeView) -> usize);
        let gauges: [Gauge; 3] = [
            ("connected", "Whether the node is connected with the controller.", |node| {
                usize::from(node.connected)
            }),
            ("users", "Users that the node owns and that stay.", |node| node.users),
            ("moving", "Users whose moves begin or end at the node.", |node| node.moving),
        ];
        for (name, help, value) in gauges {
            let nodes = self.nodes.iter();
            let samples = nodes.map(|node| ([("node", &*node.name)], value(node) as u64));
            families.gauge(&format!("weft_controller_node_{name}"), help, samples)?;
        }
        self.loads(&mut families)?;
        let help = "Users of the configuration that wait for their nodes.";
        families.gauge("weft_controller_users_waiting", help, [(NO_LABELS, self.waiting as u64)])
    }
}

impl Counted {
    /// What nodes say that they carry; those that have not said so have no sample.
    fn loads(&self, families: &mut Families<'_>) -> fmt::Result {
        let loads =
            || self.nodes.iter().filter_map(|node| Some(([("node", &*node.name)], node.load?)));
        let help = "Packets that the node says it has received since it started.";
        let received = loads().map(|(node, load)| (node, load.received));
        families.counter("weft_controller_node_received_packets", help, received)?;
        let help = "Packets that the node says it has dropped since it started.";
        let dropped = loads().map(|(node, load)| (node, load.dropped));
        families.counter("weft_controller_node_dropped_packets", help, dropped)?;
        let help = "Share of the time of its busiest core that packets take, as the node says.";
        let busy = loads().filter_map(|(node, load)| Some((node, load.busy?)));
        families.ratio("weft_controller_node_busy_ratio", help, busy)?;
        let help = "Packets a second that the node says it can carry.";
        let known = self.nodes.iter().filter(|node| node.capacity > 0);
        let capacity = known.map(|node| ([("node", &*node.name)], node.capacity));
        families.gauge("weft_controller_node_capacity", help, capacity)
    }
}

/// What a counter counts.
fn help(counter: &str) -> &'static str {
    match counter {
        "exported" => "Users that a source handed over.",
        "imported" => "Users that a target took with their contexts.",
        "resumed" => "Moves that were given up, so that the source went on.",
        "context_lost" => "Users whose contexts were lost with a node.",
        "context_kept" => "Users that went on with contexts of their node's last checkpoint.",
        "no_owner" => "Users left without an owner by a node that is gone.",
        "uplink_gate_timeout" => "Gates for uplink that opened without an End Marker.",
        "downlink_gate_timeout" => "Gates for downlink that opened without an End Marker.",
        "release_timeout" => "Paths that ended without the event that should have ended them.",
        "resent" => "Messages that were sent again.",
        "stale" => "Messages for another incarnation, or of a stale epoch.",
        "messages_sent" => "Messages written to a connection.",
        "messages_received" => "Messages read from a connection.",
        "messages_unconnected" => "Messages dropped because there was no connection.",
        "messages_queue_full" => "Messages dropped because too many waited for the peer.",
        "messages_unread" => "Messages dropped because the controller had no room for them.",
        "connections_violated" => "Connections ended because the peer broke the protocol.",
        _ => "What the controller has counted under this name.",
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn every_family_has_a_help_text_of_its_own() {
        let known = [
            "exported",
            "imported",
            "resumed",
            "context_lost",
            "context_kept",
            "no_owner",
            "uplink_gate_timeout",
            "downlink_gate_timeout",
            "release_timeout",
            "resent",
            "stale",
            "messages_sent",
            "messages_received",
            "messages_unconnected",
            "messages_queue_full",
            "messages_unread",
            "connections_violated",
        ];
        let counters = known.map(|name| (name, 1)).to_vec();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Counted { counters, nodes: Vec::new(), waiting: 2 }));
        let mut written = String::new();
        text::encode(&mut written, &registry).unwrap();
        let helps: Vec<_> =
            written.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
        assert_eq!(helps.len(), known.len() + 8);
        let texts: std::collections::HashSet<_> =
            helps.iter().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(texts.len(), helps.len());
        assert!(written.contains("weft_controller_resent_total 1\n"), "{written}");
        assert!(written.contains("weft_controller_users_waiting 2\n"), "{written}");
    }
}
