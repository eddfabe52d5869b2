//! Floods of what the node itself would answer: its packets, its neighbours and its users
//! are as before. Faults 21 and 22 of the list that the tests of other crates name too.

mod answers;
mod frames;
mod neighbours;

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use weft_node::show::Snapshot;

use crate::common::Rig;

/// A router of two networks, whose next hop beyond is asked for.
const NODE: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: flooded}
memory: {packets: 4095}
limits: {users: 64}
gtpu: {echoInterval: 0}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/16, '2001:db8::fe/64']
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    mtu: 1400
    addresses: [198.51.100.254/24, '2001:db8:ffff::fe/64']
    gateways: [198.51.100.1, '2001:db8:ffff::1']
functions:
  to-radio: {function: gtpu-encapsulate}
users:
  - {name: ue, count: 16, match: {ipv4: 10.0.0.1, ipv6: '2001:db8::1/128'}}
  - name: tunnelled
    match: {ipv4: 10.45.0.1}
    functions: {to-radio: {tunnel: {teid: 1, peer: 198.51.100.9, local: 198.51.100.254}}}
rules: |
  from access -> core
  from core when destination in 10.45.0.0/16 -> to-radio
  from core -> access
  from to-radio -> core
";

const SECOND: u64 = 1_000_000_000;

/// IPv4 and IPv6.
const VERSIONS: [bool; 2] = [false, true];

/// The number of an address of the family.
fn address(is_v6: bool, v4: &str, v6: &str) -> IpAddr {
    if is_v6 { v6.parse().unwrap() } else { v4.parse().unwrap() }
}

/// The `n`th user, from 0.
fn user(is_v6: bool, n: u8) -> IpAddr {
    address(is_v6, &format!("10.0.0.{}", n + 1), &format!("2001:db8::{:x}", n + 1))
}

/// A host far beyond the gateway.
fn host(is_v6: bool) -> IpAddr {
    address(is_v6, "192.0.2.1", "2001:db8:abcd::1")
}

/// The node's address at the access port.
fn access(is_v6: bool) -> IpAddr {
    address(is_v6, "10.0.0.254", "2001:db8::fe")
}

/// Lets the workers work until they rest, and the agent not at all.
fn workers_only(rig: &mut Rig) {
    while rig.node.workers().iter_mut().fold(false, |busy, one| one.poll() | busy) {}
}

fn pass(rig: &Rig, nanoseconds: u64) {
    rig.time.fetch_add(nanoseconds, Ordering::Relaxed);
}

/// Answers what the node has asked of its neighbours at a port, and returns the rest of what
/// came out there.
fn answer_questions(rig: &mut Rig, port: usize) -> Vec<Vec<u8>> {
    let (answers, rest): (Vec<_>, Vec<_>) = rig
        .receive(port)
        .into_iter()
        .map(|frame| frames::answer(&frame).ok_or(frame))
        .partition(|one| one.is_ok());
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    answers.chunks(32).for_each(|some| rig.offer(port, some));
    rest.into_iter().filter_map(Result::err).collect()
}

/// A node that has resolved its gateways.
fn node_with_gateways(yaml: &str) -> Rig {
    let mut rig = Rig::new(yaml);
    for is_v6 in VERSIONS {
        let packet = frames::udp(user(is_v6, 0), host(is_v6), 64, b"first");
        rig.send(0, &[packet]);
        answer_questions(&mut rig, 1);
        rig.settle();
        assert_eq!(rig.receive(1).len(), 1, "the gateway is resolved");
    }
    rig
}

/// That each packet that came is somewhere, by name, once none waits for an address any more.
fn accounted_for(rig: &mut Rig) -> Snapshot {
    for _ in 0..5 {
        rig.advance(SECOND);
        (0..2).for_each(|port| drop(rig.receive(port)));
    }
    let all = rig.node.agent().snapshot();
    assert_eq!(
        all.received() + all.originated + all.emitted + all.fragments,
        all.sent() + all.dropped() + all.local,
        "{all:?}"
    );
    all
}
