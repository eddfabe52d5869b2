//! Packets through a whole node, on memory ports.

use std::collections::BTreeSet;
use std::sync::mpsc::TryRecvError;

use weft_dataplane::trace::Watch;

use crate::common::{Rig, panic_quietly, payloads, udp};

const TWO_CHAINS: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: two-chains}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  count: {function: tally}
  play: {function: mischief}
users:
  - {name: full, count: 10, match: {ipv4: 10.0.0.1}, chain: full, functions: {count: {start: 100}}}
  - {name: empty, count: 10, match: {ipv4: 10.0.1.1}}
rules: |
  chain full = count -> play
  from access when chain == full -> full
  from access -> core
  from core when chain == full -> full
  from core -> access
  from full when direction == downlink -> access
  from full when colour == red -> drop
  from full -> core
";

fn up(user: u8, payload: &str) -> Vec<u8> {
    udp([10, 0, 0, user], [198, 51, 100, 1], payload.as_bytes())
}

#[test]
fn a_packet_walks_its_chain_and_leaves() {
    let mut rig = Rig::new(TWO_CHAINS);
    rig.send(0, &[up(1, ".0one"), udp([10, 0, 1, 1], [198, 51, 100, 1], b"two")]);
    assert_eq!(payloads(&rig.receive(1)), [".0one", "two"]);
    assert_eq!(rig.tally("full-0"), 101);
    assert_eq!(rig.tally("full-1"), 101);
    let view = rig.node.agent().snapshot();
    assert_eq!((view.received(), view.sent(), view.dropped()), (2, 2, 0));
    assert_eq!(view.functions[0].packets, 1);
}

#[test]
fn packets_of_different_chains_keep_their_order() {
    let mut rig = Rig::new(TWO_CHAINS);
    let frames: Vec<_> = (0..200u8)
        .map(|n| match n % 3 {
            0 => udp([10, 0, 1, 1 + n % 10], [198, 51, 100, 1], format!("{n}").as_bytes()),
            _ => up(1 + n % 10, &format!(".{}{n}", n % 2)),
        })
        .collect();
    rig.send(0, &frames);
    assert_eq!(rig.receive(1), frames);
}

#[test]
fn rules_see_what_functions_write() {
    let mut rig = Rig::new(TWO_CHAINS);
    rig.send(0, &[up(1, ".2red"), up(2, ".1yellow"), up(1, ".0green")]);
    assert_eq!(payloads(&rig.receive(1)), [".1yellow", ".0green"]);
    assert_eq!(rig.drops("rule"), 1);
}

#[test]
fn downlink_packets_find_their_user_by_destination() {
    let mut rig = Rig::new(TWO_CHAINS);
    rig.send(1, &[udp([198, 51, 100, 1], [10, 0, 0, 3], b".0down")]);
    assert_eq!(payloads(&rig.receive(0)), [".0down"]);
    assert_eq!(rig.tally("full-2"), 103);
}

#[test]
fn a_packet_of_no_user_is_dropped_with_a_name() {
    let mut rig = Rig::new(TWO_CHAINS);
    rig.send(0, &[udp([10, 9, 9, 9], [198, 51, 100, 1], b"stranger"), vec![0; 10], vec![0; 60]]);
    assert!(rig.receive(1).is_empty());
    let reasons = ["unknown_user", "ethernet_malformed", "ethertype_unknown"];
    assert_eq!(reasons.map(|reason| rig.drops(reason)), [1, 1, 1]);
}

#[test]
fn functions_drop_keep_release_copy_and_generate_in_order() {
    let mut rig = Rig::new(TWO_CHAINS);
    let orders = ["k0a", "k0b", ".0c", "d0d", "c0e", "g0f", "r0h", ".0i"];
    rig.send(0, &orders.map(|order| up(1, order)));
    // Kept packets go before the one that releases them, in their place.
    let expected = [".0c", "c0e", "c0e", "g0f", "g0f", "k0a", "k0b", "r0h", ".0i"];
    let mut got = payloads(&rig.receive(1));
    let kept: Vec<_> = got.iter().filter(|p| p.starts_with('k')).cloned().collect();
    assert_eq!(kept, ["k0a", "k0b"]);
    got.sort();
    let mut sorted = expected.to_vec();
    sorted.sort_unstable();
    assert_eq!(got, sorted);
    assert_eq!(rig.drops("mischief"), 1);
    // Across bursts.
    rig.send(0, &[up(1, "k0x"), up(2, "k0other")]);
    rig.send(0, &[up(1, "r0y")]);
    assert_eq!(payloads(&rig.receive(1)), ["k0x", "r0y"]);
    // Of an earlier burst, and of this one.
    rig.send(0, &[up(1, "k0first")]);
    rig.send(0, &[up(1, "k0second"), up(1, "k0third"), up(1, "r0last")]);
    assert_eq!(payloads(&rig.receive(1)), ["k0first", "k0second", "k0third", "r0last"]);
}

#[test]
fn a_timer_lets_kept_packets_go() {
    let mut rig = Rig::new(TWO_CHAINS);
    rig.send(0, &[up(1, "k0held"), up(1, "t0armed")]);
    assert_eq!(payloads(&rig.receive(1)), ["t0armed"]);
    rig.advance(2000);
    assert_eq!(payloads(&rig.receive(1)), ["k0held"]);
}

#[test]
fn a_queue_of_kept_packets_is_bounded() {
    let mut rig = Rig::new(TWO_CHAINS);
    let many: Vec<_> = (0..100).map(|n| up(1, &format!("k0{n}"))).collect();
    rig.send(0, &many);
    assert_eq!(rig.drops("kept_full"), 100 - 64);
    // Released in bursts of what fits one.
    rig.send(0, &[up(1, "r0")]);
    let snapshot = rig.node.agent().snapshot();
    let out = rig.receive(1).len() as u64;
    let full = rig.drops("burst_full");
    assert_eq!(out + full, 65, "{:?}", snapshot.drops);
}

#[test]
fn a_panic_costs_one_packet_and_one_context() {
    let mut rig = Rig::new(TWO_CHAINS);
    panic_quietly();
    rig.send(0, &[up(1, ".0a"), up(2, "p0b"), up(3, ".0c")]);
    assert_eq!(payloads(&rig.receive(1)), [".0a", ".0c"]);
    assert_eq!(rig.drops("function_panic"), 1);
    assert_eq!(rig.node.agent().snapshot().panics, 1);
}

#[test]
fn a_context_has_its_settings_again_after_a_panic() {
    let mut rig = Rig::new(TWO_CHAINS);
    panic_quietly();
    rig.send(0, &[up(1, ".0a"), up(2, ".0b"), up(2, "P0c"), up(2, ".0d"), up(1, ".0e")]);
    assert_eq!(payloads(&rig.receive(1)), [".0a", ".0b", ".0d", ".0e"]);
    assert_eq!((rig.tally("full-0"), rig.tally("full-1")), (102, 101));
}

#[test]
fn a_group_has_its_settings_again_after_a_panic() {
    let of_group = TWO_CHAINS
        .replace("{function: tally}", "{function: tally, config: {scope: group}}\ngroups:\n  all: {functions: {count: {start: 50}}}")
        .replace("chain: full, functions: {count: {start: 100}}", "chain: full, group: all")
        .replace("  play: {function: mischief}\n", "")
        .replace("functions:\n", "functions:\n  play: {function: mischief}\n");
    let mut rig = Rig::new(&of_group);
    panic_quietly();
    rig.send(0, &[up(1, ".0a"), up(2, ".0b")]);
    assert_eq!(rig.tally("full-0"), 52);
    rig.send(0, &[up(2, "P0c"), up(1, ".0d")]);
    assert_eq!(payloads(&rig.receive(1)), [".0a", ".0b", ".0d"]);
    // It may be configured before or after the next packet of its users.
    rig.send(0, &[up(1, ".0e")]);
    assert_eq!(rig.tally("full-0"), 51);
}

/// More panics at once than there is room for reports.
#[test]
fn no_context_stays_without_its_settings() {
    let mut rig = Rig::new(&TWO_CHAINS.replace("count: 10", "count: 250"));
    panic_quietly();
    let all: Vec<_> = (1..=250).map(|user| up(user, "P0")).collect();
    for _ in 0..10 {
        for frames in all.chunks(32) {
            rig.offer(0, frames);
            rig.node.workers()[0].poll();
        }
    }
    rig.settle();
    for user in [0, 1, 100, 249] {
        assert_eq!(rig.tally(&format!("full-{user}")), 100 + user);
    }
}

#[test]
fn a_wire_carries_what_its_ends_ask_each_other() {
    let mut rig = Rig::new(
        "
apiVersion: weft/v1
kind: Node
metadata: {name: wire}
ports:
  left: {device: 'ring:left', direction: uplink}
  right: {device: 'ring:right', direction: downlink}
users:
  - {name: all, match: {port: left}}
rules: |
  from left -> right
",
    );
    const ARP: [u8; 2] = [0x08, 0x06];
    let mut question = udp([10, 0, 0, 1], [10, 0, 0, 2], b"");
    question[12..14].copy_from_slice(&ARP);
    rig.send(0, &[question.clone()]);
    assert_eq!(rig.receive(1), [question]);
}

#[test]
fn a_tap_ends_with_its_last_packet() {
    let mut rig = Rig::new(TWO_CHAINS);
    let watch =
        Watch { condition: None, user: None, port: None, point: None, bytes: 0, packets: 2 };
    let watching = rig.node.agent().watch(&watch);
    rig.send(0, &[up(1, ".0one"), up(2, ".0two"), up(3, ".0three")]);
    assert_eq!(rig.receive(1).len(), 3);
    let seen: BTreeSet<_> = watching.sightings.try_iter().map(|one| one.packet).collect();
    assert_eq!(seen.len(), 2);
    // The next burst is one without a tap: its worker has given it back.
    rig.send(0, &[up(1, ".0four")]);
    assert_eq!(rig.receive(1).len(), 1);
    assert!(matches!(watching.sightings.try_recv(), Err(TryRecvError::Disconnected)));
}
