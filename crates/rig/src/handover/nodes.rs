//! The configurations of a gateway and two base stations.

use serde_json::{Value, json};

use super::Scene;

/// Number of the gateway, and of the stations, as the controller knows them.
pub const NUMBERS: [u32; 3] = [1, 2, 3];
/// Their addresses in the network between them; the last octet tells them apart.
pub const ADDRESSES: [[u8; 4]; 3] = [[10, 1, 0, 254], [10, 1, 0, 1], [10, 1, 0, 2]];
/// The first user's address; the others' follow.
pub const FIRST_ADDRESS: [u8; 4] = [10, 45, 0, 0];

/// How long gates wait for End Markers, and a source for the radio to leave, in
/// milliseconds. Neither is ever lost here, and a machine that is busy otherwise may take
/// its time.
const GATE: u32 = 10_000;
const RELEASE: u32 = 20_000;

/// What stations do with each user's packets, beside tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Count and meter.
    Metered,
    /// Count, meter, and compress the headers of downlink packets.
    Compressed,
}

fn mac(node: usize) -> String {
    format!("02:00:00:00:00:{:02x}", node + 1)
}

fn address(node: usize) -> String {
    let [a, b, c, d] = ADDRESSES[node];
    format!("{a}.{b}.{c}.{d}")
}

/// A node's devices.
pub struct Devices {
    /// That towards the other nodes.
    pub network: String,
    /// That towards users or hosts.
    pub outside: String,
}

/// The configuration of node `node` (0 the gateway); JSON is YAML.
pub fn document(node: usize, devices: &Devices, scene: Scene) -> Value {
    let Scene { users, chain, buffers, .. } = scene;
    let [a, b, c, d] = FIRST_ADDRESS;
    let others: Vec<_> = (0..NUMBERS.len()).filter(|other| *other != node).collect();
    let neighbours: serde_json::Map<_, _> =
        others.iter().map(|other| (address(*other), json!(mac(*other)))).collect();
    let network = json!({
        "device": devices.network,
        "direction": if node == 0 { "uplink" } else { "downlink" },
        "descriptors": scene.descriptors(),
        "mac": mac(node),
        "addresses": [format!("{}/24", address(node))],
        "neighbours": neighbours,
    });
    let outside = json!({
        "device": devices.outside,
        "direction": if node == 0 { "downlink" } else { "uplink" },
        "descriptors": scene.descriptors(),
    });
    let mut functions = json!({
        "unwrap": {"function": "gtpu-decapsulate"},
        "wrap": {"function": "gtpu-encapsulate"},
    });
    if node > 0 {
        add_chain(&mut functions, chain);
    }
    let peer = |other: &usize| json!({"node": NUMBERS[*other], "address": address(*other)});
    json!({
        "apiVersion": "weft/v1",
        "kind": "Node",
        "metadata": {"name": if node == 0 { "gateway".to_owned() } else { format!("station-{node}") }},
        "memory": {"packets": buffers},
        "gtpu": {"echoInterval": 0},
        "ports": {"network": network, "outside": outside},
        "functions": functions,
        "users": [{"name": "ue", "count": users, "match": {"ipv4": format!("{a}.{b}.{c}.{d}")}}],
        "rules": rules(node, chain),
        "handover": {
            "node": NUMBERS[node],
            "role": if node == 0 { "anchor" } else { "station" },
            "address": address(node),
            "tunnel": "wrap",
            "users": [{"name": "ue", "first": 0}],
            "peers": others.iter().map(peer).collect::<Vec<_>>(),
            "gates": {"packets": buffers, "bytes": 16 << 20, "allPackets": buffers,
                      "allBytes": 32 << 20, "timeout": GATE},
            "releaseTimeout": RELEASE,
        },
    })
}

fn add_chain(functions: &mut Value, chain: Chain) {
    let meter = json!({"singleRate": {"committedRate": "1 Gbit/s", "committedBurst": "1 MiB"}});
    functions["count"] = json!({"function": "counter"});
    functions["police"] = json!({"function": "marker", "config": {"meter": meter, "drop": "none"}});
    if chain == Chain::Compressed {
        functions["compress"] =
            json!({"function": "ip-header-compressor", "config": {"freshLink": true}});
    }
}

fn rules(node: usize, chain: Chain) -> &'static str {
    match (node, chain) {
        (0, _) => {
            "from outside -> wrap
             from wrap -> network
             from network -> unwrap
             from unwrap -> outside"
        }
        (_, Chain::Metered) => {
            "chain full = count -> police
             from outside -> full
             from network -> unwrap
             from unwrap -> full
             from full when direction == uplink -> wrap
             from full -> outside
             from wrap -> network"
        }
        (_, Chain::Compressed) => {
            "chain full = count -> police
             from outside -> full
             from network -> unwrap
             from unwrap -> full
             from full when direction == uplink -> wrap
             from full -> compress
             from compress -> outside
             from wrap -> network"
        }
    }
}
