//! What is reported of what has passed: triggers, quotas, times.

use super::*;

/// A session with one rule that measures all packets to the user.
fn measured(rule: Value) -> Value {
    let mut rule = rule;
    rule["id"] = json!(1);
    json!({
        "pdrs": [{"id": 1, "precedence": 1, "source": "core", "ue": {"ipv4": USER}, "far": 1,
                  "urrs": [1]}],
        "fars": [{"id": 1, "action": "forward", "forward": {"interface": "access"}}],
        "urrs": [rule],
    })
}

const SECOND: u64 = 1_000_000_000;

fn send_at(rig: &mut Rig, seconds: u64) -> Seen {
    rig.now = seconds * SECOND;
    rig.send(&Spec::udp(b"payload").between("192.0.2.7", USER))
}

#[test]
fn time_is_measured_while_packets_pass() {
    let rule = json!({"method": {"duration": true}, "triggers": ["timeThreshold"],
                      "timeThreshold": 30, "inactivity": 10});
    let mut rig = rig(&measured(rule));
    for second in [100, 105, 109, 200, 205] {
        send_at(&mut rig, second);
    }
    // 9 s and the 10 s of inactivity, and 5 s.
    rig.now = 205 * SECOND;
    let answer = ask(&mut rig, &Question::Show);
    assert_eq!(answer.usage[0].duration, 24 * SECOND);
    send_at(&mut rig, 212);
    let due = ask(&mut rig, &Question::Due);
    assert_eq!((due.usage.len(), due.usage[0].duration), (1, 31 * SECOND));
    assert!(due.usage[0].triggers.has(Trigger::TimeThreshold));
}

#[test]
fn a_session_with_the_same_rules_takes_the_state_alone() {
    let mut rules = measured(json!({"method": {"volume": true, "duration": true},
        "triggers": ["volumeThreshold", "periodic"], "volumeThreshold": {"total": 99},
        "period": 50}));
    rules["qers"] = json!([{"id": 1, "maximum": {"downlink": 800_000}}]);
    rules["pdrs"][0]["qers"] = json!([1]);
    let mut source = rig(&rules);
    for second in 1..9 {
        send_at(&mut source, second);
        if second % 3 == 0 {
            ask(&mut source, &Question::Due);
        }
    }
    let mut state = Vec::new();
    source.instance.export_state(0, source.now, &mut state);
    let mut target = rig(&rules);
    // Cut off anywhere it is refused, and leaves the context as it was.
    let before = at_once(target.export(0));
    for end in 0..state.len() {
        assert!(target.instance.import(0, 0, &state[..end]).is_err());
        assert_eq!(at_once(target.export(0)), before);
    }
    target.now = source.now;
    let state = at_once(state);
    target.instance.import(0, target.now, &state).expect("it has the same rules");
    for second in 9..20 {
        assert_eq!(send_at(&mut source, second), send_at(&mut target, second));
        assert_eq!(ask(&mut source, &Question::Due), ask(&mut target, &Question::Due));
    }
    // Another rule of that number measures from 0 on.
    rules["urrs"][0]["created"] = json!(7);
    let mut other = rig(&rules);
    assert!(other.instance.import(0, 0, &state).is_err());
}

#[test]
fn a_period_ends_each_time() {
    let rule = json!({"method": {"volume": true}, "triggers": ["periodic"], "period": 10});
    let mut rig = rig(&measured(rule));
    let mut sum = 0;
    for round in 1..4_u64 {
        send_at(&mut rig, 10 * round - 5);
        assert_eq!(ask(&mut rig, &Question::Due).next, Some(10 * round * SECOND));
        rig.now = 10 * round * SECOND;
        let answer = ask(&mut rig, &Question::Due);
        assert_eq!((answer.usage.len(), answer.next), (1, Some((10 * round + 10) * SECOND)));
        assert_eq!(answer.usage[0].sequence, round as u32 - 1);
        sum += answer.usage[0].volume.downlink_packets;
    }
    assert_eq!(sum, 3);
}

#[test]
fn a_report_leads_to_those_that_are_linked_to_it() {
    let mut rules = measured(json!({"method": {"volume": true}, "triggers": ["volumeThreshold"],
                                    "volumeThreshold": {"total": 1}}));
    rules["urrs"].as_array_mut().expect("a list").extend([
        json!({"id": 2, "method": {"volume": true}, "triggers": ["linked"], "linked": [1]}),
        json!({"id": 3, "method": {"volume": true}, "triggers": ["linked"], "linked": [2]}),
        json!({"id": 4, "method": {"volume": true}, "triggers": ["linked"], "linked": [9]}),
    ]);
    let mut rig = rig(&rules);
    send_at(&mut rig, 1);
    let usage = ask(&mut rig, &Question::Due).usage;
    assert_eq!(usage.iter().map(|one| one.urr).collect::<Vec<_>>(), [UrrId(1), UrrId(2), UrrId(3)]);
    assert!(ask(&mut rig, &Question::Due).usage.is_empty());
}

#[test]
fn a_quota_that_is_not_used_is_given_back() {
    let rule = json!({"method": {"volume": true}, "triggers": ["quotaHoldingTime"],
                      "volumeQuota": {"total": 10_000}, "quotaHolding": 20});
    let mut rig = rig(&measured(rule));
    assert_eq!(send_at(&mut rig, 5).dropped, None);
    assert_eq!(ask(&mut rig, &Question::Due).next, Some(25 * SECOND));
    rig.now = 25 * SECOND;
    let usage = ask(&mut rig, &Question::Due).usage;
    assert!(usage[0].triggers.has(Trigger::QuotaHoldingTime));
    assert_eq!(send_at(&mut rig, 26).dropped, Some("quota_used"));
}

#[test]
fn beyond_a_quota_packets_take_the_action_for_it() {
    let mut rules = measured(json!({"method": {"volume": true}, "volumeQuota": {"total": 1},
                                    "quotaAction": 2}));
    rules["fars"]
        .as_array_mut()
        .expect("a list")
        .push(json!({"id": 2, "action": "forward", "forward": {"interface": "sgi-lan"}}));
    let mut rig = rig(&rules);
    let seen = send_at(&mut rig, 1);
    assert_eq!(rig.tag("interface", &seen.metadata), 1);
    let seen = send_at(&mut rig, 2);
    assert_eq!(
        (rig.tag("interface", &seen.metadata), rig.tag("pdr", &seen.metadata)),
        (3, 0x2_0001)
    );
}

#[test]
fn rules_measure_before_or_after_gates_and_rates() {
    let mut rules = measured(json!({"method": {"volume": true}, "beforeQos": true}));
    rules["urrs"]
        .as_array_mut()
        .expect("a list")
        .push(json!({"id": 2, "method": {"volume": true}}));
    rules["pdrs"][0]["urrs"] = json!([1, 2]);
    rules["pdrs"][0]["qers"] = json!([1]);
    rules["qers"] = json!([{"id": 1, "closed": {"downlink": true}}]);
    let mut rig = rig(&rules);
    assert_eq!(send_at(&mut rig, 1).dropped, Some("gate_closed"));
    let packets: Vec<_> =
        ask(&mut rig, &Question::All).usage.iter().map(|one| one.volume.packets()).collect();
    assert_eq!(packets, [1, 0]);
}

#[test]
fn dropped_packets_are_reported_too() {
    let mut rules = measured(json!({"method": {"volume": true}, "triggers": ["droppedDownlink"],
                                    "droppedPackets": 2}));
    rules["fars"][0] = json!({"id": 1, "action": "drop"});
    let mut rig = rig(&rules);
    send_at(&mut rig, 1);
    assert!(ask(&mut rig, &Question::Due).usage.is_empty());
    assert_eq!(send_at(&mut rig, 2).dropped, Some("far_drop"));
    assert!(ask(&mut rig, &Question::Due).usage[0].triggers.has(Trigger::DroppedDownlink));
}

#[test]
fn usage_before_the_monitoring_time_is_told_apart() {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let later = unix.expect("a clock").as_secs() + 3_600;
    let rule = json!({"method": {"volume": true}, "triggers": ["volumeThreshold"],
                      "volumeThreshold": {"total": 1_000_000}, "monitoringTime": later,
                      "subsequentVolumeThreshold": {"total": 1}});
    let mut rig = rig(&measured(rule));
    send_at(&mut rig, 1);
    let next = ask(&mut rig, &Question::Due).next.expect("the monitoring time");
    assert!((3_590..3_610).contains(&(next / SECOND)), "{next}");
    rig.now = next;
    // The first packet behind it reaches the threshold that holds from then on.
    assert!(ask(&mut rig, &Question::Due).usage.is_empty());
    send_at(&mut rig, next / SECOND + 1);
    let usage = ask(&mut rig, &Question::Due).usage;
    let told: Vec<_> = usage.iter().map(|one| (one.before_monitoring_time, one.sequence)).collect();
    assert_eq!(told, [(true, 0), (false, 1)]);
    assert!(usage.iter().all(|one| one.volume.packets() == 1));
}

#[test]
fn the_first_packet_is_told_though_no_rule_was_looked_at_for_it() {
    let rule = json!({"method": {"volume": true, "duration": true},
                      "triggers": ["volumeThreshold"], "volumeThreshold": {"total": 1_000_000}});
    let (mut source, mut target) = (rig(&measured(rule.clone())), rig(&measured(rule)));
    let times = |rig: &mut Rig, question: &Question| {
        let usage = ask(rig, question).usage.swap_remove(0);
        let of = |time: Option<i64>| time.map(|time| time.cast_unsigned() / SECOND);
        (of(usage.first_packet), of(usage.last_packet), usage.duration / SECOND)
    };
    assert_eq!(times(&mut source, &Question::Show), (None, None, 0));
    send_at(&mut source, 3);
    send_at(&mut source, 5);
    let mut state = Vec::new();
    source.instance.export_state(0, source.now, &mut state);
    target.now = source.now;
    let state = at_once(state);
    target.instance.import(0, target.now, &state).expect("it has the same rules");
    for rig in [&mut source, &mut target] {
        send_at(rig, 8);
        rig.now = 10 * SECOND;
        assert_eq!(times(rig, &Question::All), (Some(3), Some(8), 7));
        // The next report has a first packet of its own.
        send_at(rig, 12);
        rig.now = 13 * SECOND;
        assert_eq!(times(rig, &Question::All), (Some(12), Some(12), 3));
    }
}

/// The state of the session as it was written `away` seconds ago, by the time of day.
fn written_before(rig: &mut Rig, away: u64) -> Vec<u8> {
    let mut state = Vec::new();
    rig.instance.export_state(0, rig.now, &mut state);
    // The time of day stands in front of when the rules came.
    let at = state.len() - 16;
    let (day, _) = state[at..].split_first_chunk_mut().expect("two times");
    *day = (i64::from_le_bytes(*day) - (away * SECOND).cast_signed()).to_le_bytes();
    state
}

/// A node whose clock begins anew has the state of one that died `away` seconds ago.
fn next_life(rules: &Value, before: &mut Rig, away: u64) -> Rig {
    let state = written_before(before, away);
    let mut next = rig(rules);
    next.now = SECOND;
    next.instance.import(0, next.now, &state).expect("it has the same rules");
    next
}

/// Whether a time is after about so many seconds: the machine takes its time, too.
fn is_about(time: Option<u64>, seconds: u64) -> bool {
    time.is_some_and(|time| (seconds * SECOND).abs_diff(time) < 5 * SECOND)
}

#[test]
fn periods_go_on_while_the_node_is_away() {
    let rules = measured(json!({"method": {"volume": true}, "triggers": ["periodic"],
                                "period": 100}));
    let mut before = rig(&rules);
    send_at(&mut before, 30);
    // It comes back before the period ends,
    let mut next = next_life(&rules, &mut before, 50);
    let answer = ask(&mut next, &Question::Due);
    assert!(answer.usage.is_empty());
    assert!(is_about(answer.next, 21), "{answer:?}");
    // or behind it, and behind the one after: once, and then as before.
    let mut next = next_life(&rules, &mut before, 190);
    let answer = ask(&mut next, &Question::Due);
    assert_eq!((answer.usage.len(), answer.usage[0].volume.downlink_packets), (1, 1));
    // The measurement began 220 s ago.
    let length = answer.usage[0].end - answer.usage[0].start;
    assert!(is_about(Some(length.cast_unsigned()), 220), "{answer:?}");
    assert!(is_about(answer.next, 81), "{answer:?}");
    assert!(ask(&mut next, &Question::Due).usage.is_empty());
}

#[test]
fn quotas_are_granted_for_time_without_the_node_as_well() {
    for (key, trigger, since) in [
        ("quotaValidity", Trigger::QuotaValidityTime, 0),
        ("quotaHolding", Trigger::QuotaHoldingTime, 30),
    ] {
        let mut rule = json!({"method": {"volume": true}, "volumeQuota": {"total": 10_000},
                              "triggers": ["quotaHoldingTime", "quotaValidityTime"]});
        rule[key] = json!(300);
        let rules = measured(rule);
        let mut before = rig(&rules);
        send_at(&mut before, 30);
        let mut next = next_life(&rules, &mut before, 70);
        let answer = ask(&mut next, &Question::Due);
        assert!(answer.usage.is_empty() && is_about(answer.next, 201 + since), "{key} {answer:?}");
        let mut next = next_life(&rules, &mut before, 1_000);
        let answer = ask(&mut next, &Question::Due);
        assert!(answer.usage[0].triggers.has(trigger), "{key} {answer:?}");
        assert_eq!(send_at(&mut next, 3).dropped, Some("quota_used"));
    }
}

#[test]
fn the_monitoring_time_comes_while_the_node_is_away() {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let later = unix.expect("a clock").as_secs() + 600;
    let rules = measured(json!({"method": {"volume": true}, "triggers": ["volumeThreshold"],
                                "volumeThreshold": {"total": 1_000_000},
                                "monitoringTime": later,
                                "subsequentVolumeThreshold": {"total": 1}}));
    let mut before = rig(&rules);
    send_at(&mut before, 30);
    let mut next = next_life(&rules, &mut before, 900);
    ask(&mut next, &Question::Due);
    send_at(&mut next, 3);
    let usage = ask(&mut next, &Question::Due).usage;
    let told: Vec<_> = usage.iter().map(|one| one.before_monitoring_time).collect();
    assert_eq!(told, [true, false]);
    assert!(usage.iter().all(|one| one.volume.packets() == 1), "{usage:?}");
}

#[test]
fn time_without_the_node_is_no_time_of_use() {
    for (inactivity, away, then) in [(None, 500, 24), (Some(10), 500, 20), (Some(600), 500, 24)] {
        let mut rule = json!({"method": {"duration": true}});
        rule["inactivity"] = json!(inactivity);
        let rules = measured(rule);
        let mut before = rig(&rules);
        send_at(&mut before, 10);
        send_at(&mut before, 20);
        before.now = 30 * SECOND;
        let mut next = next_life(&rules, &mut before, away);
        next.now += 4 * SECOND;
        let usage = ask(&mut next, &Question::Show).usage.swap_remove(0);
        assert_eq!(usage.duration / SECOND, then, "{inactivity:?}");
        let last = usage.last_packet.expect("a packet");
        assert!(is_about(Some((5 * SECOND.cast_signed() - last).cast_unsigned()), 514));
    }
}

#[test]
fn what_was_reported_behind_a_state_does_not_come_again() {
    let rules = measured(json!({"method": {"volume": true}, "triggers": ["periodic"],
                                "period": 100}));
    let mut before = rig(&rules);
    send_at(&mut before, 90);
    let state = written_before(&mut before, 40);
    // A report at 100 s is not in that state, and the node died at 130 s. The clocks may be apart
    // by half a second.
    let end = -29 * SECOND.cast_signed();
    for (number, early, volume) in [(1, 0, 0), (1, 400_000_000, 0), (0, 0, 1)] {
        let since = Some(end - early);
        let mut next = rig(&rules);
        next.now = SECOND;
        next.instance.import(0, next.now, &state).expect("it has the same rules");
        let told = Question::Reported(vec![(UrrId(1), NextReport { number, since })]);
        ask(&mut next, &told);
        let answer = ask(&mut next, &Question::Due);
        assert_eq!(answer.usage.len() as u64, volume, "{answer:?}");
        assert!(is_about(answer.next, 71), "{answer:?}");
        let shown = ask(&mut next, &Question::Show).usage.swap_remove(0);
        assert_eq!((shown.volume.packets(), shown.sequence), (0, 1));
        assert!(number == 0 || Some(shown.start) == since);
    }
}

#[test]
fn a_state_of_the_release_before_is_read_and_written() {
    let rules = measured(json!({"method": {"volume": true}, "triggers": ["periodic"],
                                "period": 100}));
    let mut before = rig(&rules);
    send_at(&mut before, 30);
    let mut old = Vec::new();
    before.instance.export_as(1, 0, before.now, &mut old);
    assert_eq!(old[..2], 1_u16.to_le_bytes());
    assert_eq!(before.export(0).len(), old.len() + 16);
    let mut next = rig(&rules);
    next.now = SECOND;
    next.instance.import(0, next.now, &old).expect("version 1");
    // How long it was away is not known.
    assert_eq!(ask(&mut next, &Question::Due).next, Some(71 * SECOND));
}

proptest! {
    /// States that others have written: any times are taken or refused, and nothing panics.
    #[test]
    fn any_times_are_taken(words in prop::collection::vec(any::<u64>(), 4..40), then in any::<u64>()) {
        let rules = measured(json!({"method": {"volume": true, "duration": true},
            "triggers": ["periodic", "quotaHoldingTime", "timeThreshold", "stopOfTraffic"],
            "period": 1, "quotaHolding": 1, "timeThreshold": 1, "inactivity": 1,
            "volumeQuota": {"total": 5}}));
        let mut before = rig(&rules);
        send_at(&mut before, 30);
        let state = before.export(0);
        let mut hostile = state.clone();
        hostile[2..10].copy_from_slice(&then.to_le_bytes());
        // The numbers behind the rules' text.
        let first = state.len() - 8 * words.len().min(30);
        for (place, word) in hostile[first..].chunks_exact_mut(8).zip(&words) {
            if word % 3 != 0 {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        let mut next = rig(&rules);
        for now in [0, SECOND] {
            next.now = now;
            if next.instance.import(0, now, &hostile).is_ok() {
                ask(&mut next, &Question::Due);
                send_at(&mut next, 3);
                ask(&mut next, &Question::All);
                next.export(0);
            }
        }
    }
}
