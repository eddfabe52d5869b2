//! Users move between two base stations behind a gateway, with packets in flight: three
//! nodes in this process on memory ports, and a controller's machine.

mod added;
mod frames;
mod isolated;
mod killed;
mod nodes;
mod strangers;
mod upgraded;
mod world;

use std::collections::BTreeMap;

use crate::common::udp;
use frames::{HOST, address, payload};
use nodes::{BEARERS, GATEWAY, KEEPING, NOTHING, station, wide};
use weft_mobility_protocol::User;
use weft_node::mobility::{Radio, RadioError};
use world::{ANCHOR, FIRST, SOURCE, TARGET, World, moves, turn};

#[test]
fn users_move_back_and_forth_with_packets_in_flight() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, KEEPING), &station(3, KEEPING), 12);
    world.keeps = true;
    for to in [TARGET, SOURCE, TARGET, SOURCE, SOURCE, TARGET] {
        world.move_under_traffic(to);
    }
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    for user in world.users.keys().copied().collect::<Vec<_>>() {
        let expected = u64::from(world.users[&user].down.sent + world.users[&user].up.sent);
        assert_eq!(world.tally(TARGET, user), expected, "{user}");
        assert_eq!(world.tally(SOURCE, user), 0, "{user}");
    }
    let moved = 12 * 3;
    assert_eq!(world.counted(SOURCE, "exported"), moved);
    assert_eq!(world.counted(TARGET, "imported"), moved);
    for node in [ANCHOR, SOURCE, TARGET] {
        for timeout in ["uplink_gate_timeout", "downlink_gate_timeout", "release_timeout"] {
            assert_eq!(world.counted(node, timeout), 0, "{timeout} at {node}");
        }
    }
    world.settle();
}

#[test]
fn stations_see_by_themselves_where_radios_are() {
    let _turn = turn();
    let seeing = |number| format!("{}  radio: uplink\n", station(number, KEEPING));
    let mut world = World::new(GATEWAY, &seeing(2), &seeing(3), 12);
    (world.keeps, world.told) = (true, false);
    for to in [TARGET, SOURCE, TARGET, SOURCE, SOURCE, TARGET] {
        world.move_under_traffic(to);
    }
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    assert_eq!(world.counted(TARGET, "imported"), 12 * 3);
    for node in [ANCHOR, SOURCE, TARGET] {
        for timeout in ["uplink_gate_timeout", "downlink_gate_timeout", "release_timeout"] {
            assert_eq!(world.counted(node, timeout), 0, "{timeout} at {node}");
        }
    }
    world.settle();
}

#[test]
fn a_station_is_told_of_radios_of_its_users_only() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, NOTHING), &station(3, NOTHING), 2);
    let mut note = |node, users: &[u64]| {
        let users: Vec<User> = users.iter().copied().map(User).collect();
        world.rigs.get_mut(&node).unwrap().node.agent().note_radios(Radio::Left, &users)
    };
    assert_eq!(note(SOURCE, &[FIRST, FIRST + 19]), Ok(()));
    assert_eq!(note(SOURCE, &[FIRST, FIRST + 20]), Err(RadioError::NoUser(User(FIRST + 20))));
    assert_eq!(note(ANCHOR, &[FIRST]), Err(RadioError::NoStation));
}

#[test]
fn users_with_bearers_and_users_without_anything_move() {
    let _turn = turn();
    for chain in [BEARERS, NOTHING] {
        let mut world = World::new(GATEWAY, &station(2, chain), &station(3, chain), 5);
        for to in [TARGET, SOURCE] {
            world.move_under_traffic(to);
        }
        world.check_all_arrived();
        assert_eq!(world.drops(), BTreeMap::new());
        world.settle();
    }
}

/// FAULTS 58.
#[test]
fn fault_58_nothing_is_lost_when_messages_are() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, KEEPING), &station(3, KEEPING), 8);
    world.keeps = true;
    world.lossy = 100;
    for to in [TARGET, SOURCE, TARGET, SOURCE] {
        world.move_under_traffic(to);
    }
    world.lossy = 0;
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    for user in world.users.keys().copied().collect::<Vec<_>>() {
        let ue = &world.users[&user];
        let (expected, owner) =
            (u64::from(ue.down.sent + ue.up.sent), world.controller.owner(user).unwrap().node);
        assert_eq!(world.tally(owner, user), expected, "{user} at {owner}");
    }
    world.settle();
}

/// `MOVES` says how many.
#[test]
fn random_moves_with_messages_lost_doubled_and_late_lose_nothing() {
    let (moves, _turn) = (moves(300), turn());
    let [source, target] = [2, 3].map(|number| wide(&station(number, KEEPING)));
    let mut world = World::new(&wide(GATEWAY), &source, &target, 16);
    world.keeps = true;
    world.move_with_messages_lost(moves);
    assert!(world.moved >= moves);
    let (mut packets, mut counted) = (0, 0);
    for user in world.users.keys().copied().collect::<Vec<_>>() {
        let ue = &world.users[&user];
        packets += u64::from(ue.down.sent + ue.up.sent);
        let owner = world.controller.owner(user).unwrap().node;
        counted += world.tally(owner, user);
    }
    assert_eq!(counted, packets);
    world.settle();
    println!("{} moves, {packets} packets", world.moved);
}

#[test]
fn a_target_that_cannot_take_a_user_leaves_it_where_it_was() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, KEEPING), &station(3, NOTHING), 4);
    world.keeps = true;
    world.move_under_traffic(TARGET);
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    for user in world.users.keys().copied().collect::<Vec<_>>() {
        assert_eq!(world.controller.owner(user).map(|leg| leg.node), Some(SOURCE));
        let expected = u64::from(world.users[&user].down.sent + world.users[&user].up.sent);
        assert_eq!(world.tally(SOURCE, user), expected, "{user}");
    }
    assert_eq!(world.counted(SOURCE, "resumed"), 4);
    world.settle();
}

/// FAULTS 60.
#[test]
fn fault_60_a_full_gate_drops_and_counts() {
    let _turn = turn();
    let small = |yaml: String| format!("{yaml}  gates: {{packets: 2, bytes: 300}}\n");
    let target = small(station(3, NOTHING));
    let mut world = World::new(&small(GATEWAY.to_owned()), &small(station(2, NOTHING)), &target, 4);
    // The End Markers are late: messages are, so gates are closed for longer.
    for round in 0..200 {
        if round == 5 {
            world.move_all(TARGET);
        }
        for _ in 0..3 {
            world.send_to_all();
        }
        world.round();
    }
    world.rest();
    let drops = world.drops();
    let full: u64 = drops.values().sum();
    assert!(full > 0 && drops.keys().all(|(_, reason)| reason == "gate_full"), "{drops:?}");
    let all = world.users.values();
    let (sent, came) = all.fold((0, 0), |(sent, came), ue| {
        (sent + ue.down.sent + ue.up.sent, came + ue.down.came + ue.up.came)
    });
    assert_eq!(u64::from(sent - came), full);
    world.check_accounts();
    world.settle();
}

#[test]
fn no_user_is_served_before_a_node_owns_it() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, NOTHING), &station(3, NOTHING), 1);
    let stranger = User(FIRST + 7);
    let frame = udp(HOST, address(stranger), &payload(b'.', stranger, 0));
    world.rigs.get_mut(&ANCHOR).unwrap().offer(1, &[frame]);
    let frame = udp(address(stranger), HOST, &payload(b'.', stranger, 0));
    world.rigs.get_mut(&SOURCE).unwrap().offer(0, &[frame]);
    world.rest();
    let expected = [(ANCHOR, "no_owner"), (SOURCE, "no_owner")];
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(node, reason)| ((node, reason.to_owned()), 1)).collect();
    assert_eq!(world.drops(), expected);
}
