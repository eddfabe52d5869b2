//! A node that takes part in moves goes over to another process. With packets on the wire that is
//! `tests/end-to-end/handover-traffic.sh`.

use std::sync::atomic::Ordering;

use weft_mobility_protocol::{Incarnation, NodeId, User};

use super::frames::{HOST, payload};
use super::nodes::{GATEWAY, KEEPING, station};
use super::world::{ANCHOR, SECRET, SOURCE, World, turn};
use crate::common::{KINDS, Rig, udp};
use crate::upgrades::take_over_knowing;

/// A node with 4 users that are settled, or have just become so.
fn node(of: NodeId, are_settled: bool) -> Rig {
    let mut world = World::new(GATEWAY, &station(2, KEEPING), &station(3, KEEPING), 4);
    let mut rig = world.rigs.remove(&of).unwrap();
    if are_settled {
        // As long as they keep their gates, and more.
        rig.time.fetch_add(1_000_000_000, Ordering::Relaxed);
        rig.settle();
    }
    rig
}

fn ask(old: Rig, yaml: &str, secret: &[u8]) -> Result<Rig, String> {
    let means = (|| None, |_: &[u8], _| {}, secret.to_vec());
    take_over_knowing(old, yaml, &KINDS, (), means).map_err(|(why, _)| {
        why.strip_suffix("; the node goes on in the other process").unwrap().to_owned()
    })
}

#[test]
fn users_have_the_owner_that_they_had_in_the_same_incarnation() {
    let _turn = turn();
    for (of, yaml, state) in
        [(SOURCE, station(2, KEEPING), "Owning"), (ANCHOR, GATEWAY.to_owned(), "Serving")]
    {
        let mut rig = ask(node(of, true), &yaml, SECRET).unwrap();
        let agent = rig.node.agent();
        let mail = agent.join_handover(Incarnation(99), SECRET).unwrap();
        assert!(agent.join_handover(Incarnation(99), SECRET).is_err());
        let view = agent.handover_view().unwrap();
        assert_eq!((view.users, view.gated), ([(state.to_owned(), 4)].into(), 0));
        assert_eq!(view.incarnation, 7);
        assert!(mail.from_node.try_recv().is_err(), "the controller has nothing to hear");
    }
}

/// The devices here cannot be open in two processes: the old one closes its ports first.
#[test]
fn packets_of_users_go_on_with_their_contexts_where_ports_close_first() {
    let _turn = turn();
    let mut rig = node(SOURCE, true);
    let begun = rig.tally("ue-1");
    let up = udp([10, 45, 0, 1], HOST, &payload(b'.', User(101), 0));
    for life in 1..4 {
        rig.send(0, &[up.clone(), up.clone()]);
        assert_eq!(rig.receive(1).len(), 2, "in life {life}");
        assert_eq!(rig.tally("ue-1"), begun + 2 * life);
        rig = ask(rig, &station(2, KEEPING), SECRET).unwrap();
    }
    assert_eq!(rig.tally("ue-1"), begun + 6);
}

#[test]
fn a_process_that_cannot_have_its_part_in_moves_is_refused() {
    let _turn = turn();
    let own = station(2, KEEPING);
    let why = ask(node(SOURCE, true), &own, b"").err().unwrap();
    assert_eq!(
        why,
        "users move to and from the node, and no controller is given (--handover-controller)"
    );
    let other = own.replace("  node: 2", "  node: 4");
    assert_ne!(own, other);
    let why = ask(node(SOURCE, true), &other, SECRET).err().unwrap();
    assert_eq!(
        why,
        "the node's part in moves of users (`handover`) is node 2, station, the configuration's \
         node 4, station; restart the node"
    );
}

#[test]
fn while_a_user_moves_nothing_is_given_away() {
    let _turn = turn();
    let why = ask(node(SOURCE, false), &station(2, KEEPING), SECRET).err().unwrap();
    assert_eq!(why, "a user moves; try again");
}
