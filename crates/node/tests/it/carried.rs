//! A function goes to another node and comes back while packets come: two nodes in one
//! process, between memory ports, and a carrier that this test plays.

use crate::common::apart::{Link, copy_contexts, station};
use crate::common::{Rig, udp};
use weft_node::contexts::NotCarried;
use weft_node::{NotComposed, Wanted};

/// The node that has a tally which may go to the other one.
const NEAR: &str = r#"
apiVersion: weft/v1
kind: Node
metadata: {name: near}
workers: {count: 2}
memory: {packets: 4095}
limits: {users: 64, bearers: 64}
groups: {acme: {}}
ports:
  access: {device: "ring:access", direction: uplink}
  core: {device: "ring:core", direction: downlink}
  fabric: {device: "ring:fabric", direction: uplink, mac: "02:00:00:00:00:01", mtu: 1700}
functions:
  count: {function: tally, config: {scope: SCOPE}, {how}
          remote: {path: 10, downlinkPath: 11, port: fabric, to: "02:00:00:00:00:02"}}
users:
  - {name: ue, count: 8, group: acme, match: {ipv4: 10.1.0.0},
     bearers: [{name: video, when: destination-port == 9}]}
rules: |
  from access -> count
  from core -> count
  from count when direction == uplink -> core
  from count -> access
  from fabric -> drop
"#;

/// The other one.
const FAR: &str = r#"
apiVersion: weft/v1
kind: Node
metadata: {name: far}
memory: {packets: 4095}
groups: {acme: {}}
ports:
  fabric: {device: "ring:fabric", direction: uplink, mac: "02:00:00:00:00:02", mtu: 1700}
paths:
  up: {path: 10, index: 255, direction: uplink, port: fabric, to: "02:00:00:00:00:01"}
  down: {path: 11, index: 255, direction: downlink, port: fabric, to: "02:00:00:00:00:01"}
functions:
  count: {function: tally, config: {scope: SCOPE}}
users:
  - {name: ue, count: 8, group: acme, match: {ipv4: 10.1.0.0},
     bearers: [{name: video, when: destination-port == 9}]}
rules: |
  from up -> count
  from down -> count
  from count when direction == uplink -> up
  from count -> down
  from fabric -> drop
"#;

struct Pair {
    rigs: [Rig; 2],
    link: Link,
    sent: u8,
}

impl Pair {
    fn new(scope: &str, how: &str) -> Pair {
        let near = Rig::new(&NEAR.replace("SCOPE", scope).replace("{how}", how));
        let far = Rig::new(&FAR.replace("SCOPE", scope));
        let link = Link::new(&[(station(1), (0, 2)), (station(2), (1, 0))]);
        let mut pair = Pair { rigs: [near, far], link, sent: 0 };
        pair.settle();
        pair
    }

    fn settle(&mut self) {
        let [near, far] = &mut self.rigs;
        self.link.settle(&mut [near, far]);
    }

    /// Sends a packet of each of eight users.
    fn send(&mut self) {
        let frames: Vec<_> = (0..8).map(|user| packet(user, self.sent)).collect();
        self.sent += 1;
        self.rigs[0].offer(0, &frames);
        self.settle();
    }

    /// All packets have come through since the last look, each user's in order.
    fn all_came(&mut self, from: u8) {
        let mut frames = self.rigs[0].receive(1);
        let expected: Vec<_> =
            (0..8).flat_map(|user| (from..self.sent).map(move |nth| packet(user, nth))).collect();
        // Stable: a user's stay in their order.
        frames.sort_by_key(|frame| frame[29]);
        assert_eq!(frames, expected, "drops {:?}", self.rigs[0].node.agent().snapshot().drops);
    }

    fn near(&mut self) -> &mut weft_node::Agent {
        self.rigs[0].node.agent()
    }

    /// Lets the function's packets wait, until none is on its way.
    fn gate(&mut self, goes: bool) {
        self.near().gate_function("count", goes).unwrap();
        self.settle();
        assert_eq!(self.near().is_gated("count"), Some(true));
    }

    fn carry(&mut self, goes: bool) -> Result<(), NotCarried> {
        let [near, far] = &mut self.rigs;
        let (from, to) = if goes { (near, far) } else { (far, near) };
        copy_contexts(from, to, "count", !goes)
    }

    /// Takes the function there, or back, while packets come.
    fn shift(&mut self, goes: bool) {
        self.gate(goes);
        self.send();
        self.carry(goes).unwrap();
        self.send();
        self.near().release_function("count", Ok(())).unwrap();
        self.settle();
        assert!(self.near().is_settled() && self.near().move_failure().is_none());
    }

    fn composition(&mut self) -> String {
        format!("{:?}", self.near().blueprint().functions[0].composition)
    }

    /// What the tally of a user says at a node.
    fn tally(&mut self, rig: usize, user: &str) -> u64 {
        self.rigs[rig].tally(user)
    }
}

fn packet(user: u8, nth: u8) -> Vec<u8> {
    udp([10, 1, 0, user], [198, 51, 100, 1], &[nth; 20])
}

#[test]
fn a_function_goes_to_another_node_and_comes_back_under_traffic() {
    for how in ["composition: call,", "composition: thread, thread: {stage: one},"] {
        let mut pair = Pair::new("user", how);
        pair.send();
        for round in 0..3_u8 {
            let before = 6 * u64::from(round) + 1;
            pair.shift(true);
            assert_eq!(pair.composition(), "Remote");
            assert_eq!(pair.tally(1, "ue-3"), before + 2, "what waited was counted there");
            pair.send();
            pair.shift(false);
            assert_eq!(pair.composition(), "Call");
            pair.send();
            assert_eq!(pair.tally(0, "ue-3"), before + 6);
        }
        pair.all_came(0);
        assert_eq!(pair.near().snapshot().dropped(), 0);
    }
}

#[test]
fn contexts_of_groups_and_bearers_go_along_by_name() {
    for scope in ["group", "bearer"] {
        let mut pair = Pair::new(scope, "");
        pair.send();
        pair.shift(true);
        pair.shift(false);
        let (of_user, of_group) = (5, 8 * 5);
        let expected = if scope == "group" { of_group } else { of_user };
        assert_eq!(pair.tally(0, "ue-3"), expected, "{scope}");
        let (kind, names) = pair.near().contexts_named("count").unwrap();
        assert_eq!((kind, names.len()), ("tally", if scope == "group" { 1 } else { 16 }));
    }
}

#[test]
fn one_whose_contexts_do_not_arrive_stays_where_it_was() {
    let mut pair = Pair::new("user", "");
    pair.send();
    pair.gate(true);
    pair.send();
    let why = "the other node: it does not like them".to_owned();
    pair.near().release_function("count", Err(why)).unwrap();
    pair.settle();
    let said = pair.near().move_failure().unwrap().to_owned();
    assert_eq!(said, "`count` is called: the other node: it does not like them");
    assert_eq!((pair.composition(), pair.tally(0, "ue-1")), ("Call".to_owned(), 2));

    // On its way back, too.
    pair.shift(true);
    pair.gate(false);
    pair.send();
    pair.near().release_function("count", Err("gone".to_owned())).unwrap();
    pair.settle();
    let said = pair.near().move_failure().unwrap().to_owned();
    assert_eq!(said, "`count` stays at the other node: gone");
    assert_eq!((pair.composition(), pair.tally(1, "ue-1")), ("Remote".to_owned(), 5));
    pair.shift(false);
    assert_eq!(pair.tally(0, "ue-1"), 7);
    pair.all_came(0);
}

#[test]
fn a_carrier_that_says_nothing_has_gone() {
    let mut pair = Pair::new("user", "");
    pair.gate(true);
    pair.send();
    pair.rigs[0].advance(4_900_000_000);
    // The caller is there.
    assert_eq!(pair.near().is_gated("count"), Some(true));
    pair.rigs[0].advance(4_900_000_000);
    assert_eq!(pair.near().is_gated("count"), Some(true));
    pair.rigs[0].advance(5_100_000_000);
    pair.settle();
    let said = pair.near().move_failure().unwrap().to_owned();
    assert_eq!(said, "`count` is called: the node that carried its contexts said nothing for 5 s");
    let late = pair.near().release_function("count", Ok(())).unwrap_err();
    assert!(matches!(late, NotComposed::NotGated(_)), "{late}");
    pair.all_came(0);
}

#[test]
fn what_cannot_be_is_refused_before_anything_waits() {
    let mut pair = Pair::new("user", "");
    let refused = |pair: &mut Pair, function: &str, goes| {
        pair.near().gate_function(function, goes).unwrap_err().to_string()
    };
    assert_eq!(refused(&mut pair, "unknown", true), "there is no function `unknown`");
    assert_eq!(refused(&mut pair, "count", false), "`count` is at this node");
    let wanted =
        Wanted { composition: weft_node_config::Composition::Remote, stage: None, core: None };
    let error = pair.near().compose("count", &wanted).unwrap_err();
    assert!(matches!(error, NotComposed::Carried(_)), "{error}");
    let far = &mut pair.rigs[1];
    let error = far.node.agent().gate_function("count", true).unwrap_err().to_string();
    assert!(error.starts_with("`count` has no other node to go to: write `remote: {"), "{error}");

    // No user there has the name, or the function is another.
    pair.gate(true);
    let reading = pair.near().contexts_named("count").unwrap().1;
    let reading = pair.near().read_contexts("count", &reading).unwrap();
    let mut contexts = reading.wait().unwrap();
    let far = pair.rigs[1].node.agent();
    let error = far.write_contexts("count", "counter", contexts.clone(), false).unwrap_err();
    assert_eq!(error.to_string(), "`count` is a tally here, and was a counter");
    contexts[0].whose = weft_node::contexts::Whose::User("stranger".to_owned());
    let error = far.write_contexts("count", "tally", contexts.clone(), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no user `stranger` here, of whom `count` has a context"
    );
    contexts[1].octets.truncate(3);
    let writing = far.write_contexts("count", "tally", contexts, true).unwrap();
    pair.rigs[1].settle();
    let error = writing.wait().unwrap_err().to_string();
    assert!(error.starts_with("`count` does not take the context: "), "{error}");

    // While it is away, its contexts are not here.
    pair.carry(true).unwrap();
    pair.near().release_function("count", Ok(())).unwrap();
    pair.settle();
    let error = pair.near().read_contexts("count", &[]).unwrap_err();
    assert!(matches!(error, NotCarried::Away(_)), "{error}");
    assert_eq!(refused(&mut pair, "count", true), "`count` is at the other node");
}

#[test]
fn a_path_that_does_not_come_back_leads_nowhere() {
    let mut pair = Pair::new("user", "");
    pair.link.cut.push(station(2));
    let [near, far] = &mut pair.rigs;
    pair.link.pass(&mut [near, far], 500);
    let error = pair.near().gate_function("count", true).unwrap_err();
    assert!(error.passes(), "{error}");
    assert_eq!(error.to_string(), "`count`: its path does not come back; try again");
}
