use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_wire::ip::traffic_class;
use weft_wire::{Dscp, Ecn, Protocol, ethernet, ipv4, ipv6};

use super::bindings::Bindings;
use super::config::{PortSets, Softwire, Table};
use crate::kind;
use crate::testing::{NETWORK, Rig, Seen, Spec, metadata};

const AFTR: &str = "2001:db8:ffff::1";
const SERVER: &str = "198.51.100.7";

fn b4(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(number))
}

fn table(prefix: &str, psid_length: u8, psid_offset: u8, softwires: Vec<Softwire>) -> Table {
    let addresses = serde_json::from_value(json!(prefix)).expect("a prefix");
    Table { port_sets: vec![PortSets { addresses, psid_length, psid_offset }], softwires }
}

fn lwaftr(more: Value) -> Rig {
    let mut config = json!({
        "address": AFTR,
        "ipv4Address": "198.51.100.1",
        "bindings": {
            "portSets": [{ "addresses": "192.0.2.0/24", "psidLength": 6 }],
            "softwires": [
                { "ipv4": "192.0.2.1", "psid": 3, "b4": b4(3) },
                { "ipv4": "192.0.2.1", "psid": 4, "b4": b4(4) },
            ],
        },
    });
    for (key, value) in more.as_object().expect("keys") {
        config[key] = value.clone();
    }
    Rig::new(kind("lwaftr").expect("it is there"), config).expect("a valid configuration")
}

/// IPv4 from a softwire, with these congestion notifications.
fn tunnelled(from: Ipv6Addr, spec: &Spec, outer: Ecn, inner: Ecn) -> Vec<u8> {
    let mut ip = spec.frame()[NETWORK..].to_vec();
    let mut packet = ipv4::Packet::new_checked(&mut ip[..]).expect("IPv4");
    packet.set_ecn(inner);
    packet.fill_checksum();
    let repr = ipv6::Repr {
        source: from,
        destination: AFTR.parse().expect("an address"),
        next_header: Protocol::IPV4,
        payload_length: ip.len() as u16,
        ecn: outer,
        ..ipv6::Repr::default()
    };
    let mut frame = spec.frame()[..NETWORK].to_vec();
    frame[12..].copy_from_slice(&[0x86, 0xdd]);
    frame.resize(NETWORK + ipv6::HEADER_LENGTH, 0);
    repr.emit(&mut frame[ethernet::HEADER_LENGTH..]).expect("room");
    frame.extend(ip);
    frame
}

fn up(rig: &mut Rig, frame: &[u8]) -> Seen {
    let mut metadata = metadata(frame);
    metadata.tags[0] = 0;
    rig.send_bytes(frame, metadata)
}

fn down(rig: &mut Rig, spec: &Spec) -> Seen {
    rig.send_as(spec, |metadata| metadata.tags[0] = 1)
}

/// From the softwire of PSID 3.
fn ours() -> Spec {
    Spec { source_port: 3 << 10 | 5, ..Spec::udp(b"hello").between("192.0.2.1", SERVER) }
}

fn theirs(port: u16) -> Spec {
    let spec = Spec::udp(b"world").between(SERVER, "192.0.2.1");
    Spec { destination_port: port, ..spec }
}

#[test]
fn packets_go_into_softwires_and_come_out_as_they_were() {
    let mut rig = lwaftr(json!({}));
    let spec = theirs(3 << 10);
    let seen = down(&mut rig, &spec);
    let outer = ipv6::Packet::new_checked(&seen.bytes[NETWORK..]).expect("IPv6");
    assert_eq!((outer.source().to_string(), outer.destination()), (AFTR.into(), b4(3)));
    assert_eq!(outer.next_header(), Protocol::IPV4);
    let mut inner = spec.frame()[NETWORK..].to_vec();
    ipv4::Packet::new_checked(&mut inner[..]).expect("IPv4").decrement_time_to_live();
    assert_eq!(outer.payload(), inner);
    assert_eq!(seen.metadata, {
        let mut parsed = metadata(&seen.bytes);
        parsed.tags = seen.metadata.tags;
        parsed
    });
    let frame = tunnelled(b4(3), &ours(), Ecn::NotEct, Ecn::NotEct);
    let seen = up(&mut rig, &frame);
    assert_eq!((seen.dropped, &seen.bytes[..]), (None, &ours().frame()[..]));
    assert_eq!(seen.metadata, metadata(&ours().frame()));
    // Another's port, and one that no softwire has.
    let seen = up(&mut rig, &tunnelled(b4(4), &ours(), Ecn::NotEct, Ecn::NotEct));
    assert_eq!((seen.dropped, seen.sent.len()), (Some("lwaftr_refused"), 1));
    let seen = down(&mut rig, &theirs(80));
    assert_eq!((seen.dropped, seen.sent.len()), (Some("lwaftr_no_softwire"), 1));
}

/// RFC 6040 §4.2, figure 4.
#[test]
fn congestion_comes_out_of_the_tunnel() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    let mut rig = lwaftr(json!({}));
    let mut after = |inner, outer| {
        let seen = up(&mut rig, &tunnelled(b4(3), &ours(), outer, inner));
        let ip = ipv4::Packet::new_checked(&seen.bytes[NETWORK..]);
        match seen.dropped {
            Some(reason) => Err(reason),
            None => {
                let ip = ip.expect("IPv4");
                assert_eq!(ip.verify_checksum(), Ok(()));
                Ok(ip.ecn())
            }
        }
    };
    for (inner, ends) in [
        (NotEct, [Ok(NotEct), Ok(NotEct), Ok(NotEct), Err("lwaftr_congestion")]),
        (Ect0, [Ok(Ect0), Ok(Ect0), Ok(Ect1), Ok(Ce)]),
        (Ect1, [Ok(Ect1), Ok(Ect1), Ok(Ect1), Ok(Ce)]),
        (Ce, [Ok(Ce); 4]),
    ] {
        assert_eq!([NotEct, Ect0, Ect1, Ce].map(|outer| after(inner, outer)), ends);
    }
}

#[test]
fn the_tunnel_has_the_class_of_the_packet_or_its_own() {
    let class = |rig: &mut Rig| {
        let bytes = down(rig, &theirs(3 << 10)).bytes;
        bytes[NETWORK] << 4 | bytes[NETWORK + 1] >> 4
    };
    assert_eq!(class(&mut lwaftr(json!({}))), 0);
    let ef = traffic_class(Dscp::of_traffic_class(46 << 2), Ecn::NotEct);
    assert_eq!(class(&mut lwaftr(json!({ "dscp": "ef" }))), ef);
}

/// What the page says of a million softwires.
#[test]
fn a_softwire_takes_sixty_eight_bytes() {
    const COUNT: u32 = 1_000_000;
    let softwires = (0..COUNT)
        .map(|n| {
            let ipv4 = Ipv4Addr::from_bits(0x0b00_0000 + n / 64);
            Softwire { ipv4, psid: (n % 64) as u16, b4: b4(n) }
        })
        .collect();
    let bindings = Bindings::new(&table("11.0.0.0/16", 6, 0, softwires)).expect("a sound table");
    assert_eq!(bindings.len(), COUNT as usize);
    assert!(bindings.memory_bytes() <= 68 * COUNT as usize, "{}", bindings.memory_bytes());
    for n in (0..COUNT).step_by(997) {
        let port = (n % 64) as u16 * 1024 + 7;
        assert_eq!(bindings.find(0x0b00_0000 + n / 64, port), Some(b4(n).to_bits()));
    }
    assert_eq!(bindings.find(0x0b00_0000 + COUNT / 64, 9), None);
}

proptest! {
    /// RFC 7597 §5.1: every set has as many ports, and those in front belong to none.
    #[test]
    fn ports_are_shared_evenly(psid_length in 0_u8..=8, psid_offset in 0_u8..=8) {
        let softwires = (0..1_u16 << psid_length)
            .map(|psid| Softwire { ipv4: [192, 0, 2, 1].into(), psid, b4: b4(psid.into()) })
            .collect();
        let bindings = Bindings::new(&table("192.0.2.0/24", psid_length, psid_offset, softwires));
        let bindings = bindings.expect("a sound table");
        let mut ports = vec![0_u32; 1 << psid_length];
        for port in 0..=u16::MAX {
            match bindings.find(0xc000_0201, port) {
                Some(b4) => ports[b4 as u16 as usize] += 1,
                None => prop_assert!(psid_offset > 0 && port >> (16 - psid_offset) == 0),
            }
        }
        let groups = if psid_offset == 0 { 1 } else { (1 << psid_offset) - 1 };
        let each = groups << (16 - psid_offset - psid_length);
        prop_assert_eq!(ports, vec![each; 1 << psid_length]);
    }
}

#[test]
fn bindings_follow_their_file() {
    let path = |end: &str| {
        std::env::temp_dir().join(format!("weft-softwires-{}.{end}", std::process::id()))
    };
    let many = |count: u32| -> Vec<_> {
        let psids = 0..count;
        psids.map(|n| json!({ "ipv4": "192.0.2.1", "psid": n, "b4": b4(n) })).collect()
    };
    let table = |count| {
        let sets = json!([{ "addresses": "192.0.2.0/24", "psidLength": 6 }]);
        json!({ "portSets": sets, "softwires": many(count) })
    };
    let (json_file, yaml_file) = (path("json"), path("yaml"));
    std::fs::write(&json_file, table(2).to_string()).expect("written");
    std::fs::write(&yaml_file, serde_yaml_ng::to_string(&table(5)).expect("YAML"))
        .expect("written");
    let rig = |file: &std::path::Path| {
        let config = json!({ "address": AFTR, "file": file });
        Rig::new(kind("lwaftr").expect("it is there"), config).expect("a valid configuration")
    };
    assert_eq!(rig(&yaml_file).shown(0, "softwires"), 5);
    let mut rig = rig(&json_file);
    assert_eq!(rig.shown(0, "softwires"), 2);
    let fresh = json_file.with_extension("new");
    std::fs::write(&fresh, table(7).to_string()).expect("written");
    std::fs::rename(&fresh, &json_file).expect("renamed");
    // Looked at once a second.
    let changed = (0..300).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        rig.now += 1;
        down(&mut rig, &theirs(6 << 10)).dropped.is_none()
    });
    assert!(changed && rig.shown(0, "softwires") == 7 && rig.shown(0, "reloads") == 1);
    for file in [json_file, yaml_file] {
        std::fs::remove_file(file).expect("it is there");
    }
}

#[test]
fn mistakes_are_named() {
    let error = |config: Value| {
        let error = Rig::new(kind("lwaftr").expect("it is there"), config).err().expect("one");
        error.path
    };
    let table = |sets: Value, softwires: Value| {
        error(json!({
            "address": AFTR, "bindings": { "portSets": sets, "softwires": softwires }
        }))
    };
    let sets = json!([{ "addresses": "192.0.2.0/24", "psidLength": 6 }]);
    let softwire =
        |ipv4: &str, psid: u16, b4: &str| json!({ "ipv4": ipv4, "psid": psid, "b4": b4 });
    assert_eq!(error(json!({ "address": AFTR })), "");
    assert_eq!(error(json!({ "address": "::", "file": "x" })), "address");
    assert_eq!(error(json!({ "address": AFTR, "file": "/nowhere" })), "file");
    let one = softwire("192.0.2.1", 3, "2001:db8::1");
    assert_eq!(table(sets.clone(), json!([one, one])), "bindings.softwires.1.psid");
    let place = "bindings.softwires.0.psid";
    assert_eq!(table(sets.clone(), json!([softwire("192.0.2.1", 64, "2001:db8::1")])), place);
    let place = "bindings.softwires.0.ipv4";
    assert_eq!(table(sets.clone(), json!([softwire("192.0.3.1", 3, "2001:db8::1")])), place);
    assert_eq!(
        table(sets, json!([softwire("192.0.2.1", 3, "ff02::1")])),
        "bindings.softwires.0.b4"
    );
    let sets = json!([{ "addresses": "192.0.2.0/24" }, { "addresses": "192.0.2.128/25" }]);
    assert_eq!(table(sets, json!([])), "bindings.portSets.1.addresses");
    let sets = json!([{ "addresses": "192.0.2.0/24", "psidLength": 12, "psidOffset": 6 }]);
    assert_eq!(table(sets, json!([])), "bindings.portSets.0.psidLength");
}

#[test]
fn mistakes_in_a_file_have_a_line_and_a_column() {
    let sets = "portSets:\n  - addresses: 192.0.2.0/24\n    psidLength: 6\n";
    let json = r#"{"portSets": [{"addresses": "192.0.2.0/24"}],
"softwires": [{"ipv4": "192.0.2.1", "b4": "::"}]}"#;
    for (end, text, said) in [
        (
            "yaml",
            format!("{sets}softwires:\n  - {{ipv4: 192.0.2.1, psid: 64, b4: '2001:db8::1'}}\n"),
            ":5:29: 64 has more than 6 bits",
        ),
        (
            "yaml",
            format!("{sets}softwires:\n  - ipv4: 192.0.2.1\n    psid: all\n"),
            ":6:11: a whole number from 0 to 65535 is expected, not \"all\"",
        ),
        ("yaml", format!("{sets}softwire:\n"), ":4:1: the key `softwire` is not known here"),
        ("json", json.into(), ":2:43: :: is not the address of one host"),
        ("json", "{\"portSets\": 1}".into(), "at line 1 column 14"),
    ] {
        let name = format!("weft-softwires-wrong-{}.{end}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("written");
        let config = json!({ "address": AFTR, "file": path });
        let error = Rig::new(kind("lwaftr").expect("it is there"), config).err().expect("one");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(error.path, "file");
        assert!(error.message.contains(said), "{}", error.message);
        assert!(error.message.starts_with(&path.display().to_string()), "{}", error.message);
    }
}
