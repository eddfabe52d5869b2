//! Packets that come while contexts are still being read: those of a user that is not there yet
//! wait, and the user is read next. Nothing that was kept is lost, or counted twice.

use super::*;

/// Users with contexts: more than are read ahead before the agent has its turn.
const USERS: u32 = 12_000;
/// What may wait at the worker.
const IN_ALL: usize = 32;

/// Two functions with a context of each user.
fn many() -> String {
    UPF.replace("users: 64, bearers: 64", "users: 12064, bearers: 64, waitingInAll: 32")
        .replace("  to-radio: {function: g", "  again: {function: tally}\n  to-radio: {function: g")
        .replace("  from from-radio -> count\n", "  from from-radio -> again\n")
        .replace("  from core -> count\n", "  from core -> again\n  from again -> count\n")
}

fn teid(id: u32) -> u32 {
    0x1_0000 + id
}

/// A datagram of that user's, in its tunnel.
fn up(id: u32) -> Vec<u8> {
    let [_, _, high, low] = id.to_be_bytes();
    let inside = udp([10, 46, high, low], HOST, b"up").split_off(14);
    datagram(&message(MessageType::G_PDU, teid(id), Extensions::NONE, &inside))
}

/// The folder of a node whose users have contexts, in which 5 packets of each fifth were counted.
fn left() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(&many(), folder.path()).unwrap();
    for first in (0..USERS).step_by(1000) {
        let add = |id: u32| {
            let [_, _, high, low] = id.to_be_bytes();
            json!({"add": {"id": id, "like": "like", "match":
                {"ipv4": format!("10.46.{high}.{low}"), "teid": teid(id)}}})
        };
        apply(&mut rig, (first..first + 1000).map(add).collect()).unwrap();
    }
    let flow = json!({"protocol": 17, "remote": "198.51.100.1"});
    let voice = json!({"add": {"id": 20_000, "of": USERS - 1, "match": {"flow": flow}}});
    apply(&mut rig, json!([voice])).unwrap();
    for id in (0..USERS).step_by(5).chain([USERS - 1, USERS - 2]) {
        rig.send(0, &vec![up(id); 5]);
        rig.receive(1);
    }
    round(&mut rig).unwrap();
    left_by(folder.path())
}

/// What both contexts of a user say; the first one of the dedicated bearer, where it has any.
fn both(rig: &mut Rig, id: u32) -> (u64, u64) {
    let (_, shown) = rig.node.agent().bearer(BearerId(id.into())).expect("it is there");
    rig.settle();
    let shown = shown.recv().unwrap();
    let of = |name: &str| {
        let found = shown.iter().find(|(known, _)| name == known);
        found.map_or(0, |(_, values)| values[0].1)
    };
    (of("count"), of("again"))
}

/// Lets the worker take what has come in, and not the agent.
fn poll_worker(rig: &mut Rig) {
    for _ in 0..64 {
        rig.node.workers().iter_mut().for_each(|worker| _ = worker.poll());
    }
}

#[test]
fn a_packet_leaves_before_all_contexts_are_there_and_is_counted_once() {
    let left = left();
    let mut rig = resumed(&many(), left.path()).unwrap();
    let last = USERS - 2;
    // Nothing is there yet: it waits, and so do those behind it.
    rig.offer(0, &[up(last), up(last)]);
    poll_worker(&mut rig);
    assert!(rig.receive(1).is_empty() && rig.node.agent().is_loading());
    let mut frames = Vec::new();
    while frames.is_empty() {
        assert!(rig.node.agent().is_loading(), "it has waited for all others");
        rig.node.step();
        frames = rig.receive(1);
    }
    assert_eq!(frames.len(), 2, "in one burst, in order");
    assert!(rig.node.agent().is_loading());
    // The next one passes at once.
    rig.offer(0, &[up(last)]);
    poll_worker(&mut rig);
    assert_eq!(rig.receive(1).len(), 1);
    // A user with a dedicated bearer waits for the contexts of both.
    rig.offer(0, &[up(USERS - 1)]);
    rig.load_all();
    rig.settle();
    assert_eq!(rig.receive(1).len(), 1);
    assert_eq!(both(&mut rig, last), (8, 8), "what its turn has read is older");
    assert_eq!(both(&mut rig, 20_000).0, 6);
    for (id, count) in [(0, 5), (1, 0), (5, 5), (USERS / 2, 5), (USERS - 3, 0)] {
        assert_eq!(both(&mut rig, id), (count, count), "user {id}");
    }
    let snapshot = rig.node.agent().snapshot();
    assert!(snapshot.drops.iter().all(|drop| drop.packets == 0), "{:?}", snapshot.drops);
    let view = rig.node.agent().state_view().unwrap();
    assert!(view.restored_contexts > 2 * u64::from(USERS), "{view:?}");
}

#[test]
fn a_flood_of_users_that_are_not_there_holds_little_and_ends() {
    let left = left();
    let mut rig = resumed(&many(), left.path()).unwrap();
    // Users that there are, and tunnels that there are not.
    let mut sent = 0;
    for round in 0..20 {
        let known = (0..100).map(|nth| up((round * 613 + nth * 7) % USERS));
        let unknown = (0..100).map(|nth| up(30_000 + round * 100 + nth));
        for frames in known.chain(unknown).collect::<Vec<_>>().chunks(32) {
            rig.offer(0, frames);
            poll_worker(&mut rig);
        }
        sent += 100;
    }
    assert!(rig.receive(1).is_empty());
    // A tunnel that there is not is none of the store: it is known for sure.
    assert_eq!(rig.drops("unknown_teid"), sent);
    assert_eq!(rig.drops("not_loaded"), sent - IN_ALL as u64);
    assert_eq!(rig.node.workers()[0].waiting(), IN_ALL);
    rig.load_all();
    rig.settle();
    assert_eq!(rig.receive(1).len(), IN_ALL, "those that have waited leave");
    assert_eq!(rig.node.workers()[0].waiting(), 0);
    // No more than these are read out of turn.
    assert_eq!(rig.drops("unknown_teid") + rig.drops("not_loaded"), 2 * sent - IN_ALL as u64);
    rig.send(0, &[up(3), up(30_001)]);
    assert_eq!(rig.receive(1).len(), 1);
    assert_eq!(rig.drops("unknown_teid"), sent + 1);
}

#[test]
fn a_node_that_ends_while_contexts_are_read_leaves_them_as_they_were() {
    let left = left();
    for steps in [0, 3, 60] {
        let mut rig = resumed(&many(), left.path()).unwrap();
        rig.offer(0, &[up(10)]);
        (0..steps).for_each(|_| _ = rig.node.step());
        rig.node.stop();
    }
    let mut rig = restored(&many(), left.path()).unwrap();
    for id in [0, 5, USERS / 2, USERS - 5] {
        assert_eq!(both(&mut rig, id), (5, 5), "user {id}");
    }
    let (count, again) = both(&mut rig, 10);
    assert!((5..=8).contains(&count) && count == again, "{count} {again}");
}

#[test]
fn what_is_asked_meanwhile_is_answered_once_all_is_there() {
    let left = left();
    let mut rig = resumed(&many(), left.path()).unwrap();
    let (told, tells) = channel();
    let command = json!([{"remove": 5}, {"change": {"id": 6, "action": "drop"}}]);
    let commands: Vec<WrittenCommand> = serde_json::from_value(command).unwrap();
    let order = move |agent: &mut weft_node::Agent| {
        let is_loading = agent.is_loading();
        told.send((is_loading, agent.change_written(&commands).is_ok())).unwrap();
    };
    rig.node.handle().tell(order).unwrap();
    rig.node.step();
    assert!(rig.node.agent().is_loading() && tells.try_recv().is_err());
    // A round of checkpoints that is due has to wait as well: it would write what is not there.
    rig.advance(1_000_000_000);
    rig.load_all();
    rig.settle();
    assert_eq!(tells.try_recv(), Ok((false, true)));
    rig.send(0, &[up(5), up(6), up(7)]);
    assert_eq!(rig.receive(1).len(), 1);
    checkpoint(&mut rig);
    let mut third = restored(&many(), left_by(left.path()).path()).unwrap();
    assert_eq!(both(&mut third, 10), (5, 5));
    assert_eq!(both(&mut third, 7), (1, 1));
    assert!(third.node.agent().bearer(BearerId(5)).is_none());
}

#[test]
fn a_bearer_that_buffers_does_so_behind_its_contexts() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(UPF, folder.path()).unwrap();
    let buffers = json!({"change": {"id": 7, "action": "buffer"}});
    apply(&mut rig, json!([user(7, 1), user(9, 2), buffers])).unwrap();
    rig.send(0, &[uplink(1), uplink(2)]);
    checkpoint(&mut rig);
    let mut again = resumed(UPF, left_by(folder.path()).path()).unwrap();
    again.offer(1, &[downlink(1), downlink(1), downlink(2)]);
    poll_worker(&mut again);
    assert!(again.receive(0).is_empty());
    again.load_all();
    again.settle();
    assert_eq!(again.receive(0).len(), 1);
    apply(&mut again, json!([{"change": {"id": 7, "action": "forward"}}])).unwrap();
    assert_eq!(again.receive(0).len(), 2);
    assert_eq!((counted(&mut again, 7), counted(&mut again, 9)), (3, 2));
}
