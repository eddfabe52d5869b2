//! What control planes and the node have said to each other.

use std::fmt;

use weft_http::metrics::{Families, Label, NO_LABELS};
use weft_pfcp::user_plane::show::{Counts, PfcpView};

pub(super) fn families(families: &mut Families<'_>, view: &PfcpView) -> fmt::Result {
    messages(families, view)?;
    requests(families, &view.counts)?;
    changes_and_reports(families, &view.counts)?;
    state(families, view)
}

fn messages(families: &mut Families<'_>, view: &PfcpView) -> fmt::Result {
    let help = "Messages of PFCP; of responses, with the cause.";
    let samples = view.messages.iter().map(|one| {
        let mut labels: Vec<Label<'_>> =
            vec![("message", one.message.as_str()), ("direction", one.direction.as_str())];
        labels.extend(one.cause.as_deref().map(|cause| ("cause", cause)));
        (labels, one.count)
    });
    families.counter("weft_pfcp_messages", help, samples)?;
    let Counts { unlisted, unreadable, unknown_messages, unexpected, .. } = view.counts;
    let Counts { no_transaction, queue_full, .. } = view.counts;
    let dropped = [
        ("unlisted", unlisted),
        ("unreadable", unreadable),
        ("unknown_type", unknown_messages),
        ("unexpected", unexpected),
        ("no_transaction", no_transaction),
        ("queue_full", queue_full),
    ];
    let help = "Messages of PFCP that were dropped, and requests that were not made.";
    let samples = dropped.map(|(reason, count)| ([("reason", reason)], count));
    families.counter("weft_pfcp_dropped_messages", help, samples)
}

fn requests(families: &mut Families<'_>, counts: &Counts) -> fmt::Result {
    let Counts { sent_again, unanswered, repeated, lost, hijacks, .. } = *counts;
    for (name, help, count) in [
        (
            "weft_pfcp_retransmissions",
            "Requests of the node that were sent again, as T1 had passed.",
            sent_again,
        ),
        (
            "weft_pfcp_unanswered_requests",
            "Requests of the node that were sent N1 times and not answered.",
            unanswered,
        ),
        ("weft_pfcp_repeated_requests", "Requests that control planes sent again.", repeated),
        (
            "weft_pfcp_associations_lost",
            "How often a control plane restarted or did not answer.",
            lost,
        ),
        (
            "weft_pfcp_hijacks_refused",
            "Association requests under the name of another control plane.",
            hijacks,
        ),
    ] {
        families.counter(name, help, [(NO_LABELS, count)])?;
    }
    Ok(())
}

fn changes_and_reports(families: &mut Families<'_>, counts: &Counts) -> fmt::Result {
    let Counts { established, modified, deleted, .. } = *counts;
    let changes = [("established", established), ("modified", modified), ("deleted", deleted)];
    let help = "Changes of sessions.";
    let samples = changes.map(|(change, count)| ([("change", change)], count));
    families.counter("weft_pfcp_session_changes", help, samples)?;
    let Counts { usage_reports, downlink_data_reports, error_reports, inactivity_reports, .. } =
        *counts;
    let reports = [
        ("usage", usage_reports),
        ("downlink_data", downlink_data_reports),
        ("error_indication", error_reports),
        ("inactivity", inactivity_reports),
    ];
    let help = "Session reports of the node.";
    let samples = reports.map(|(report, count)| ([("report", report)], count));
    families.counter("weft_pfcp_reports", help, samples)
}

fn state(families: &mut Families<'_>, view: &PfcpView) -> fmt::Result {
    let is_up = |up: bool| view.associations.iter().filter(move |one| one.up == up).count();
    let associations = [("up", is_up(true)), ("lost", is_up(false))];
    let samples = associations.map(|(state, count)| ([("state", state)], count as u64));
    families.gauge("weft_pfcp_associations", "Control planes, by state.", samples)?;
    let sessions = [(NO_LABELS, view.sessions as u64)];
    families.gauge("weft_pfcp_sessions", "Sessions of control planes.", sessions)?;
    let help = "Responses that are kept for repeated requests, and requests of the node that wait.";
    let [incoming, outgoing] = view.transactions;
    let samples = [("incoming", incoming), ("outgoing", outgoing)];
    let samples = samples.map(|(side, count)| ([("side", side)], count as u64));
    families.gauge("weft_pfcp_transactions", help, samples)
}
