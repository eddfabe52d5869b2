use serde_json::{Value, json};
use weft_wire::{Protocol, icmpv4, icmpv6, ipv4, ipv6};

use crate::kind;
use crate::testing::{NETWORK, Rig, Seen, Spec};

const ROUTES: &str = "\
10.0.0.0/8 dev a
10.1.0.0/16 via 192.0.2.2 dev b
10.2.0.0/16
  nexthop dev a
  nexthop via 192.0.2.2 dev b weight 3
blackhole 10.3.0.0/16
unreachable 10.4.0.0/16
prohibit 10.5.0.0/16
10.6.0.0/16 dev wire
2001:db8::/32 dev a
2001:db8:1::/48 dev wire
";

fn config() -> Value {
    json!({
        "nextHops": [
            { "name": "a", "device": "a" },
            { "name": "b", "via": "192.0.2.2" },
            {
                "name": "wire", "device": "wire",
                "mac": "02:00:00:00:00:0b", "source": "02:00:00:00:00:0a"
            }
        ],
        "routes": ROUTES,
        "addresses": ["192.0.2.254", "2001:db8:ffff::1"]
    })
}

fn rig() -> Rig {
    Rig::new(kind("route").expect("it is there"), config()).expect("a valid configuration")
}

fn to(destination: &str) -> Spec {
    let source = if destination.contains(':') { "2001:db8:5::5" } else { "198.51.100.5" };
    Spec::udp(b"payload").between(source, destination)
}

/// The next hop of a packet, or why it is dropped.
fn chosen(rig: &Rig, seen: &Seen) -> Result<u32, &'static str> {
    seen.dropped.map_or_else(|| Ok(rig.tag("next-hop", &seen.metadata)), Err)
}

#[test]
fn the_longest_prefix_decides() {
    let mut rig = rig();
    let cases = [
        ("10.9.9.9", Ok(1)),
        ("10.1.0.9", Ok(2)),
        ("10.3.0.9", Err("route_blackhole")),
        ("10.4.0.9", Err("route_unreachable")),
        ("10.5.0.9", Err("route_prohibited")),
        ("10.6.0.9", Ok(3)),
        ("11.0.0.1", Err("route_none")),
        ("2001:db8:2::1", Ok(1)),
        ("2001:db8:1::1", Ok(3)),
        ("2001:db9::1", Err("route_none")),
    ];
    for (destination, expected) in cases {
        let seen = rig.send(&to(destination));
        assert_eq!(chosen(&rig, &seen), expected, "{destination}");
    }
}

/// The packets of a flow keep their way, and flows share ways by weight.
#[test]
fn flows_share_equal_routes() {
    let mut rig = rig();
    let mut counts = [0; 3];
    for flow in 0..2000_u16 {
        let spec = Spec { source_port: flow, ..to("10.2.0.9") };
        let seen = rig.send(&spec);
        let hop = chosen(&rig, &seen).expect("a next hop");
        counts[hop as usize] += 1;
        let seen = rig.send(&Spec { payload: b"more".to_vec(), ..spec });
        assert_eq!(chosen(&rig, &seen), Ok(hop));
    }
    assert_eq!(counts[0], 0);
    assert!((450..550).contains(&counts[1]), "{counts:?}");
}

#[test]
fn all_fragments_of_a_datagram_go_one_way() {
    let mut rig = rig();
    for port in 0..64 {
        let whole = Spec { source_port: port, payload: vec![0; 64], ..to("10.2.0.9") };
        let parts = [(0..24, true), (24..72, false)];
        let hops = parts.map(|part| {
            let seen = rig.send(&Spec { fragment: Some(part), ..whole.clone() });
            chosen(&rig, &seen)
        });
        assert_eq!(hops[0], hops[1]);
    }
}

#[test]
fn a_wire_gets_addresses_and_one_hop_less() {
    let mut rig = rig();
    let spec = to("10.6.0.1");
    let before = spec.frame();
    let seen = rig.send(&spec);
    assert_eq!(seen.bytes[..12], [2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a]);
    let ip = ipv4::Packet::new_checked(&seen.bytes[NETWORK..]).expect("IPv4");
    assert_eq!(ip.time_to_live() + 1, before[NETWORK + 8]);
    assert_eq!(ip.verify_checksum(), Ok(()));
    // Where the port routes, nothing of the packet changes.
    let spec = to("10.1.0.1");
    assert_eq!(rig.send(&spec).bytes, spec.frame());
}

fn with_hops(rig: &mut Rig, spec: &Spec, hops: u8) -> Seen {
    let mut frame = spec.frame();
    let metadata = crate::testing::metadata(&frame);
    match spec.source.is_ipv4() {
        true => {
            let mut ip = ipv4::Packet::new_checked(&mut frame[NETWORK..]).expect("IPv4");
            ip.set_time_to_live(hops);
            ip.fill_checksum();
        }
        false => frame[NETWORK + 7] = hops,
    }
    rig.send_bytes(&frame, metadata)
}

#[test]
fn senders_are_told_why() {
    let mut rig = rig();
    let cases = [("11.0.0.1", (3, 0)), ("10.4.0.1", (3, 1)), ("10.5.0.1", (3, 13))];
    for (destination, kind) in cases {
        let spec = to(destination);
        let seen = rig.send(&spec);
        let ip = ipv4::Packet::new_checked(&seen.sent[0][NETWORK..]).expect("IPv4");
        assert_eq!(
            (ip.source().to_string(), ip.destination()),
            ("192.0.2.254".into(), [198, 51, 100, 5].into())
        );
        assert_eq!(ip.verify_checksum(), Ok(()));
        let message = icmpv4::Message::new_checked(ip.payload()).expect("ICMP");
        assert_eq!((message.message_type().0, message.code()), kind);
        assert_eq!(message.verify_checksum(), Ok(()));
        assert_eq!(message.payload(), &spec.frame()[NETWORK..]);
    }
    let seen = with_hops(&mut rig, &to("10.6.0.1"), 1);
    assert_eq!(seen.dropped, Some("route_ttl_exceeded"));
    assert_eq!(seen.sent[0][NETWORK + 20..NETWORK + 22], [11, 0]);
    let seen = with_hops(&mut rig, &to("2001:db8:1::1"), 1);
    let ip = ipv6::Packet::new_checked(&seen.sent[0][NETWORK..]).expect("IPv6");
    let message = icmpv6::Message::new_checked(ip.payload()).expect("ICMPv6");
    assert_eq!((message.message_type(), message.code()), (icmpv6::Type::TIME_EXCEEDED, 0));
    assert_eq!(message.verify_checksum(&ip.pseudo_header()), Ok(()));
    assert_eq!(ip.source().to_string(), "2001:db8:ffff::1");
}

#[test]
fn no_error_is_sent_about_what_must_not_have_one() {
    let mut rig = rig();
    assert!(rig.send(&to("10.3.0.1")).sent.is_empty());
    let later = Spec { fragment: Some((16..72, false)), payload: vec![0; 64], ..to("11.0.0.1") };
    assert!(rig.send(&later).sent.is_empty());
    let from_unspecified = Spec::udp(b"").between("0.0.0.0", "11.0.0.1");
    assert!(rig.send(&from_unspecified).sent.is_empty());
    assert!(rig.send(&to("224.0.0.9")).sent.is_empty());
    // An error without its header reads as type 0, an echo reply; type 3 is an error.
    let mut frame = Spec { protocol: Protocol::ICMP, ..to("11.0.0.1") }.frame();
    let metadata = crate::testing::metadata(&frame);
    assert_eq!(rig.send_bytes(&frame, metadata).sent.len(), 1);
    frame[NETWORK + 20] = 3;
    assert!(rig.send_bytes(&frame, metadata).sent.is_empty());
}

#[test]
fn errors_are_bounded() {
    let mut rig = rig();
    let mut send = |now| {
        rig.now = now;
        (0..200).filter(|_| !rig.send(&to("11.0.0.1")).sent.is_empty()).count()
    };
    assert_eq!(send(0), 50);
    assert_eq!(send(100_000_000), 10);
}

#[test]
fn mistakes_are_named() {
    let error = |change: fn(&mut Value)| {
        let mut config = config();
        change(&mut config);
        Rig::new(kind("route").expect("it is there"), config).err().expect("a mistake")
    };
    let found = error(|config| config["routes"] = "10.0.0.0/8 dev a\n10.0.0.0/8 dev c".into());
    assert_eq!(found.path, "routes");
    assert!(found.message.starts_with("line 2:1: no next hop"), "{found}");
    assert_eq!(error(|config| config["nextHops"][1]["name"] = "a".into()).path, "nextHops.1.name");
    let found = error(|config| config["nextHops"][1]["mac"] = "02:00:00:00:00:01".into());
    assert_eq!(found.path, "nextHops.1");
    let found = error(|config| config["file"] = "routes.txt".into());
    assert!(found.message.contains("in one of them"));
    let found = error(|config| {
        config["file"] = "/nowhere/routes.txt".into();
        config.as_object_mut().expect("a mapping").remove("routes");
    });
    assert!(found.path == "file" && found.message.starts_with("/nowhere/routes.txt: "), "{found}");
    let found = error(|config| config["addresses"] = json!(["10.0.0.1", "10.0.0.2"]));
    assert_eq!(found.path, "addresses");
}

/// The file changes while packets flow; a mistake in it changes nothing.
#[test]
fn routes_follow_their_file() {
    let path = std::env::temp_dir().join(format!("weft-routes-{}", std::process::id()));
    let write = |text: &str| std::fs::write(&path, text).expect("a file");
    let mut config = config();
    config.as_object_mut().expect("a mapping").remove("routes");
    config["file"] = path.to_str().expect("a path").into();
    write("10.0.0.0/8 dev a\n");
    let mut rig = Rig::new(kind("route").expect("it is there"), config).expect("a file of routes");
    let mut hop = || {
        let seen = rig.send(&to("10.1.0.1"));
        chosen(&rig, &seen)
    };
    assert_eq!(hop(), Ok(1));
    let mut comes_to_be = |expected, routes: &str| {
        write(routes);
        let mut is = || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            hop() == expected
        };
        assert!((0..300).any(|_| is()), "the routes never became {routes}");
    };
    comes_to_be(Ok(2), "10.0.0.0/8 dev a\n10.1.0.0/16 via 192.0.2.2\n");
    write("10.1.0.0/16 via\n");
    let refused = || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        rig.shown(0, "refused") == 1
    };
    assert!((0..300).any(|_| refused()), "the mistake was not found");
    let seen = rig.send(&to("10.1.0.1"));
    assert_eq!(chosen(&rig, &seen), Ok(2));
    std::fs::remove_file(&path).expect("it is there");
}
