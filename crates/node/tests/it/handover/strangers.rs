//! What others than the nodes send into the tunnels of users that move.

use std::collections::BTreeMap;

use super::frames::{from_stranger, message_at};
use super::nodes::{GATEWAY, NOTHING, over_ipv6, station};
use super::world::{ANCHOR, FIRST, SOURCE, TARGET, World, turn};
use weft_mobility_protocol::NodeId;

const G_PDU: u8 = 255;

fn world(six: bool) -> World {
    let version = |yaml: &str| if six { over_ipv6(yaml) } else { yaml.to_owned() };
    let [source, target] = [2, 3].map(|number| version(&station(number, NOTHING)));
    World::new(&version(GATEWAY), &source, &target, 4)
}

/// Packets that have come to users and to the host.
fn came(world: &World) -> u32 {
    world.users.values().map(|ue| ue.down.came + ue.up.came).sum()
}

fn teid(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[message_at(frame) + 4..][..4].try_into().unwrap())
}

/// Fault 25, in a tunnel of a user that moves: at anchor and station, while it moves and when
/// it has been settled for long.
#[test]
fn fault_25_packets_of_strangers_take_no_part_in_a_move() {
    let _turn = turn();
    for six in [false, true] {
        let mut world = world(six);
        let mut forged = BTreeMap::from([(ANCHOR, 0), (SOURCE, 0), (TARGET, 0)]);
        for to in [TARGET, SOURCE] {
            world.seen = Some(Vec::new());
            world.move_under_traffic(to);
            let seen = world.seen.take().unwrap();
            let packets = seen.iter().filter(|(_, frame)| frame[message_at(frame) + 1] == G_PDU);
            let packets: Vec<_> = packets.collect();
            // The last are of the tunnels that there are now.
            for (node, frame) in packets.iter().rev().take(12) {
                world.deliver(*node, from_stranger(frame));
                *forged.get_mut(node).unwrap() += 1;
            }
            world.rest();
            world.settle();
            let (node, frame) = packets[packets.len() - 1];
            world.deliver(*node, from_stranger(frame));
            *forged.get_mut(node).unwrap() += 1;
        }
        world.check_all_arrived();
        let expected: BTreeMap<(NodeId, String), u64> = forged
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(node, count)| ((node, "tunnel_wrong_peer".to_owned()), count))
            .collect();
        assert_eq!(world.drops(), expected, "IPv6: {six}");
    }
}

/// Fault 24, as a stranger sends it.
#[test]
fn fault_24_end_markers_of_strangers_open_no_gate() {
    let _turn = turn();
    for six in [false, true] {
        let mut world = world(six);
        world.withheld = Some(Vec::new());
        for round in 0..90 {
            if round == 5 {
                world.move_all(TARGET);
            }
            if round % 3 == 0 && round < 60 {
                world.send_to_all();
            }
            world.round();
        }
        let markers = world.withheld.clone().unwrap();
        assert!(markers.len() >= 4, "one for each user: {}", markers.len());
        let before = came(&world);
        for (to, marker) in &markers {
            world.deliver(*to, from_stranger(marker));
            // From the peer, with the TEID that would be the next user's if they were numbers.
            for next in [1, 1 << 10] {
                let mut guessed = marker.clone();
                let at = message_at(marker) + 4;
                let teid = teid(marker).wrapping_add(next);
                guessed[at..at + 4].copy_from_slice(&teid.to_be_bytes());
                world.deliver(*to, guessed);
            }
        }
        for _ in 0..40 {
            world.round();
        }
        assert_eq!(came(&world), before, "a gate has opened; IPv6: {six}");
        let sent: u32 = world.users.values().map(|ue| ue.down.sent + ue.up.sent).sum();
        assert!(before < sent, "packets wait at gates");
        // The true ones open them.
        world.withheld = None;
        for (to, marker) in markers.iter().cloned() {
            world.deliver(to, marker);
        }
        world.rest();
        world.check_all_arrived();
        for node in [ANCHOR, SOURCE, TARGET] {
            for timeout in ["uplink_gate_timeout", "downlink_gate_timeout", "release_timeout"] {
                assert_eq!(world.counted(node, timeout), 0, "{timeout} at {node}");
            }
        }
        let drops = world.drops();
        let count = |reason: &str| -> u64 {
            drops.iter().filter(|((_, other), _)| other == reason).map(|(_, count)| count).sum()
        };
        let forged = markers.len() as u64;
        assert_eq!((count("tunnel_wrong_peer"), count("stale_epoch")), (forged, 2 * forged));
    }
}

/// What is seen of one user's tunnel tells nothing of another's, nor of the next move's.
#[test]
fn teids_are_no_numbers_of_users() {
    let _turn = turn();
    let mut world = world(false);
    world.seen = Some(Vec::new());
    for to in [TARGET, SOURCE, TARGET] {
        world.move_under_traffic(to);
    }
    let seen = world.seen.take().unwrap();
    let mut teids: Vec<_> = seen.iter().map(|(_, frame)| teid(frame)).collect();
    teids.sort_unstable();
    teids.dedup();
    assert!(teids.len() > 20, "{teids:x?}");
    let near = teids.windows(2).filter(|pair| pair[1] - pair[0] <= 1 << 10).count();
    assert!(near < 3, "{teids:x?}");
    let users = FIRST as u32..FIRST as u32 + 4;
    let plain = |teid: &&u32| users.contains(&(**teid >> 10 & 0xf_ffff));
    assert!(teids.iter().filter(plain).count() < 3, "{teids:x?}");
}
