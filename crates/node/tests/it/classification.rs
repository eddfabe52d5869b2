//! The tables of the classifier, and the scan that they are compared with, find
//! the same users.

use std::cell::RefCell;

use crate::common::{Rig, udp};
use proptest::prelude::*;
use weft_dpdk::Batch;
use weft_node::show::Snapshot;

/// Users of few addresses, so that packets meet many kinds of keys.
const USERS: &str = "
  - {name: a, count: 3, match: {ipv4: 10.0.0.1}}
  - {name: flow, match: {flow: {protocol: udp, source: 10.0.0.2, sourcePort: 1000,
                                destination: 10.1.0.1, destinationPort: 2000}}}
  - {name: six, count: 2, match: {ipv6: '2001:db8::/64'}}
  - {name: six-host, match: {ipv6: '2001:db8:0:2::7'}}
  - {name: session, count: 2, match: {session: {port: access, id: 5}}}
  - {name: vlan, match: {vlan: {port: access, id: 7}}}
  - {name: other, match: {port: core}}
";

fn rig(classification: &str) -> Rig {
    Rig::new(&format!(
        "
apiVersion: weft/v1
kind: Node
metadata: {{name: {classification}}}
classification: {classification}
memory: {{packets: 1023}}
ports:
  access: {{device: 'ring:access', direction: uplink, descriptors: 64}}
  core: {{device: 'ring:core', direction: downlink, descriptors: 64}}
functions:
  count: {{function: tally}}
users:{USERS}
rules: |
  from access -> count
  from core -> count
  from count when direction == uplink -> core
  from count -> access
"
    ))
}

/// An Ethernet frame of one of few kinds.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let address = || (prop_oneof![Just(0_u8), Just(1)], 0..5_u8);
    let v4 =
        (address(), address()).prop_map(|((a, b), (c, d))| udp([10, a, 0, b], [10, c, 0, d], b"x"));
    let v6 = (0..3_u8, 6..9_u8, any::<bool>()).prop_map(|(subnet, host, up)| {
        let mut frame = vec![0; 14 + 40];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[20..22].copy_from_slice(&[59, 64]);
        let at = if up { 22 } else { 38 };
        frame[22..26].copy_from_slice(&[0x20, 1, 0xd, 0xb9]);
        frame[38..42].copy_from_slice(&[0x20, 1, 0xd, 0xb9]);
        frame[at..at + 4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        (frame[at + 7], frame[at + 15]) = (subnet, host);
        frame
    });
    // PPP over Ethernet, with no packet in it.
    let session = (4..8_u8).prop_map(|id| {
        let mut frame = vec![0; 60];
        frame[12..22].copy_from_slice(&[0x88, 0x64, 0x11, 0, 0, id, 0, 2, 0, 0x21]);
        frame
    });
    (
        prop_oneof![3 => v4, 3 => v6, 1 => session],
        prop_oneof![3 => Just(None), 1 => (6..9_u8).prop_map(Some)],
    )
        .prop_map(|(mut frame, vlan)| {
            if let Some(id) = vlan {
                frame.splice(12..12, [0x81, 0x00, 0, id]);
            }
            frame
        })
}

fn run(rig: &mut Rig, frames: &[(usize, Vec<u8>)]) -> (Vec<u64>, Snapshot) {
    for (port, frame) in frames {
        rig.send(*port, std::slice::from_ref(frame));
    }
    let mut batch = Batch::new();
    for far in &mut rig.far {
        while far.rx.receive(&mut batch, 32) > 0 {
            batch.clear();
        }
    }
    let users = [
        "a-0",
        "a-1",
        "a-2",
        "flow",
        "six-0",
        "six-1",
        "six-host",
        "session-0",
        "session-1",
        "vlan",
        "other",
    ];
    let counts = users.iter().map(|user| rig.tally(user)).collect();
    (counts, rig.node.agent().snapshot())
}

#[test]
fn tables_and_scan_find_the_same_users() {
    let (tables, scan) = (RefCell::new(rig("table")), RefCell::new(rig("linear")));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let frames = proptest::collection::vec((0..2_usize, frame()), 1..40);
    let same = runner.run(&frames, |frames| {
        let (found, by_tables) = run(&mut tables.borrow_mut(), &frames);
        let (scanned, by_scan) = run(&mut scan.borrow_mut(), &frames);
        prop_assert_eq!(found, scanned);
        prop_assert_eq!(by_tables.drops, by_scan.drops);
        Ok(())
    });
    same.unwrap();
    // Every kind of user was met.
    let (counts, _) = run(&mut tables.borrow_mut(), &[]);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}
