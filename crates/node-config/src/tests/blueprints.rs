//! What comes out of a right configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use weft_dataplane::clock::rate_limit::Rate;
use weft_dataplane::command::Punt;
use weft_function::{Direction, TagSlot, TagValues};
use weft_rules::NO_CHAIN;

use super::{NODE, edited, plan};
use crate::{Forwarding, Limits, Memory, Overrules, Polling, UserKey, Workers};

#[test]
fn contexts_are_read_on_demand_where_that_is_said_or_two_cores_are_free() {
    let loading = |key: &str| {
        let text = format!(
            "{{apiVersion: weft/v1, kind: Node, metadata: {{name: n}}, state: {{directory: d{key}}}, \
             ports: {{a: {{device: 'ring:a', direction: downlink}}}}, rules: from a -> a}}"
        );
        plan(&text).state.unwrap().loading
    };
    let of = |key, cores| loading(key).is_on_demand(2, cores);
    assert_eq!((of("", 3), of("", 4), of(", loading: auto", 3)), (false, true, false));
    assert_eq!((of(", loading: first", 64), of(", loading: onDemand", 1)), (false, true));
}

#[test]
fn what_is_left_out_has_its_default() {
    let text = "{apiVersion: weft/v1, kind: Node, metadata: {name: least}, \
                ports: {a: {device: 'ring:a', direction: downlink}}, rules: from a -> a}";
    let blueprint = plan(text);
    let (polling, overrules) = (Polling::Adaptive, Overrules::default());
    let workers =
        Workers { count: 1, cores: None, polling, max_sleep_us: 100, interrupts: true, overrules };
    assert_eq!(blueprint.workers, workers);
    let memory = Memory { packets: 16_383, megabytes: None, huge_pages: true };
    assert_eq!(blueprint.memory, memory);
    assert_eq!(blueprint.forwarding, Forwarding::Compiled);
    let limits = Limits {
        users: 1024,
        groups: 16,
        bearers: 0,
        kept_packets: 64,
        waiting_packets: 64,
        waiting_bytes: 65_536,
        waiting_in_all: 4095,
        delay: None,
        neighbours: 1024,
        local: blueprint.limits.local.clone(),
    };
    assert_eq!(blueprint.limits, limits);
    let (answers, errors) = (Rate { rate: 1000, burst: 200 }, Rate { rate: 100, burst: 50 });
    let rates = [[answers; 6], [errors; 6]].concat();
    assert_eq!(limits.local.rates, *rates);
    assert_eq!((limits.local.answers, limits.local.sources), (511, 1024));
    assert_eq!(limits.local.per_source, Rate { rate: 100, burst: 100 });
    assert_eq!(blueprint.networks, ["default"]);
    let port = &blueprint.ports[0];
    assert_eq!((port.mtu, port.queues, port.descriptors, port.worker), (1500, 1, 1024, 0));
    assert_eq!(port.direction, Direction::Downlink);
    assert!(!port.is_routed());
    assert!(blueprint.users.is_empty() && blueprint.classes().is_empty());
}

#[test]
fn packets_wait_for_an_overloaded_worker_as_long_as_they_may() {
    let limits = plan(&edited("limits: {users: 2000}", "limits: {delay: 2000}")).limits;
    assert_eq!(limits.delay, Some(Duration::from_millis(2)));
}

/// Each key of `limits.local` is about its own kind of packets.
#[test]
fn what_the_node_answers_is_limited_by_kind() {
    for (number, (punt, key)) in Punt::ALL.iter().zip(LOCAL_KEYS).enumerate() {
        let more = format!("limits: {{local: {{{key}: {{rate: 7, burst: 3}}}}}}\n");
        let limits = plan(&edited("limits: {users: 2000}", &more)).limits.local;
        assert_eq!(limits.rates[number], Rate { rate: 7, burst: 3 }, "{key}: {punt:?}");
        assert_eq!(limits.rates.iter().filter(|rate| rate.rate == 7).count(), 1, "{key}");
    }
    let more = "limits: {local: {answers: 64, sources: 1, perSource: {rate: 0, burst: 1}}}";
    let limits = plan(&edited("limits: {users: 2000}", more)).limits.local;
    assert_eq!((limits.answers, limits.sources), (64, 1));
    assert_eq!(limits.per_source, Rate { rate: 0, burst: 1 });
}

/// In the order of what they limit.
const LOCAL_KEYS: [&str; 12] = [
    "neighbourRequests",
    "neighbourAnswers",
    "pings",
    "echoRequests",
    "echoResponses",
    "gtpuMessages",
    "timeExceeded",
    "packetTooBig",
    "hostUnreachable",
    "noRoute",
    "errorIndications",
    "supportedExtensions",
];

#[test]
fn names_are_resolved() {
    let blueprint = plan(NODE);
    assert_eq!(blueprint.name, "gateway");
    assert_eq!(blueprint.workers.cores, Some(vec![1, 2]));
    let access = &blueprint.ports[0];
    assert!(access.is_routed() && !blueprint.ports[1].is_routed());
    assert_eq!(access.gateways, [IpAddr::from(Ipv4Addr::new(10, 1, 0, 254))]);
    assert_eq!(access.neighbours[0].1, [2, 0, 0, 0, 0, 0xfe]);
    assert_eq!(access.proxy, [(IpAddr::from(Ipv4Addr::new(10, 0, 0, 0)), 16)]);
    let functions: Vec<_> =
        blueprint.functions.iter().map(|one| (one.name.as_str(), one.kind.name)).collect();
    assert_eq!(functions, [("count", "counter"), ("police", "marker")]);
    assert_eq!(blueprint.rules.vocabulary().functions()[1].name, "police");

    let user = &blueprint.users[0];
    let keys = [
        UserKey::Ipv4 { network: 0, first: Ipv4Addr::new(10, 0, 0, 1) },
        UserKey::Ipv6 { network: 0, first: "2001:db8::".parse().unwrap(), prefix_len: 64 },
    ];
    assert_eq!(user.keys, keys);
    assert_eq!((user.group, user.bearers), (Some(0), None));
    assert_eq!(user.settings.iter().map(|(function, _)| *function).collect::<Vec<_>>(), [1]);
    assert_eq!(blueprint.users[1].keys, [UserKey::Vlan { port: 0, first: 100 }]);
}

#[test]
fn tags_of_users_follow_from_what_is_given() {
    let blueprint = plan(NODE);
    let slot = |name| blueprint.tags.slot(name).unwrap().index();
    let tags = blueprint.users[0].tags;
    let given =
        (tags[slot("plan")], tags[slot("level")], tags[slot("chain")], tags[slot("colour")]);
    assert_eq!(given, (1, 7, 0, 0));
    assert_eq!(blueprint.users[1].tags[slot("chain")], NO_CHAIN);
    let values: Vec<_> = blueprint.tags.iter().map(|(_, values)| values.clone()).collect();
    assert_eq!(values[TagSlot::CHAIN.index()], TagValues::Named(vec!["full".to_owned()]));
    assert_eq!(values[TagSlot::NETWORK.index()], TagValues::Named(vec!["internet".to_owned()]));
}

#[test]
fn users_of_one_tag_vector_are_one_class() {
    let more = "limits: {users: 2000}\n";
    let text = NODE.replace(more, "").replace(
        "rules: |",
        "  - name: shop\n    match: {vlan: {port: access, id: 200}}\n  \
         - name: home\n    match: {vlan: {port: access, id: 300}}\n    tags: {plan: gold}\nrules: |",
    );
    let blueprint = plan(&text);
    let classes: Vec<usize> = blueprint.users.iter().map(|user| user.class).collect();
    assert_eq!(classes, [0, 1, 1, 2]);
    let vectors: Vec<_> = blueprint.users.iter().map(|user| user.tags).collect();
    assert_eq!(blueprint.classes(), [vectors[0], vectors[1], vectors[3]]);
}

#[test]
fn users_of_two_networks_may_have_one_address() {
    let text = edited(
        "core: {device: ring:core, direction: downlink, network: internet, worker: 1}",
        "core: {device: ring:core, direction: downlink, network: office, worker: 1}",
    );
    let office = "network: office\n      ipv4: 10.0.0.1";
    let blueprint = plan(&text.replace("vlan: {port: access, id: 100}", office));
    assert_eq!(blueprint.networks, ["internet", "office"]);
    let first = Ipv4Addr::new(10, 0, 0, 1);
    assert_eq!(blueprint.users[1].keys, [UserKey::Ipv4 { network: 1, first }]);
    assert_eq!(blueprint.users[1].tags[TagSlot::NETWORK.index()], 1);
}

#[test]
fn flows_and_ports_are_keys() {
    let flow = "network: internet\n      port: core\n      \
                flow: {protocol: udp, source: 10.9.0.1, sourcePort: 5000, \
                destination: 198.51.100.1, destinationPort: 53}";
    let blueprint = plan(&edited("vlan: {port: access, id: 100}", flow));
    let flow = UserKey::Flow {
        network: 0,
        protocol: 17,
        source: Ipv4Addr::new(10, 9, 0, 1).into(),
        source_port: 5000,
        destination: Ipv4Addr::new(198, 51, 100, 1).into(),
        destination_port: 53,
    };
    assert_eq!(blueprint.users[1].keys, [UserKey::Port { port: 1 }, flow]);
}

#[test]
fn teids_are_keys_in_a_network_of_their_own() {
    let text = edited(
        "core: {device: ring:core, direction: downlink, network: internet, worker: 1}",
        "core: {device: ring:core, direction: downlink, network: office, worker: 1}",
    );
    let teid = "network: office\n      ipv4: 10.0.0.1\n      teid: 0x1000\n      \
                teidNetwork: internet";
    let blueprint = plan(&text.replace("vlan: {port: access, id: 100}", teid));
    let ipv4 = UserKey::Ipv4 { network: 1, first: Ipv4Addr::new(10, 0, 0, 1) };
    let teid = UserKey::Teid { network: 0, first: 0x1000 };
    assert_eq!(blueprint.users[1].keys, [ipv4, teid]);
    assert_eq!(teid.nth(5), UserKey::Teid { network: 0, first: 0x1005 });
}

#[test]
fn dedicated_bearers_keep_their_order_and_settings() {
    let text = edited("{scope: user}", "{scope: bearer}").replace(
        "    functions: {police: {rate: 20 Mbit/s}}",
        "    functions: {police: {rate: 20 Mbit/s}}\n    bearers:\n      \
         - {name: voice, when: dscp == ef, functions: {police: {rate: 64 kbit/s}}}\n      \
         - {name: video, when: \"dscp in {af41, af42}\"}",
    );
    let blueprint = plan(&text);
    let bearers = &blueprint.bearer_profiles[blueprint.users[0].bearers.unwrap()];
    let names: Vec<_> = bearers.iter().map(|one| (one.name.as_str(), one.settings.len())).collect();
    assert_eq!(names, [("voice", 1), ("video", 0)]);
    assert_eq!(blueprint.limits.bearers, 2000);
}

#[test]
fn the_nth_user_has_the_nth_key() {
    let ipv4 = UserKey::Ipv4 { network: 0, first: Ipv4Addr::new(10, 0, 0, 255) };
    assert_eq!(ipv4.nth(1), UserKey::Ipv4 { network: 0, first: Ipv4Addr::new(10, 0, 1, 0) });
    let ipv6 = |first: &str, prefix_len| UserKey::Ipv6 {
        network: 0,
        first: first.parse::<Ipv6Addr>().unwrap(),
        prefix_len,
    };
    assert_eq!(ipv6("2001:db8:0:ffff::", 64).nth(2), ipv6("2001:db8:1:1::", 64));
    assert_eq!(ipv6("2001:db8::ffff", 128).nth(2), ipv6("2001:db8::1:1", 128));
    assert_eq!(UserKey::Vlan { port: 1, first: 9 }.nth(3), UserKey::Vlan { port: 1, first: 12 });
    let blueprint = plan(NODE);
    assert_eq!(blueprint.users[0].name_of(12), "ue-12");
    assert_eq!(blueprint.users[1].name_of(0), "office");
}

#[test]
fn what_is_only_probably_wrong_is_a_warning() {
    let text = edited("  from core -> access\n", "  from core -> access\n  chain spare = police\n");
    let warnings = plan(&text).warnings.to_string();
    assert!(warnings.starts_with("node.yaml:47:9: "), "{warnings}");
}

#[test]
fn software_vf_becomes_devices() {
    let nics = "nics: {s: {software: {sockets: /run/s, polling: busy}, virtualFunctions: {a: {mac: \
                02:00:00:00:01:00, rate: 1000}, b: {mac: 02:00:00:00:01:01, rate: 2000}}}}\nports:\n";
    let text = edited("ports:\n", nics).replace("device: ring:access", "device: vf:a").replace(
        "count: {function: counter}",
        "count: {function: counter, composition: vf, vf: {port: core, device: 'vf:b'}}",
    );
    let blueprint = plan(&text);
    let [switch] = &blueprint.switches[..] else { panic!("{:?}", blueprint.switches) };
    assert!(!switch.sleeps && switch.started && switch.functions[1].rate == 2000);
    assert_eq!(Some(&blueprint.ports[0].device), switch.device("a").as_ref());
    let vf = blueprint.functions.iter().find_map(|one| one.process.as_ref()?.vf.as_ref()).unwrap();
    assert_eq!((vf.devices.first(), vf.mac), (switch.device("b").as_ref(), [2, 0, 0, 0, 1, 1]));
}
