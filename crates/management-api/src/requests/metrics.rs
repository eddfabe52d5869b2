//! `GET /metrics`: counters for Prometheus.
//!
//! A collector writes each family when it is asked to, from the same snapshot as
//! everything else that is shown; docs/metrics.md describes the families.

mod bgp;
mod pfcp;
mod ports;
mod workers;

use std::fmt;

use axum::extract::State as Shared;
use axum::http::HeaderMap;
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use weft_bgp::{BgpView, Watch};
use weft_http::metrics::{Families, Label, NO_LABELS, answer};
use weft_http::problem::Failure;
use weft_node::StandbyView;
use weft_node::show::{
    DeviceView, ExtendedView, FunctionView, PortView, SignalCounts, Snapshot, StageView,
};
use weft_pfcp::user_plane::show::PfcpView;

use crate::state::State;

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
pub(crate) async fn metrics(
    Shared(state): Shared<State>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let snapshot = state.snapshot().await?;
    let pfcp = state.pfcp_of_late().await;
    let extended = state.extended_of_late().await?;
    let beside = (pfcp, state.bgp.get().map(Watch::view));
    Ok(answer(&registry(snapshot, beside, extended), &headers))
}

/// All metrics of a node, each with the label `node`.
fn registry(snapshot: Snapshot, beside: Beside, extended: Vec<ExtendedView>) -> Registry {
    let labels = [("node".into(), snapshot.node.clone().into())];
    let mut registry = Registry::with_labels(labels.into_iter());
    registry.register_collector(Box::new(Counted(snapshot, beside, extended)));
    registry
}

/// One look at what a node counts.
#[derive(Debug)]
struct Counted(Snapshot, Beside, Vec<ExtendedView>);

/// What runs beside the node.
type Beside = (Option<PfcpView>, Option<BgpView>);

impl Collector for Counted {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (mut families, Counted(snapshot, (pfcp, bgp), extended)) =
            (Families::new(encoder), self);
        traffic(&mut families, snapshot)?;
        drops(&mut families, snapshot)?;
        let ports = snapshot.ports.iter();
        let up = ports.map(|port| ([("port", port.name.as_str())], u64::from(port.up)));
        families.gauge("weft_port_up", "Whether packets can pass the port.", up)?;
        ports::families(&mut families, snapshot, extended)?;
        stages(&mut families, snapshot)?;
        functions(&mut families, snapshot)?;
        workers::families(&mut families, snapshot)?;
        withheld(&mut families, snapshot)?;
        ignored(&mut families, snapshot)?;
        signals(&mut families, &snapshot.signals)?;
        node(&mut families, snapshot)?;
        state(&mut families, snapshot)?;
        handover(&mut families, snapshot)?;
        bgp.as_ref().map_or(Ok(()), |view| bgp::families(&mut families, view))?;
        pfcp.as_ref().map_or(Ok(()), |view| pfcp::families(&mut families, view))
    }
}

fn traffic(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let samples = |port: fn(&PortView) -> [u64; 2], function: fn(&FunctionView) -> u64| {
        let ports = snapshot.ports.iter().flat_map(move |view| {
            let directions = ["rx", "tx"].into_iter().zip(port(view));
            directions.map(|(way, value)| ([("port", &*view.name), ("direction", way)], value))
        });
        let functions = snapshot.functions.iter().map(move |view| {
            ([("function", view.name.as_str()), ("kind", &view.kind)], function(view))
        });
        ports.chain(functions)
    };
    families.counter(
        "weft_packets",
        "Packets received and sent by ports, and handled by functions.",
        samples(|port| [port.rx_packets, port.tx_packets], |function| function.packets),
    )?;
    families.counter(
        "weft_bytes",
        "Bytes of these packets, from the Ethernet header on.",
        samples(|port| [port.rx_bytes, port.tx_bytes], |function| function.bytes),
    )
}

fn drops(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let samples = snapshot.drops.iter().map(|drop| {
        let mut labels: Vec<Label<'_>> = vec![("reason", drop.reason.as_str())];
        labels.extend(drop.function.as_ref().map(|function| ("function", function.as_str())));
        labels.extend(drop.port.as_ref().map(|port| ("port", port.as_str())));
        (labels, drop.packets)
    });
    let help = "Packets dropped, by reason, and by function or port.";
    families.counter("weft_drops", help, samples)
}

/// Cycles are measured on a sample of the bursts, so they are told beside the
/// packets of the sample; for functions, too.
fn stages(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let samples = |value: fn(&StageView) -> u64| {
        let workers = snapshot.workers.iter().enumerate();
        workers.flat_map(move |(number, worker)| {
            worker.stages.iter().map(move |stage| {
                (([("worker", number)], [("stage", stage.name.as_str())]), value(stage))
            })
        })
    };
    families.counter(
        "weft_stage_cycles",
        "Cycles that the sampled packets took in a stage.",
        samples(|stage| stage.cycles),
    )?;
    families.counter(
        "weft_stage_sampled_packets",
        "Packets whose time in a stage was measured.",
        samples(|stage| stage.packets),
    )
}

fn functions(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let samples = |value: fn(&FunctionView) -> u64| {
        let functions = snapshot.functions.iter();
        functions.map(move |view| ([("function", view.name.as_str())], value(view)))
    };
    families.counter(
        "weft_function_cycles",
        "Cycles that the sampled packets took in a function.",
        samples(|function| function.sampled_cycles),
    )?;
    families.counter(
        "weft_function_sampled_packets",
        "Packets whose time in a function was measured.",
        samples(|function| function.sampled_packets),
    )?;
    devices(families, snapshot)
}

/// Devices of functions behind a NIC.
fn devices(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    type Value = fn(&DeviceView) -> u64;
    let all: [(&str, &str, Value); 5] = [
        ("received_packets", "Packets that a function's own device received.", |d| d.rx_packets),
        ("received_bytes", "Bytes that a function's own device received.", |d| d.rx_bytes),
        (
            "missed_packets",
            "Packets that the receive queue of a function's own device had no room for.",
            |d| d.rx_missed,
        ),
        ("sent_packets", "Packets that a function's own device sent.", |d| d.tx_packets),
        ("sent_bytes", "Bytes that a function's own device sent.", |d| d.tx_bytes),
    ];
    all.into_iter().try_for_each(|(what, help, value)| {
        let samples = snapshot.functions.iter().filter_map(|view| {
            let port = view.process.as_ref()?.port.as_ref()?;
            Some(([("function", view.name.as_str())], value(port)))
        });
        families.counter(&format!("weft_function_device_{what}"), help, samples)
    })
}

fn withheld(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help = "Answers that the node did not give, because there were too many.";
    let samples = snapshot.withheld.iter().map(|one| ([("cause", &*one.cause)], one.packets));
    families.counter("weft_withheld_answers", help, samples)
}

fn ignored(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help = "Packets for the node itself of which nothing came.";
    let samples = snapshot.ignored.iter().map(|one| ([("cause", &*one.cause)], one.packets));
    families.counter("weft_ignored_packets", help, samples)
}

fn signals(families: &mut Families<'_>, counts: &SignalCounts) -> fmt::Result {
    let messages = [
        ("echo_request", "tx", counts.echo_requests),
        ("echo_request", "rx", counts.echo_requests_answered),
        ("echo_response", "rx", counts.echo_responses),
        ("error_indication", "rx", counts.error_indications),
        ("end_marker", "tx", counts.end_markers),
    ];
    let sample =
        |(message, direction, value)| ([("message", message), ("direction", direction)], value);
    let help = "Messages of GTP-U between the node and its peers.";
    families.counter("weft_gtpu_messages", help, messages.map(sample))?;
    let ignored = [
        ("echo_response", counts.echo_responses_ignored),
        ("error_indication", counts.error_indications_ignored),
    ];
    let ignored = ignored.map(|(message, value)| ([("message", message)], value));
    let help = "Messages of GTP-U that were not acted on: forged, or of no use.";
    families.counter("weft_gtpu_messages_ignored", help, ignored)?;
    let help = "How often a GTP-U peer stopped answering.";
    families.counter("weft_gtpu_peer_failures", help, [(NO_LABELS, counts.peer_failures)])?;
    let help = "GTP-U peers that do not answer.";
    families.gauge("weft_gtpu_peers_down", help, [(NO_LABELS, counts.peers_down)])
}

fn node(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    for (name, help, value) in [
        ("weft_users", "Users there are.", snapshot.users as u64),
        ("weft_buffers", "Packet buffers.", snapshot.buffers.size.into()),
        (
            "weft_buffers_available",
            "Packet buffers that hold no packet.",
            snapshot.buffers.available.into(),
        ),
        ("weft_start_time_seconds", "When the node started, since 1970.", snapshot.started),
        ("weft_uptime_seconds", "Time since the node started.", snapshot.uptime / 1_000_000_000),
        ("weft_tsc_hertz", "Cycles per second.", snapshot.tsc_hz),
    ] {
        families.gauge(name, help, [(NO_LABELS, value)])?;
    }
    for (name, help, value) in [
        ("weft_local_packets", "Packets given to the node itself.", snapshot.local),
        ("weft_originated_packets", "Packets that the node itself sent.", snapshot.originated),
        ("weft_emitted_packets", "Packets that functions generated or copied.", snapshot.emitted),
        (
            "weft_fragments",
            "Fragments made, beyond the packets they were made of.",
            snapshot.fragments,
        ),
        ("weft_panics", "Panics caught in functions.", snapshot.panics),
    ] {
        families.counter(name, help, [(NO_LABELS, value)])?;
    }
    Ok(())
}

/// What outlives the node.
fn state(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let Some(view) = &snapshot.state else { return Ok(()) };
    for (name, help, value) in [
        (
            "weft_state_failed",
            "Whether the disk refuses what is to outlive the node.",
            view.failure.is_some().into(),
        ),
        (
            "weft_state_behind_milliseconds",
            "How long the oldest change has waited that is not durable.",
            view.behind / 1_000_000,
        ),
        (
            "weft_state_checkpoint_age_seconds",
            "How long ago the oldest checkpoint may have been taken.",
            view.checkpoint_age / 1_000_000_000,
        ),
        (
            "weft_state_restored_bearers",
            "Bearers that were there again when the node started.",
            view.restored_bearers,
        ),
    ] {
        families.gauge(name, help, [(NO_LABELS, value)])?;
    }
    let help = "Changes that were made durable.";
    families.counter("weft_state_changes", help, [(NO_LABELS, view.changes)])?;
    let help = "How many times the disk was written for them.";
    families.counter("weft_state_commits", help, [(NO_LABELS, view.commits)])?;
    match &view.standby {
        Some(standby) => of_standby(families, standby),
        None => Ok(()),
    }
}

/// How far the standby is.
fn of_standby(families: &mut Families<'_>, standby: &StandbyView) -> fmt::Result {
    for (name, help, value) in [
        ("weft_standby_heard", "Whether the standby was heard lately.", standby.hears.into()),
        (
            "weft_standby_whole",
            "Whether the standby has all records, and may take over.",
            standby.whole.into(),
        ),
        (
            "weft_standby_lag_milliseconds",
            "For how long the standby has not had all that is durable.",
            standby.lag / 1_000_000,
        ),
        ("weft_standby_waiting_bytes", "Changes that wait for the standby.", standby.waiting),
        ("weft_standby_answers", "Answers that wait for the standby.", standby.answers),
    ] {
        families.gauge(name, help, [(NO_LABELS, value)])?;
    }
    let help = "Copies of all records that were begun for the standby.";
    families.counter("weft_standby_copies", help, [(NO_LABELS, standby.copies)])?;
    let help = "Pieces of changes that were sent to the standby.";
    families.counter("weft_standby_pieces", help, [(NO_LABELS, standby.pieces)])
}

/// Users that move between nodes.
fn handover(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help = "Kept packets that went to another node with their users, and that came.";
    let moved = [("out", snapshot.moved_out), ("in", snapshot.moved_in)];
    let moved = moved.map(|(direction, packets)| ([("direction", direction)], packets));
    families.counter("weft_moved_packets", help, moved)?;
    let Some(view) = &snapshot.handover else { return Ok(()) };
    let help = "Users that the node has to do with, by state.";
    let users = view.users.iter().map(|(state, users)| ([("state", &**state)], *users));
    families.gauge("weft_handover_users", help, users)?;
    let help = "Users whose packets go through gates.";
    families.gauge("weft_handover_gated_users", help, [(NO_LABELS, view.gated)])?;
    let help = "Packets that have waited at gates.";
    families.counter("weft_handover_waited_packets", help, [(NO_LABELS, view.waited)])?;
    let help = "What the node's part in handovers has counted.";
    let counts = view.counts.iter().map(|(event, count)| ([("event", &**event)], *count));
    families.counter("weft_handover", help, counts)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::header::ACCEPT;
    use prometheus_client::encoding::text;
    use weft_node::show::DropView;
    use weft_pfcp::user_plane::show::MessageCount;

    use super::*;

    /// A node that control planes drive, as it shows PFCP.
    fn driven() -> PfcpView {
        let message = MessageCount {
            message: "session_deletion_response".to_owned(),
            direction: "tx".to_owned(),
            cause: Some("65".to_owned()),
            count: 4,
        };
        PfcpView { messages: vec![message], sessions: 7, ..PfcpView::default() }
    }

    #[test]
    fn a_response_is_told_with_its_cause() {
        let text = exposition(Snapshot { node: "n".to_owned(), ..Snapshot::default() });
        let line = "weft_pfcp_messages_total{node=\"n\",message=\"session_deletion_response\",\
                    direction=\"tx\",cause=\"65\"} 4";
        assert!(text.lines().any(|one| one == line), "{text}");
        assert!(text.contains("weft_pfcp_sessions{node=\"n\"} 7"), "{text}");
    }

    #[test]
    fn every_family_stands_on_the_page_of_metrics() {
        let page = include_str!("../../../../docs/metrics.md");
        let text = exposition(Snapshot::default());
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            // Those of devices stand there together.
            let ending = name.strip_prefix("weft_function_device").map(|end| format!("…{end}`"));
            let is_there = page.contains(&format!("`{name}`"))
                || ending.is_some_and(|ending| page.contains(&ending));
            assert!(is_there, "{name} is not in docs/metrics.md");
        }
    }

    fn beside() -> Beside {
        (Some(driven()), Some(BgpView::default()))
    }

    fn exposition(snapshot: Snapshot) -> String {
        let mut written = String::new();
        text::encode(&mut written, &registry(snapshot, beside(), Vec::new())).unwrap();
        written
    }

    #[test]
    fn a_drop_is_told_with_its_reason_and_where_it_happened() {
        let drop = |function: Option<&str>, port: Option<&str>| DropView {
            reason: "why".to_owned(),
            function: function.map(str::to_owned),
            port: port.map(str::to_owned),
            packets: 3,
            ..DropView::default()
        };
        let drops = vec![drop(None, None), drop(Some("f"), None), drop(None, Some("p"))];
        let text = exposition(Snapshot { node: "n".to_owned(), drops, ..Snapshot::default() });
        let lines: Vec<_> =
            text.lines().filter(|line| line.starts_with("weft_drops_total")).collect();
        assert_eq!(
            lines,
            [
                r#"weft_drops_total{node="n",reason="why"} 3"#,
                r#"weft_drops_total{node="n",reason="why",function="f"} 3"#,
                r#"weft_drops_total{node="n",reason="why",port="p"} 3"#,
            ]
        );
    }

    #[test]
    fn every_family_is_described_once_and_before_its_samples() {
        let text = exposition(Snapshot::default());
        let mut described = std::collections::HashSet::new();
        let mut helped = std::collections::HashSet::new();
        for line in text.lines() {
            let words: Vec<_> = line.splitn(4, ' ').collect();
            match words.as_slice() {
                ["#", "HELP", name, help] => {
                    assert!(!help.is_empty() && helped.insert(*name), "{line}");
                }
                ["#", "TYPE", name, _] => {
                    assert!(helped.contains(name) && described.insert(*name), "{line}");
                }
                ["#", "EOF"] => {}
                _ => {
                    let name = line.split('{').next().unwrap();
                    let endings = ["_total", "_sum", "_count", "_bucket"];
                    let family = endings.iter().find_map(|ending| name.strip_suffix(ending));
                    let family = family.filter(|family| described.contains(family)).unwrap_or(name);
                    assert!(described.contains(family), "{line}");
                }
            }
        }
        assert!(described.len() > 30);
    }

    /// What this thread has had of a core, which others on the machine do not lengthen.
    fn processor_time() -> Duration {
        let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
    }

    /// A scrape takes the control thread's time, so its cost is bounded: as many series as a
    /// node with 100,000 users would have, had each a series.
    #[test]
    fn a_hundred_thousand_series_take_less_than_a_second() {
        let drop = |number: usize| DropView {
            reason: format!("reason_{number}"),
            function: Some("function".to_owned()),
            packets: number as u64,
            ..DropView::default()
        };
        let drops = (0..100_000).map(drop).collect();
        let snapshot = Snapshot { node: "n".to_owned(), drops, ..Snapshot::default() };
        let registry = registry(snapshot, (None, None), Vec::new());
        for accept in ["text/plain", "application/openmetrics-text"] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            let begin = processor_time();
            assert_eq!(answer(&registry, &headers).status(), 200);
            let took = processor_time() - begin;
            println!("100,000 series as {accept}: {took:?}");
            assert!(took < Duration::from_secs(1), "{took:?}");
        }
    }
}
