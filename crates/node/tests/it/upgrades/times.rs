//! Times at which something of sessions is due, in a process that takes the node over: its clock
//! is another.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use weft_functions::session::rules::Trigger;

use super::*;

#[test]
fn what_is_due_in_a_second_is_due_in_the_process_that_takes_over() {
    let mut rules = usual(1);
    rules["inactivity"] = json!(100);
    rules["urrs"] = json!([{"id": 1, "method": {"volume": true}, "volumeQuota": {"total": 9999},
                            "triggers": ["quotaValidityTime"], "quotaValidity": 100}]);
    let mut rig = Rig::new(&with_pfcp());
    let changed = rig.node.agent().change_sessions(&[establish(1, rules.clone())]);
    assert_eq!(changed.results, [Ok(())]);
    rig.settle();
    let octets = carry(&mut rig, 1, 1);
    rig.time.fetch_add(99_000_000_000, Ordering::Relaxed);
    rig.settle();
    let keep = vec![Keep::session(SessionId(1), "session", &read(rules), &[1])];
    let control = Control { keep, resumed: false };
    let mut rig = take_over(rig, &with_pfcp(), &KINDS, control, None).unwrap();
    let events = rig.node.agent().listen_to_sessions();
    let (begun, mut is_idle, mut reported) = (Instant::now(), false, Vec::new());
    while !is_idle || reported.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{is_idle} {reported:?}");
        rig.settle();
        for event in events.try_iter() {
            match event {
                SessionEvent::Inactive { .. } => is_idle = true,
                SessionEvent::Usage { usage, .. } => reported.extend(usage),
                event => panic!("{event:?}"),
            }
        }
    }
    assert_eq!(reported.len(), 1);
    assert!(reported[0].triggers.has(Trigger::QuotaValidityTime));
    assert_eq!(reported[0].volume.octets(), octets);
    // It was measured from the beginning on, in the process before.
    assert!(reported[0].end - reported[0].start >= 100_000_000_000);
}
