//! Times at which something is due, over the death of the node. Its clock begins anew with each
//! life; the machine's goes on.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use weft_functions::session::rules::Trigger;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// The usual session with other rules of usage, and a time of inactivity.
fn rules(urr: &Value, inactivity: Option<u32>) -> Value {
    let mut rules = usual(1);
    rules["urrs"] = json!([urr]);
    if let Some(seconds) = inactivity {
        rules["inactivity"] = json!(seconds);
    }
    rules
}

/// A node with the session, in which a packet has passed, writes contexts down after so many
/// seconds.
fn first_life(rules: &Value, seconds: u64) -> (Rig, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(folder.path());
    command(&mut rig, establish(1, rules.clone())).unwrap();
    keep(&mut rig, vec![Keep::session(SessionId(1), "session", &read(rules.clone()), &[1])]);
    assert!(carries(&mut rig, 1));
    wait(&mut rig, seconds);
    checkpoint(&mut rig);
    (rig, folder)
}

/// The same node dies then, and is there again.
fn next_life(rules: &Value, seconds: u64) -> (Rig, tempfile::TempDir) {
    let (rig, folder) = first_life(rules, seconds);
    let left = killed(folder.path());
    drop(rig);
    let rig = restored(left.path());
    assert!(rig.time.load(Ordering::Relaxed) < SECOND, "the clock begins anew");
    (rig, left)
}

fn wait(rig: &mut Rig, seconds: u64) {
    rig.time.fetch_add(seconds * SECOND, Ordering::Relaxed);
    rig.settle();
}

/// What the node tells of the session until then: seconds, and what.
fn told_until(rig: &mut Rig, seconds: u64) -> Vec<(u64, SessionEvent)> {
    let events = rig.node.agent().listen_to_sessions();
    let mut all = Vec::new();
    for second in 0..=seconds {
        rig.settle();
        all.extend(events.try_iter().map(|event| (second, event)));
        wait(rig, 1);
    }
    all
}

/// The only report: when, and what.
fn only(told: Vec<(u64, SessionEvent)>) -> (u64, Usage) {
    let [(second, SessionEvent::Usage { usage, .. })] = &told[..] else { panic!("{told:?}") };
    assert_eq!(usage.len(), 1);
    (*second, usage[0])
}

/// The machine takes its time between two lives.
fn is_about(second: u64, wanted: u64) -> bool {
    (wanted.saturating_sub(20)..=wanted + 2).contains(&second)
}

#[test]
fn a_period_ends_when_it_would_have_ended() {
    let urr = json!({"id": 1, "method": {"volume": true}, "triggers": ["periodic"],
                     "period": 300});
    let (mut rig, _left) = next_life(&rules(&urr, None), 200);
    let (second, usage) = only(told_until(&mut rig, 250));
    assert!(is_about(second, 100), "after {second} s");
    assert_eq!((usage.volume.uplink_octets, usage.sequence), (OCTETS, 0));
    assert_eq!((usage.end - usage.start) / SECOND.cast_signed(), 300);
}

#[test]
fn a_quota_that_is_not_used_is_held_as_long_as_it_would_have_been() {
    for key in ["quotaHolding", "quotaValidity"] {
        let mut urr = json!({"id": 1, "method": {"volume": true}, "volumeQuota": {"total": 9999},
                             "triggers": ["quotaHoldingTime", "quotaValidityTime"]});
        urr[key] = json!(300);
        let (mut rig, _left) = next_life(&rules(&urr, None), 200);
        let (second, usage) = only(told_until(&mut rig, 250));
        assert!(is_about(second, 100), "{key}: after {second} s");
        assert_eq!(usage.volume.uplink_octets, OCTETS);
        assert!(!carries(&mut rig, 1), "{key}");
    }
}

#[test]
fn a_time_of_use_is_reached_without_another_packet() {
    let urr = json!({"id": 1, "method": {"duration": true}, "triggers": ["timeThreshold"],
                     "timeThreshold": 300});
    let (mut rig, _left) = next_life(&rules(&urr, None), 200);
    let (second, usage) = only(told_until(&mut rig, 250));
    assert!((98..=102).contains(&second), "time without the node is none: after {second} s");
    assert!(usage.triggers.has(Trigger::TimeThreshold));
}

#[test]
fn a_user_is_inactive_when_it_would_have_been() {
    let urr = json!({"id": 1, "method": {"volume": true}});
    let (mut rig, _left) = next_life(&rules(&urr, Some(300)), 200);
    let told = told_until(&mut rig, 250);
    let [(second, SessionEvent::Inactive { .. })] = told[..] else { panic!("{told:?}") };
    assert!(is_about(second, 100), "after {second} s");
    // One of which no packet has passed is inactive from when its rules came.
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(folder.path());
    let rules = rules(&urr, Some(300));
    command(&mut rig, establish(1, rules.clone())).unwrap();
    keep(&mut rig, vec![Keep::session(SessionId(1), "session", &read(rules), &[1])]);
    wait(&mut rig, 200);
    checkpoint(&mut rig);
    let left = killed(folder.path());
    drop(rig);
    let told = told_until(&mut restored(left.path()), 250);
    let [(second, SessionEvent::Inactive { .. })] = told[..] else { panic!("{told:?}") };
    assert!(is_about(second, 100), "after {second} s");
}

#[test]
fn a_report_that_was_kept_is_the_beginning_of_the_next() {
    let urr = json!({"id": 1, "method": {"volume": true}, "triggers": ["periodic"],
                     "period": 300});
    let (mut rig, folder) = first_life(&rules(&urr, None), 299);
    // The report comes behind the last checkpoint, and the node dies.
    let events = rig.node.agent().listen_to_sessions();
    wait(&mut rig, 1);
    let (usage, told) = events
        .try_iter()
        .find_map(|event| match event {
            SessionEvent::Usage { usage, told, .. } => Some((usage[0], told)),
            _ => None,
        })
        .expect("the period has ended");
    let next = Some((0, 1));
    let session = SessionId(1);
    // The node's clock has gone ahead of the machine's by the last second.
    let end = usage.end + SECOND.cast_signed();
    let kept = Keep::Reported { session, urr: UrrId(1), next, end };
    keep_reported(&mut rig, vec![kept], told);
    let left = killed(folder.path());
    drop(rig);
    let (second, usage) = only(told_until(&mut restored(left.path()), 500));
    assert!(is_about(second, 301), "after {second} s");
    assert_eq!((usage.volume.uplink_octets, usage.sequence), (0, 1));
    let length = (usage.end - usage.start).cast_unsigned() / SECOND;
    assert!((299..=301).contains(&length), "of {length} s");
}

#[test]
fn a_node_that_has_stood_by_tells_on_time() {
    let urr = json!({"id": 1, "method": {"volume": true}, "triggers": ["periodic"],
                     "period": 100});
    let (rig, folder) = first_life(&rules(&urr, None), 97);
    let left = [killed(folder.path()), killed(folder.path())];
    drop(rig);
    let owner = Owner { role: Role::Node, name: "upf".to_owned() };
    let [base, store] = left.each_ref().map(|left| Store::open(left.path(), &owner).unwrap());
    let mut rig = Rig::stood_by(&yaml(), &base, &[], store).unwrap();
    let events = rig.node.agent().listen_to_sessions();
    let begun = std::time::Instant::now();
    let usage = loop {
        rig.settle();
        if let Some(SessionEvent::Usage { usage, .. }) = events.try_iter().next() {
            break usage;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the period does not end");
    };
    assert_eq!((usage.len(), usage[0].volume.uplink_octets), (1, OCTETS));
    assert!(usage[0].end - usage[0].start >= 100 * SECOND.cast_signed());
}
