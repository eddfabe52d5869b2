//! Configurations as users write them, right and wrong.

mod blueprints;
mod documents;
mod examples;
mod handover;
mod kinds;
mod mistakes;
mod mutations;
mod schemas;

use super::{Blueprint, read};

/// A node with something of everything. Lines are counted in the tests of
/// mistakes: they change as these do.
const NODE: &str = "\
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
workers: {count: 2, cores: [1, 2]}
ports:
  access:
    device: ring:access
    direction: uplink
    network: internet
    addresses: [10.1.0.1/24, fd00:1::1/64]
    gateways: [10.1.0.254]
    neighbours: {10.1.0.254: 02:00:00:00:00:fe}
    proxy: [10.0.0.0/16]
  core: {device: ring:core, direction: downlink, network: internet, worker: 1}
tags:
  plan: {values: [silver, gold]}
  level: {}
functions:
  count: {function: counter}
  police:
    function: marker
    config: {scope: user}
groups:
  family:
    functions: {}
users:
  - name: ue
    count: 1000
    match: {network: internet, ipv4: 10.0.0.1, ipv6: 2001:db8::/64}
    chain: full
    group: family
    tags: {plan: gold, level: 7}
    functions: {police: {rate: 20 Mbit/s}}
  - name: office
    match:
      vlan: {port: access, id: 100}
rules: |
  chain full = count -> police

  from access when chain == full -> full
  from access -> core
  from full when colour == red -> drop
  from full when direction == uplink -> core
  from full -> access
  from core when chain == full -> full
  from core -> access
limits: {users: 2000}
";

fn plan(text: &str) -> Blueprint {
    read(text, "node.yaml", kinds::ALL).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// [`NODE`] with a part of it replaced, which must be there exactly once.
fn edited(from: &str, to: &str) -> String {
    assert_eq!(NODE.matches(from).count(), 1, "{from:?} must be in NODE once");
    NODE.replace(from, to)
}

/// A text as any reader of YAML sees it.
fn value(text: &str) -> serde_json::Value {
    let source = super::locate::Source::read(text).unwrap();
    serde::Deserialize::deserialize(&source.root).unwrap()
}

/// What is said of a text, one line for each mistake, without the file's name.
fn said(text: &str) -> Vec<String> {
    match read(text, "", kinds::ALL) {
        Ok(_) => Vec::new(),
        Err(mistakes) => {
            mistakes.0.iter().map(|mistake| mistake.to_string()[1..].to_owned()).collect()
        }
    }
}
