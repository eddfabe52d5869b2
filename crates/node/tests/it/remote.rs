//! Functions at other nodes: three nodes in one process, between memory ports.

use crate::common::apart::{Link, station};
use crate::common::{Rig, udp};
use proptest::prelude::*;

/// A node with one function that is at another: `{remote}` says how.
const ASKS: &str = r#"
apiVersion: weft/v1
kind: Node
metadata: {name: asks}
memory: {packets: 4095}
ports:
  access: {device: "ring:access", direction: uplink}
  core: {device: "ring:core", direction: downlink}
  fabric: {device: "ring:fabric", direction: uplink, mac: "02:00:00:00:00:01", mtu: 1700,
           {addresses}}
functions:
  before: {function: counter}
  mischief: {function: mischief, {remote}}
  count: {function: tally}
users:
  - {name: ue, count: 8, match: {ipv4: 10.1.0.0}}
rules: |
  from access -> before
  from before -> mischief
  from core -> mischief
  from mischief when colour == red -> drop
  from mischief -> count
  from count when direction == uplink -> core
  from count -> access
  from fabric -> drop
"#;

/// A node that has functions for others.
const SERVES: &str = r#"
apiVersion: weft/v1
kind: Node
metadata: {name: serves}
memory: {packets: 4095}
{workers}
ports:
  fabric: {device: "ring:fabric", direction: uplink, mac: "02:00:00:00:00:{node}", mtu: 1700,
           {addresses}}
paths:
  up: {path: 10, index: {index}, direction: uplink, port: fabric, to: "{to}"}
  down: {path: 11, index: {index}, direction: downlink, port: fabric, to: "{to}"}
functions:
  {function}
users:
  - {name: ue, count: 8, match: {ipv4: 10.1.0.0}}
rules: |
  from up -> {chain}
  from down -> {chain}
  from {chain} when direction == uplink -> up
  from {chain} -> down
  from fabric -> drop
"#;

pub const MISCHIEF: &str = "mischief: {function: mischief}";
const TALLY: &str = "count: {function: tally}";

fn asks(remote: &str, addresses: &str) -> String {
    ASKS.replace("{remote}", remote).replace("{addresses}", addresses)
}

pub fn serves(node: u8, index: u8, to: &str, function: &str) -> String {
    SERVES
        .replace("{node}", &format!("{node:02x}"))
        .replace("{index}", &index.to_string())
        .replace("{to}", to)
        .replace("{function}", function)
        .replace("{chain}", function.split(':').next().unwrap())
        .replace("{addresses}", "")
        .replace("{workers}", "")
}

/// A node on a path of several, with packets from another one than it sends them to.
fn serves_between(node: u8, index: u8, ends: [u8; 2], function: &str) -> String {
    let [from, to] = ends.map(|node| format!("02:00:00:00:00:{node:02x}"));
    let to_peer = format!("to: \"{to}\"");
    serves(node, index, &to, function).replace(&to_peer, &format!("{to_peer}, from: \"{from}\""))
}

fn up(user: u8, text: &[u8]) -> Vec<u8> {
    udp([10, 1, 0, user], [198, 51, 100, 1], text)
}

fn down(user: u8, text: &[u8]) -> Vec<u8> {
    udp([198, 51, 100, 1], [10, 1, 0, user], text)
}

const REMOTE: &str = "composition: remote, remote: {path: 10, downlinkPath: 11, port: fabric, \
                      to: \"02:00:00:00:00:02\"";

#[test]
fn a_path_over_three_nodes_returns_to_the_first() {
    let mut asks =
        Rig::new(&asks(&format!("{REMOTE}, from: \"02:00:00:00:00:03\", returnIndex: 253}}"), ""));
    let mut second = Rig::new(&serves_between(2, 255, [1, 3], MISCHIEF));
    let mut third = Rig::new(&serves_between(3, 254, [2, 1], TALLY));
    let mut link = Link::new(&[(station(1), (0, 2)), (station(2), (1, 0)), (station(3), (2, 0))]);
    let mut rigs = [&mut asks, &mut second, &mut third];
    link.settle(&mut rigs);
    let sent = [up(1, b".0 one"), up(2, b".0 two"), up(1, b"d0 drop"), up(3, b".2 red")];
    rigs[0].offer(0, &sent);
    rigs[0].offer(1, &[down(4, b".1 four")]);
    link.settle(&mut rigs);
    assert_eq!(rigs[0].receive(1), sent[..2], "drops {:?}", rigs[0].node.agent().snapshot().drops);
    assert_eq!(rigs[0].receive(0), [down(4, b".1 four")]);
    // The verdict of the far function counts as that of the near one.
    assert_eq!((rigs[0].drops("mischief"), rigs[0].drops("rule")), (1, 1));
    assert_eq!((rigs[0].tally("ue-1"), rigs[2].tally("ue-1")), (1, 1));
    assert_eq!((rigs[0].tally("ue-4"), rigs[2].tally("ue-3")), (1, 1));
    assert_eq!(rigs[0].drops("function_lost"), 0);
}

#[test]
fn metadata_of_type_1_has_room_for_the_ticket() {
    let mut asks = Rig::new(&asks(&format!("{REMOTE}, metadata: 1}}"), ""));
    let mut second = Rig::new(&serves(2, 255, "02:00:00:00:00:01", MISCHIEF));
    let mut link = Link::new(&[(station(1), (0, 2)), (station(2), (1, 0))]);
    let mut rigs = [&mut asks, &mut second];
    link.settle(&mut rigs);
    rigs[0].offer(0, &[up(1, b".0 one"), up(1, b"d0"), up(1, b"c0 copied")]);
    link.settle(&mut rigs);
    let expected = [up(1, b".0 one"), up(1, b"c0 copied"), up(1, b"c0 copied")];
    assert_eq!(rigs[0].receive(1), expected);
    assert_eq!(rigs[0].drops("mischief"), 1);
    assert!(link.frames.iter().all(|frame| frame[16] == 1), "MD type 1");
}

#[test]
fn a_node_that_dies_takes_what_it_has_and_comes_back() {
    for (policy, through) in [("drop", 0), ("bypass", 1), ("hold", 0)] {
        let remote = format!("{REMOTE}, onFailure: {policy}, hold: 4, probe: 10, timeout: 20}}");
        let mut asks = Rig::new(&asks(&remote, ""));
        let mut second = Rig::new(&serves(2, 255, "02:00:00:00:00:01", MISCHIEF));
        let mut link = Link::new(&[(station(1), (0, 2)), (station(2), (1, 0))]);
        let mut rigs = [&mut asks, &mut second];
        link.settle(&mut rigs);
        rigs[0].offer(0, &[up(1, b".0 there")]);
        link.settle(&mut rigs);
        assert_eq!(rigs[0].receive(1).len(), 1);

        link.cut.push(station(2));
        rigs[0].offer(0, &[up(1, b".0 lost")]);
        link.pass(&mut rigs, 23);
        assert_eq!(rigs[0].drops("function_lost"), 1, "its credit is regained");
        link.pass(&mut rigs, 40);
        assert_eq!(path(rigs[0]), ("unreachable".to_owned(), 0, 1));
        rigs[0].offer(0, &[up(1, b".0 while"), up(2, b".0 gone")]);
        link.settle(&mut rigs);
        assert_eq!(rigs[0].receive(1).len(), 2 * through, "{policy}");
        assert_eq!(rigs[0].drops("function_down"), if policy == "drop" { 2 } else { 0 });

        link.cut.clear();
        link.pass(&mut rigs, 25);
        rigs[0].offer(0, &[up(1, b".0 again")]);
        link.settle(&mut rigs);
        let waited = if policy == "hold" { 2 } else { 0 };
        assert_eq!(rigs[0].receive(1).len(), waited + 1, "{policy}");
        assert_eq!(rigs[0].drops("function_lost"), 1);
    }
}

#[test]
fn what_is_away_is_bounded_and_the_entry_drops_the_rest() {
    let mut asks = Rig::new(&asks(&format!("{REMOTE}, probe: 60000, timeout: 60000}}"), ""));
    let mut second = Rig::new(&serves(2, 255, "02:00:00:00:00:01", MISCHIEF));
    let mut link = Link::new(&[(station(1), (0, 2)), (station(2), (1, 0))]);
    let mut rigs = [&mut asks, &mut second];
    link.settle(&mut rigs);
    link.frames.clear();
    let frames: Vec<_> = (0..300).map(|_| up(1, b".0")).collect();
    rigs[0].send(0, &frames);
    assert_eq!(rigs[0].drops("backpressure"), 300 - 256);
    link.settle(&mut rigs);
    assert_eq!(rigs[0].receive(1).len(), 256);
    rigs[0].send(0, &frames[..1]);
    link.settle(&mut rigs);
    assert_eq!(rigs[0].receive(1).len(), 1);
}

/// Fault 56: more comes than the last function of the chain takes, by this factor. What is
/// too much goes at the entry, before any work is done for it.
#[test]
fn fault_56_overload_is_dropped_at_the_entry() {
    for factor in [2, 5, 10] {
        let mut asks = Rig::new(&asks(&format!("{REMOTE}, probe: 60000, timeout: 60000}}"), ""));
        let mut second = Rig::new(&serves(2, 255, "02:00:00:00:00:01", MISCHIEF));
        let mut link = Link::new(&[(station(1), (0, 2)), (station(2), (1, 0))]);
        let mut rigs = [&mut asks, &mut second];
        link.settle(&mut rigs);
        let frames: Vec<_> = (0..factor * 256).map(|_| up(1, b".0")).collect();
        for round in 1..=3 {
            rigs[0].send(0, &frames);
            link.settle(&mut rigs);
            assert_eq!(rigs[0].receive(1).len(), 256, "{factor} times, round {round}");
            let dropped = round * (factor - 1) * 256;
            assert_eq!(rigs[0].drops("backpressure"), dropped, "{factor} times");
            let snapshot = rigs[0].node.agent().snapshot();
            let before = snapshot.functions.iter().find(|one| one.name == "before").unwrap();
            assert_eq!(before.packets, round * 256, "the first function did no work in vain");
            assert_eq!(snapshot.dropped(), dropped, "{:?}", snapshot.drops);
        }
    }
}

/// Sessions of one node, of one after the other, and after a failure: nothing of one tells
/// of another.
#[test]
fn sessions_cannot_be_guessed() {
    let mut seen = std::collections::BTreeSet::new();
    let mut ones = [0; 48];
    const NODES: usize = 40;
    for _ in 0..NODES {
        let mut asks = Rig::new(&asks(&format!("{REMOTE}}}"), ""));
        asks.settle();
        let probe = asks.receive(2).into_iter().next().expect("a probe");
        let session =
            probe[14 + 12 + 2..][..6].iter().fold(0, |all, octet| all << 8 | u64::from(*octet));
        ones.iter_mut().enumerate().for_each(|(bit, count)| *count += session >> bit & 1);
        seen.insert(session);
    }
    assert_eq!(seen.len(), NODES);
    // Each bit is now this, now that: one that never changes comes once in 2³⁹.
    assert!(ones.iter().all(|count| (1..NODES as u64).contains(count)), "{ones:?}");
}

#[test]
fn frames_that_were_not_asked_for_are_strays() {
    let mut asks = Rig::new(&asks(&format!("{REMOTE}}}"), ""));
    let mut second = Rig::new(&serves(2, 255, "02:00:00:00:00:01", MISCHIEF));
    let mut link = Link::new(&[(station(1), (0, 2)), (station(2), (1, 0))]);
    let mut rigs = [&mut asks, &mut second];
    link.settle(&mut rigs);
    link.frames.clear();
    rigs[0].offer(0, &[up(1, b".0 once")]);
    link.settle(&mut rigs);
    assert_eq!(rigs[0].receive(1).len(), 1);
    // Again, from another session, of another user's making, cut off at each octet.
    let back = link.frames.iter().find(|frame| frame[..6] == station(1)).unwrap().clone();
    let mut other = back.clone();
    other[14 + 12 + 3] ^= 1;
    rigs[0].offer(2, &[back.clone(), other]);
    // What is right in each octet, from another station.
    let mut stranger = back.clone();
    stranger[11] = 9;
    rigs[0].offer(2, &[stranger.clone(), stranger]);
    link.settle(&mut rigs);
    assert_eq!(rigs[0].drops("nsh_wrong_peer"), 2);
    for length in 0..back.len() {
        rigs[0].offer(2, &[back[..length].to_vec()]);
        rigs[0].settle();
    }
    link.settle(&mut rigs);
    assert_eq!(rigs[0].receive(1).len(), 0);
    let (state, strays, _) = path(rigs[0]);
    assert_eq!((state.as_str(), strays > 2), ("reachable", true));
}

/// State, strays and failures of the path to the function.
fn path(rig: &mut Rig) -> (String, u64, u64) {
    let functions = rig.node.agent().snapshot().functions;
    let path = functions.into_iter().find_map(|one| one.process).unwrap();
    (path.state, path.strays, path.failures)
}

/// Frames by the port that they came out of.
type Out = [Vec<Vec<u8>>; 2];
/// Packets by reason and by function.
type Counted = Vec<(String, u64)>;

/// The same packets through the same functions, called.
fn called(frames: &[(usize, Vec<u8>)]) -> (Out, Counted) {
    let mut rig = Rig::new(&asks("composition: call", ""));
    for (port, frame) in frames {
        rig.send(*port, std::slice::from_ref(frame));
    }
    ([rig.receive(0), rig.receive(1)], counters(&mut rig))
}

/// What a node has counted that does not depend on how functions are run.
fn counters(rig: &mut Rig) -> Counted {
    let snapshot = rig.node.agent().snapshot();
    let drops = snapshot.drops.iter().map(|drop| (drop.reason.clone(), drop.packets));
    let functions = snapshot.functions.iter().map(|one| (one.name.clone(), one.packets));
    drops.chain(functions).filter(|(_, packets)| *packets > 0).collect()
}

fn frames() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    let order = prop::sample::select(b"....dcgp".to_vec());
    let colour = prop::sample::select(b"0012".to_vec());
    let one = (0..2_usize, 0..10_u8, order, colour, 0..400_usize);
    let one = one.prop_map(|(port, user, order, colour, length)| {
        let mut text = vec![b'x'; length + 2];
        (text[0], text[1]) = (order, colour);
        let frame = if port == 0 { up(user, &text) } else { down(user, &text) };
        (port, frame)
    });
    prop::collection::vec(one, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn remote_gives_the_bytes_and_counters_of_called(
        frames in frames(), fixed: bool, udp: bool, workers in 1..3_usize, fused: bool,
    ) {
        crate::common::panic_quietly();
        let (bytes, counted) = called(&frames);
        let to = if udp { "10.9.0.2" } else { "02:00:00:00:00:02" };
        let from = if udp { "10.9.0.1" } else { "02:00:00:00:00:01" };
        let address = |own: u8, other: u8| match udp {
            true => format!(
                "addresses: [10.9.0.{own}/24], \
                 neighbours: {{10.9.0.{other}: \"02:00:00:00:00:{other:02x}\"}}"
            ),
            false => String::new(),
        };
        // Tags do not come back with MD type 1.
        let metadata = if fixed { 1 } else { 2 };
        let remote = format!(
            "composition: remote, remote: {{path: 10, downlinkPath: 11, port: fabric, \
             to: \"{to}\", metadata: {metadata}}}"
        );
        let mut near = Rig::new(&asks(&remote, &address(1, 2)));
        let serving = serves(2, 255, from, MISCHIEF)
            .replace("mtu: 1700,\n           }", &format!("mtu: 1700, {}}}", address(2, 1)))
            .replace("kind: Node", &format!(
                "kind: Node\nworkers: {{count: {workers}}}\ncomposition: {}",
                if fused { "fused" } else { "call" }
            ));
        let mut far = Rig::new(&serving);
        let mut link = Link::new(&[(station(1), (0, 2)), (station(2), (1, 0))]);
        let mut rigs = [&mut near, &mut far];
        link.settle(&mut rigs);
        for (port, frame) in &frames {
            rigs[0].offer(*port, std::slice::from_ref(frame));
            link.settle(&mut rigs);
        }
        if !fixed {
            prop_assert_eq!([rigs[0].receive(0), rigs[0].receive(1)], bytes);
            prop_assert_eq!(counters(rigs[0]), counted);
        }
        prop_assert_eq!(rigs[0].drops("function_lost"), 0);
        prop_assert_eq!(rigs[0].drops("function_malformed"), 0);
    }
}
