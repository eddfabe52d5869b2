//! The configurations of a gateway and of base stations.

use std::path::Path;

pub const GATEWAY: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
memory: {packets: 4095}
gtpu: {echoInterval: 0}
ports:
  ran:
    device: 'ring:ran'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.1.0.254/24]
    neighbours: {10.1.0.1: 02:00:00:00:00:02, 10.1.0.2: 02:00:00:00:00:03}
  core: {device: 'ring:core', direction: downlink}
functions:
  from-station: {function: gtpu-decapsulate}
  to-station: {function: gtpu-encapsulate}
users:
  - {name: ue, count: 20, match: {ipv4: 10.45.0.0}}
rules: |
  from core -> to-station
  from to-station -> ran
  from ran -> from-station
  from from-station -> core
handover:
  node: 1
  role: anchor
  address: 10.1.0.254
  tunnel: to-station
  users: [{name: ue, first: 100}]
  peers: [{node: 2, address: 10.1.0.1}, {node: 3, address: 10.1.0.2}]
";

/// The base station with this number; `FUNCTIONS` and `CHAIN` are put in.
const STATION: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: station-NUMBER}
workers: {count: 2}
memory: {packets: 4095}
gtpu: {echoInterval: 0}
ports:
  radio: {device: 'ring:radio', direction: uplink}
  core:
    device: 'ring:core'
    direction: downlink
    worker: 1
    mac: MAC
    addresses: [OWN/24]
    neighbours: {10.1.0.254: 02:00:00:00:00:01, OTHER: OTHER-MAC}
functions:
  from-anchor: {function: gtpu-decapsulate}
  to-anchor: {function: gtpu-encapsulate}
FUNCTIONS
users:
  - {name: ue, count: 20, match: {ipv4: 10.45.0.0}BEARERS}
rules: |
  chain full = CHAIN
  from radio -> full
  from core -> from-anchor
  from from-anchor -> full
  from full when direction == uplink -> to-anchor
  from full -> radio
  from to-anchor -> core
handover:
  node: NUMBER
  role: station
  address: OWN
  tunnel: to-anchor
  users: [{name: ue, first: 100}]
  peers: [{node: 1, address: 10.1.0.254}, {node: PEER, address: OTHER}]
";

/// What base stations do with packets.
#[derive(Clone, Copy)]
pub struct Chain {
    pub functions: &'static str,
    bearers: &'static str,
    chain: &'static str,
}

/// A count, and packets that are kept as they ask for it.
pub const KEEPING: Chain = Chain {
    functions: "
  count: {function: tally}
  play: {function: mischief}",
    bearers: "",
    chain: "count -> play",
};

/// A meter for a bearer of packets to port 2000, and one for all others.
pub const BEARERS: Chain = Chain {
    functions: "
  count: {function: tally}
  own: {function: marker, config: {scope: bearer}}",
    bearers: ", bearers: [{name: web, when: destination-port == 2000, functions: {own:
      {meter: {singleRate: {committedRate: 1 Mbit/s, committedBurst: 2 kB}}}}}]",
    chain: "count -> own",
};

/// A count and a meter for each bearer, of which the configuration has none.
pub const BEARER_COUNT: Chain = Chain {
    functions: "
  count: {function: tally, config: {scope: bearer}}
  police: {function: marker, config: {scope: bearer}}",
    bearers: "",
    chain: "count -> police",
};

/// No function has anything of a user.
pub const NOTHING: Chain =
    Chain { functions: "  nothing: {function: pass}", bearers: "", chain: "nothing" };

/// The base station whose count is in a process that attaches at this ring, and what
/// becomes of packets while it does not.
pub fn isolated_station(number: u32, ring: &Path, policy: &str) -> String {
    station(number, KEEPING).replace("{function: tally}", &isolated_tally(ring, policy))
}

fn isolated_tally(ring: &Path, policy: &str) -> String {
    format!(
        "{{function: tally, composition: process, process: {{start: elsewhere, heartbeat: 20000, \
         checkpoint: 0, onFailure: {policy}, socket: {}}}}}",
        ring.display()
    )
}

/// The gateway, with a count of both directions in a process.
pub fn isolated_gateway(ring: &Path) -> String {
    let count = format!("functions:\n  count: {}", isolated_tally(ring, "drop"));
    GATEWAY
        .replace("functions:", &count)
        .replace("from core -> to-station", "from core -> count\n  from count when direction == uplink -> core\n  from count -> to-station")
        .replace("from from-station -> core", "from from-station -> count")
}

/// The node with tunnels over IPv6.
pub fn over_ipv6(yaml: &str) -> String {
    [(254, "fe"), (1, "1"), (2, "2")].iter().fold(yaml.to_owned(), |text, (node, six)| {
        text.replace(&format!("10.1.0.{node}/24"), &format!("'2001:db8::{six}/64'"))
            .replace(&format!("10.1.0.{node}"), &format!("'2001:db8::{six}'"))
    })
}

/// The node with gates that hold all that comes while messages are lost.
pub fn wide(yaml: &str) -> String {
    format!("{yaml}  gates: {{packets: 4000, allPackets: 4000}}\n")
}

pub fn station(number: u32, chain: Chain) -> String {
    let (own, other) = (format!("10.1.0.{}", number - 1), format!("10.1.0.{}", 4 - number));
    STATION
        .replace("FUNCTIONS", chain.functions)
        .replace("BEARERS", chain.bearers)
        .replace("CHAIN", chain.chain)
        .replace("OTHER-MAC", &format!("02:00:00:00:00:0{}", 5 - number))
        .replace("MAC", &format!("02:00:00:00:00:0{number}"))
        .replace("OTHER", &other)
        .replace("OWN", &own)
        .replace("PEER", &(5 - number).to_string())
        .replace("NUMBER", &number.to_string())
}
