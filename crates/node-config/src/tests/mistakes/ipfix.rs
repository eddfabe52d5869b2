//! What is exported by IPFIX.

use std::time::Duration;

use super::super::{edited, plan};
use super::check;
use crate::IpfixTransport;

const END: &str = "limits: {users: 2000}\n";

fn ipfix(keys: &str) -> String {
    format!("{END}ipfix: {{{keys}}}\n")
}

#[test]
fn of_ipfix() {
    let told = |keys: &str, says: &[&str]| check(&[(END, &ipfix(keys), says)]);
    told("usage: [count]", &["48:1: the key `collector` is missing"]);
    told(
        "collector: gateway, usage: [count]",
        &["48:20: `gateway` is not an address with a port (such as 192.0.2.9:4739)"],
    );
    told(
        "collector: '192.0.2.9:0', usage: [count]",
        &["48:20: nothing listens at port 0 (IPFIX has 4739)"],
    );
    told(
        "collector: '192.0.2.9:4739'",
        &["48:1: nothing is exported (name counters under `usage`, or functions of the kind nat \
           under `portBlocks`)"],
    );
    told(
        "collector: '192.0.2.9:4739', usage: [cont, police, count, count], portBlocks: [count]",
        &[
            "48:46: there is no function `cont` (did you mean `count`?)",
            "48:52: `police` is a marker, not a counter",
            "48:67: `count` stands here twice",
            "48:88: `count` is a counter, not a nat",
        ],
    );
    told(
        "collector: '192.0.2.9:4739', usage: [count], interval: 0, messageOctets: 10, \
         templateInterval: 100000, transport: sctp",
        &["48:123: `sctp` is not known here (known here: udp, tcp)"],
    );
    told(
        "collector: '192.0.2.9:4739', usage: [count], interval: 0, messageOctets: 10, \
         templateInterval: 100000",
        &[
            "48:64: 0 is not within 1..86400",
            "48:82: 10 is not within 320..65000",
            "48:104: 100000 is not within 1..86400",
        ],
    );
}

#[test]
fn what_is_exported_has_its_defaults() {
    let text = edited(END, &ipfix("collector: '[2001:db8::9]:4739', usage: [count]"));
    let ipfix = plan(&text).ipfix.expect("it is there");
    assert_eq!(ipfix.collector, "[2001:db8::9]:4739".parse().unwrap());
    assert_eq!((ipfix.transport, ipfix.domain), (IpfixTransport::Udp, 1));
    assert_eq!((ipfix.interval, ipfix.message_octets), (Duration::from_secs(60), 464));
    assert_eq!((ipfix.usage, ipfix.users_move), (vec!["count".to_owned()], false));
    assert_eq!(plan(super::super::NODE).ipfix, None);
}
