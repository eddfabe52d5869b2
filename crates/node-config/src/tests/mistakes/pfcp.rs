//! Mistakes in `pfcp`, which stands in line 48 and the following.

use super::super::{edited, plan, said};
use crate::{PfcpNodeId, PfcpSide};

const SECTION: &str = "\
pfcp:
  listen: [192.0.2.9, 2001:db8::9]
  nodeId: upf.example
  like: ue
  interfaces:
    - {interface: access, network: internet, addresses: [10.1.0.1, fd00:1::1]}
    - {interface: core, networkInstance: n6, network: internet, pools: [10.45.0.0/16]}
  chains:
    - {networkInstance: n6, chain: full}
";

fn with(from: &str, to: &str) -> String {
    assert_eq!(SECTION.matches(from).count(), 1, "{from:?} must be there once");
    let section = SECTION.replace(from, to);
    edited("limits: {users: 2000}\n", &format!("limits: {{users: 2000}}\n{section}"))
}

#[test]
fn the_section_is_read() {
    let plan = plan(&with("like: ue", "like: ue")).pfcp.unwrap();
    assert_eq!(plan.node_id, PfcpNodeId::Name("upf.example".to_owned()));
    assert_eq!((plan.port, plan.sessions), (8805, 2000));
    assert_eq!(plan.interfaces[1].side, PfcpSide::Core);
    assert_eq!(plan.interfaces[1].pools.len(), 1);
}

#[test]
fn addresses_of_flags_come_before_those_of_the_file_and_of_the_next_one() {
    let flags: Vec<std::net::IpAddr> = vec!["10.9.8.7".parse().unwrap()];
    let mut named = plan(&with("like: ue", "like: ue"));
    named.pfcp.as_mut().unwrap().overrule_listen(&flags);
    assert_eq!(named.pfcp.unwrap().node_id, PfcpNodeId::Name("upf.example".to_owned()));
    let mut running = plan(&with("  nodeId: upf.example\n", ""));
    let before = running.pfcp.clone().unwrap();
    assert_eq!(before.node_id, PfcpNodeId::Address(before.listen[0]));
    running.pfcp.as_mut().unwrap().overrule_listen(&flags);
    let mut next = plan(&with("  nodeId: upf.example\n", ""));
    next.keep_overrules(&running);
    assert_eq!(next.pfcp, running.pfcp);
    let pfcp = next.pfcp.unwrap();
    assert_eq!((&pfcp.listen, pfcp.node_id), (&flags, PfcpNodeId::Address(flags[0])));
}

#[test]
fn each_mistake_is_named() {
    for (from, to, says) in [
        (
            "[192.0.2.9, 2001:db8::9]",
            "[0.0.0.0]",
            "49:12: this is no address of one machine (responses come from the address that \
             requests go to: name it)",
        ),
        ("2001:db8::9]", "192.0.2.10]", "49:23: there is an address of this family already"),
        ("upf.example", "up_f..", "50:11: \"up_f..\" is neither an address nor a domain name"),
        ("like: ue", "like: eu", "51:9: no users are called `eu` (did you mean `ue`?)"),
        ("[10.1.0.1, fd", "[10.1.0.7, fd", "53:58: no port has the address 10.1.0.7"),
        (
            "n6, network: internet",
            "n6, network: internat",
            "54:55: no port is in a network `internat` (did you mean `internet`?)",
        ),
        (
            "n6, chain: full",
            "n6, chain: fall",
            "56:36: there is no chain `fall` (did you mean `full`?)",
        ),
    ] {
        assert_eq!(said(&with(from, to)), [says], "for {to:?}");
    }
}
