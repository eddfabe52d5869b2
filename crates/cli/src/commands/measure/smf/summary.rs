//! What became of requests, as text and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};
use weft_smf::profile::Load;
use weft_smf::{Kind, Profile, Requests, Statistics};

use crate::number::{count, counted, microseconds};
use crate::table::Table;

/// Percentiles of delays that are told.
const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// As people read it.
pub fn text(profile: &Profile, statistics: &Statistics) -> String {
    // Writing to a string cannot fail.
    let mut text = String::new();
    let _ = writeln!(text, "{}: {} to {}", profile.name, profile.local, profile.user_plane);
    for (what, requests, took) in rates(profile, statistics) {
        let per_second = requests as f64 / took.as_secs_f64().max(1e-9);
        let _ = writeln!(
            text,
            "{what}: {} in {:.2} s, {} a second",
            count(requests),
            took.as_secs_f64(),
            count(per_second as u64),
        );
    }
    let head = ["request", "sent", "again", "answered", "late", "lost", "refused"];
    let delays = PERCENTILES.map(|(name, _)| format!("{name} µs"));
    let head: Vec<_> = head.into_iter().chain(delays.iter().map(String::as_str)).collect();
    let mut table = Table::new(&head, 1);
    let kinds = Kind::ALL.into_iter().map(|kind| (kind.name(), statistics.of(kind)));
    let rows = kinds.chain([("all of the load", &statistics.load)]);
    for (name, requests) in rows.filter(|(_, requests)| requests.sent > 0) {
        let Requests { sent, repeated, answered, late, lost, refused, .. } = requests;
        let refused: u64 = refused.values().sum();
        let counts = [*sent, *repeated, *answered, *late, *lost, refused].map(count);
        let delays = PERCENTILES.map(|(_, percent)| delay(requests, percent));
        table.row([name.to_owned()].into_iter().chain(counts).chain(delays));
    }
    text.push_str(&table.text());
    for (kind, cause, number) in refusals(statistics) {
        let what = weft_smf::cause(cause);
        let _ = writeln!(text, "refused: {} {}, {what}", count(number), kind.name());
    }
    if statistics.unsent > 0 {
        let _ = writeln!(text, "due and not sent: {}", count(statistics.unsent));
    }
    for (what, number) in wrong(statistics).into_iter().filter(|(_, number)| *number > 0) {
        let _ = writeln!(text, "wrong: {} {what}", count(number));
    }
    for (what, number) in asked(statistics).into_iter().filter(|(_, number)| *number > 0) {
        let _ = writeln!(text, "asked by the user plane: {} {what}", count(number));
    }
    let [uplink, downlink, total] = statistics.octets.map(count);
    let _ = write!(text, "usage reported: {total} octets, {uplink} uplink, {downlink} downlink");
    let [uplink, downlink, total] = statistics.packets.map(count);
    let _ = writeln!(text, "; {total} packets, {uplink} uplink, {downlink} downlink");
    let verdict = if statistics.is_clean() { "nothing lost, late or wrong" } else { "not clean" };
    let _ = writeln!(text, "{}: {verdict}", counted(profile.sessions.count.into(), "session"));
    text
}

/// What was done, how often, and in which time.
fn rates(profile: &Profile, statistics: &Statistics) -> Vec<(&'static str, u64, Duration)> {
    let all = u64::from(profile.sessions.count);
    let mut rates = Vec::new();
    rates.extend(statistics.establishing.map(|took| ("established", all, took)));
    if let (Some(took), Some(Load { .. })) = (statistics.loading, profile.load) {
        rates.push(("load", statistics.load.answered, took));
    }
    rates.extend(statistics.deleting.map(|took| ("deleted", statistics.deleted_at_end, took)));
    rates
}

fn delay(requests: &Requests, percent: f64) -> String {
    match requests.answered {
        0 => "–".to_owned(),
        _ => microseconds(requests.percentile(percent).as_nanos() as u64),
    }
}

fn refusals(statistics: &Statistics) -> impl Iterator<Item = (Kind, u8, u64)> + '_ {
    Kind::ALL.into_iter().flat_map(|kind| {
        statistics.of(kind).refused.iter().map(move |(cause, number)| (kind, *cause, *number))
    })
}

fn wrong(statistics: &Statistics) -> [(&'static str, u64); 6] {
    let wrong = statistics.wrong;
    [
        ("datagrams that are no message for a control plane", wrong.malformed),
        ("answers to nothing", wrong.unasked),
        ("answers with another session's SEID", wrong.seid),
        ("establishments without an F-SEID or F-TEID", wrong.without_tunnel),
        ("F-TEIDs that another session has", wrong.tunnel_taken),
        ("usage reports whose number does not follow", wrong.report_number),
    ]
}

fn asked(statistics: &Statistics) -> [(&'static str, u64); 7] {
    let asked = statistics.asked;
    [
        ("heartbeats", asked.heartbeats),
        ("Downlink Data Reports", asked.downlink_data),
        ("usage reports", asked.usage),
        ("other reports", asked.other_reports),
        ("reports of sessions that are not there", asked.unknown_session),
        ("requests that came again", asked.repeated),
        ("requests about association or node", asked.node),
    ]
}

/// As programs read it: times in seconds, delays in nanoseconds.
pub fn json(profile: &Profile, statistics: &Statistics) -> Value {
    let kinds = Kind::ALL.into_iter().map(|kind| (kind.name().to_owned(), of(statistics.of(kind))));
    let phases = rates(profile, statistics).into_iter().map(|(what, number, took)| {
        (what.to_owned(), json!({"requests": number, "seconds": took.as_secs_f64()}))
    });
    let named = |list: &[(&'static str, u64)]| {
        list.iter().map(|(what, number)| ((*what).to_owned(), json!(number))).collect::<Map<_, _>>()
    };
    let [uplink, downlink, total] = statistics.octets;
    let [uplink_packets, downlink_packets, total_packets] = statistics.packets;
    json!({
        "profile": profile.name,
        "sessions": profile.sessions.count,
        "phases": phases.collect::<Map<_, _>>(),
        "requests": kinds.collect::<Map<_, _>>(),
        "load": of(&statistics.load),
        "unsent": statistics.unsent,
        "wrong": named(&wrong(statistics)),
        "asked": named(&asked(statistics)),
        "usage": {
            "total": total,
            "uplink": uplink,
            "downlink": downlink,
            "totalPackets": total_packets,
            "uplinkPackets": uplink_packets,
            "downlinkPackets": downlink_packets,
        },
        "restarts": statistics.restarts,
        "clean": statistics.is_clean(),
    })
}

/// What became of requests.
fn of(requests: &Requests) -> Value {
    let delays = PERCENTILES.into_iter().map(|(name, percent)| {
        (name.to_owned(), json!(requests.percentile(percent).as_nanos() as u64))
    });
    let refused = requests.refused.iter().map(|(cause, number)| (cause.to_string(), json!(number)));
    json!({
        "sent": requests.sent,
        "repeated": requests.repeated,
        "answered": requests.answered,
        "late": requests.late,
        "lost": requests.lost,
        "refused": refused.collect::<Map<_, _>>(),
        "delays": delays.collect::<Map<_, _>>(),
    })
}
