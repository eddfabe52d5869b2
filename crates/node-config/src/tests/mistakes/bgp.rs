//! Mistakes in `bgp`, which stands in line 48 and the following.

use std::time::Duration;

use super::super::{edited, plan};
use super::check;

const END: &str = "limits: {users: 2000}\n";

fn bgp(keys: &str) -> String {
    format!("{END}bgp:\n  as: 65010\n  routerId: 192.0.2.1\n{keys}")
}

const PEERS: &str = "  peers: [{address: 192.0.2.254, as: 65000}]\n";
const HOPS: &str = "  nextHops: [10.1.0.1]\n";

#[test]
fn of_bgp() {
    let told = |keys: &str, says: &[&str]| check(&[(END, &bgp(keys), says)]);
    told(
        &format!("{PEERS}{HOPS}"),
        &["48:1: nothing is announced (name `networks`, or pools in `pfcp.interfaces`)"],
    );
    told(
        &format!("{PEERS}  nextHops: [10.1.0.7]\n  networks: [10.45.0.0/16]\n"),
        &["52:14: no port has the address 10.1.0.7"],
    );
    told(
        &format!("{PEERS}{HOPS}  networks: [10.45.0.1/16, 10.46.0.0/16, 10.46.0.0/16]\n"),
        &[
            "53:14: 10.45.0.1/16 is an address within a network (the network is 10.45.0.0/16)",
            "53:42: this network stands here twice",
        ],
    );
    told(
        &format!("{PEERS}{HOPS}  networks: ['2001:db8:45::/48']\n"),
        &["52:3: there is no next hop for 2001:db8:45::/48 (give an address of this family)"],
    );
    told(
        &format!("  peers: []\n{HOPS}  networks: [10.45.0.0/16]\n"),
        &["51:3: there are one to 8 routers"],
    );
    told(
        &format!(
            "  peers: [{{address: 0.0.0.0, as: 0}}, {{address: 192.0.2.254, as: 1}}, \
             {{address: 192.0.2.254, as: 2}}]\n{HOPS}  networks: [10.45.0.0/16]\n  hold: 2\n"
        ),
        &[
            "51:21: this is no address of one machine",
            "51:34: 0 is not within 1..4294967294",
            "51:69: this router stands here twice",
            "54:9: 2 is not within 3..3600",
        ],
    );
}

#[test]
fn what_is_announced_has_its_defaults() {
    let keys = format!("{PEERS}{HOPS}  networks: [10.45.0.0/16]\n");
    let bgp = plan(&edited(END, &bgp(&keys))).bgp.expect("it is there");
    assert_eq!(bgp.peers[0].address, "192.0.2.254:179".parse().unwrap());
    assert_eq!(bgp.hold, Duration::from_secs(9));
    assert_eq!(bgp.restart, Some(Duration::from_secs(30)));
    assert_eq!(plan(super::super::NODE).bgp, None);
}

/// Pools that control planes give addresses from are announced without being named again.
#[test]
fn pools_of_sessions_are_announced() {
    let pfcp = "pfcp:\n  listen: [192.0.2.9]\n  like: ue\n  interfaces:\n    \
                - {interface: core, network: internet, pools: [10.47.0.0/16]}\n";
    let networks = |more: &str| {
        let text = edited(END, &format!("{}{pfcp}", bgp(&format!("{PEERS}{HOPS}{more}"))));
        plan(&text).bgp.unwrap().networks.into_iter().map(|(network, _)| network.to_string())
    };
    assert_eq!(networks("").collect::<Vec<_>>(), ["10.47.0.0"]);
    let named = networks("  pools: false\n  networks: [10.45.0.0/16]\n");
    assert_eq!(named.collect::<Vec<_>>(), ["10.45.0.0"]);
}
