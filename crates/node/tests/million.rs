//! A million bearers: what they take of memory, and that each is found.

#[path = "it/common/mod.rs"]
mod common;

use common::{Rig, udp};

/// Bytes that a bearer may take, with its TEID, address, record, settings, and
/// the contexts of a counter and a marker.
const BYTES: usize = 512;

const BEARERS: usize = 1_000_000;

const NODE: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: million}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  packets: {function: counter}
  police:
    function: marker
    config: {meter: {singleRate: {committedRate: 1 Mbit/s, committedBurst: 16 KiB}}}
users:
  - {name: ue, count: 1000000, match: {ipv4: 10.0.0.1, teid: 1}}
rules: |
  chain all = packets -> police
  from access -> all
  from core -> all
  from all when direction == uplink -> core
  from all -> access
";

/// The most that this process has had in memory, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn a_million_bearers_fit_a_gibibyte() {
    common::eal();
    let before = peak();
    let mut rig = Rig::new(NODE);
    let first = udp([10, 0, 0, 1], [192, 0, 2, 1], b"first");
    let last = udp([10, 15, 66, 64], [192, 0, 2, 1], b"last");
    let beyond = udp([10, 15, 66, 65], [192, 0, 2, 1], b"beyond");
    rig.send(0, &[first, last, beyond]);
    assert_eq!((rig.receive(1).len(), rig.drops("unknown_user")), (2, 1));
    let all = peak();
    assert!(all < 1 << 30, "{} MB in all", all >> 20);
    let each = (all - before) / BEARERS;
    assert!(each < BYTES, "{each} bytes for each bearer");
    println!("{each} bytes for each bearer, {} MB in all", all >> 20);
}
