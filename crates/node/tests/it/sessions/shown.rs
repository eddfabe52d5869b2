//! A session is a user like any other: it has a name, and is shown, watched and counted under it.

use std::collections::HashSet;

use super::{UPF, Upf, downlink, uplink, usual};
use crate::common::Rig;
use weft_dataplane::trace::{Point, Watch};
use weft_node::bearer::session::SessionId;
use weft_node::usage::Cursor;

/// A user plane whose configuration has a user of its own.
fn with_a_user() -> Upf {
    let user = "users:\n  - {name: own, count: 2, match: {ipv4: 10.99.0.1}}\n";
    let mut rig = Rig::new(&UPF.replace("users:\n", user));
    let events = rig.node.agent().listen_to_sessions();
    Upf { rig, events, told: Vec::new() }
}

fn name(id: u64) -> String {
    SessionId(id).user_name()
}

#[test]
fn sessions_are_listed_behind_the_users_of_the_configuration() {
    let mut upf = with_a_user();
    (1..=3).for_each(|id| upf.establish(id, usual(id as u8)));
    let agent = upf.rig.node.agent();
    assert_eq!(agent.snapshot().users, 5);
    let names = |first, count| -> Vec<String> {
        agent.users(first, count).into_iter().map(|user| user.name).collect()
    };
    let all = names(0, 100);
    assert_eq!(all[..2], ["own-0", "own-1"]);
    let sessions: HashSet<_> = all[2..].iter().cloned().collect();
    assert_eq!(sessions, (1..=3).map(name).collect());
    // Pages have every user once.
    let pages: Vec<_> = (0..6).flat_map(|first| names(first, 1)).collect();
    assert_eq!(pages, all);
    assert_eq!(names(1, 3), all[1..4]);
    assert!(names(5, 10).is_empty() && names(usize::MAX, usize::MAX).is_empty());
    upf.remove(2);
    assert_eq!(upf.rig.node.agent().users(0, 9).len(), 4);
}

#[test]
fn a_session_is_found_by_its_name_seid_address_and_tunnel() {
    let mut upf = with_a_user();
    (1..=2).for_each(|id| upf.establish(id, usual(id as u8)));
    let agent = upf.rig.node.agent();
    let seid = "0000000000000002";
    for text in [&name(2), seid, "10.45.0.2", "0x1002", "teid 4098"] {
        let found = agent.search_users(text, 0, 9);
        assert_eq!(found.len(), 1, "{text}");
        let user = &found[0];
        assert_eq!((&user.name, agent.user_slot(text)), (&name(2), Some(user.slot)), "{text}");
        assert_eq!(user.keys, ["teid 0x00001002%default", "10.45.0.2%default"]);
        assert!(agent.search_users(text, 1, 9).is_empty() && user.contexts.is_empty());
    }
    for text in ["", "session-", "session-2", "10.45.0.3", "0x1003", "2", "0000000000000003"] {
        assert_eq!(agent.user_slot(text), None, "{text}");
    }
    // A user of the configuration is found by its address, and meant by its name alone.
    assert_eq!(agent.search_users("10.99.0.2", 0, 9)[0].name, "own-1");
    assert_eq!(agent.user_slot("10.99.0.2"), None);
    assert!(agent.ways_of_user(&name(2)).unwrap().contains("detect"));
    assert_eq!(agent.bearers_of_user(&name(2)), Some(Vec::new()));
    let slot = agent.user_slot(&name(2)).unwrap();
    let own = agent.user_slot("own-0").unwrap();
    assert_eq!((agent.user_name(slot), agent.user_name(own)), (name(2), "own-0".to_owned()));
    let names = agent.user_names(&[own, slot, slot, 60]);
    assert_eq!(names, [(own, "own-0".to_owned()), (slot, name(2))].into_iter().collect());
}

#[test]
fn what_the_contexts_of_a_session_hold_is_shown() {
    let mut upf = Upf::new();
    upf.establish(7, usual(7));
    upf.rig.send(0, &[uplink(0x1007, [10, 45, 0, 7], b"up")]);
    assert!(upf.rig.node.agent().contexts_of(&name(8)).is_none());
    let (view, answer) = upf.rig.node.agent().contexts_of(&name(7)).unwrap();
    upf.rig.settle();
    let contexts = answer.try_recv().expect("the worker has answered");
    assert_eq!(view.name, name(7));
    let functions: Vec<_> = contexts.iter().map(|(function, _)| &**function).collect();
    assert!(functions.contains(&"detect") && functions.contains(&"count"), "{functions:?}");
}

#[test]
fn only_the_packets_of_a_watched_session_are_seen() {
    let mut upf = Upf::new();
    (1..=2).for_each(|id| upf.establish(id, usual(id as u8)));
    let user = upf.rig.node.agent().user_slot(&name(1));
    let watch =
        Watch { condition: None, user, port: None, point: None, bytes: 2048, packets: u64::MAX };
    let watching = upf.rig.node.agent().watch(&watch);
    upf.rig.settle();
    upf.rig.send(0, &[1, 2].map(|n| uplink(0x1000 + u32::from(n), [10, 45, 0, n], b"up")));
    upf.rig.send(1, &[downlink(2, b"down"), downlink(1, b"down")]);
    let sightings: Vec<_> = watching.sightings.try_iter().collect();
    let left: Vec<_> =
        sightings.iter().filter(|one| matches!(one.point, Point::Leaving(_))).collect();
    assert_eq!(left.len(), 2);
    let agent = upf.rig.node.agent();
    assert!(left.iter().all(|one| agent.user_name(one.metadata.user) == name(1)));
}

#[test]
fn what_sessions_have_used_is_read_in_pieces_behind_other_users() {
    let mut upf = with_a_user();
    (1..=5).for_each(|id| upf.establish(id, usual(id as u8)));
    let (mut cursor, mut seen, mut pieces) = (Some(Cursor::default()), Vec::new(), 0);
    while let Some(from) = cursor {
        let (reading, next) = upf.rig.node.agent().usage("count", from, 2).unwrap();
        upf.rig.settle();
        let counted = reading.wait().unwrap();
        assert!(counted.len() <= 2);
        seen.extend(counted.into_iter().map(|one| (one.user, one.address.unwrap().0.to_string())));
        (cursor, pieces) = (next, pieces + 1);
    }
    assert_eq!((seen.len(), pieces), (7, 4));
    assert_eq!(seen[0], ("own-0".to_owned(), "10.99.0.1".to_owned()));
    let sessions: HashSet<_> = seen[2..].iter().cloned().collect();
    assert_eq!(sessions, (1..=5).map(|id| (name(id), format!("10.45.0.{id}"))).collect());
}
