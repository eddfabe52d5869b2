//! Service paths: packets with service headers through the functions of a node, and
//! on to the next.

use crate::common::{Rig, udp};
use weft_wire::nsh::{self, Context, Metadata, NextProtocol, Repr, ServicePathId};
use weft_wire::{
    EtherType, MacAddress, Protocol, ethernet, ipv4, ipv6, udp as datagram, vxlan_gpe,
};

const NODE: &str = r#"
apiVersion: weft/v1
kind: Node
metadata: {name: paths}
ports:
  fabric: {device: "ring:fabric", direction: uplink, mac: "02:00:00:00:00:10", mtu: 1700}
  routed: {device: "ring:routed", direction: uplink, mac: "02:00:00:00:00:11", addresses: [10.9.0.2/24, "2001:db8:9::2/64"],
           neighbours: {10.9.0.3: "02:00:00:00:00:33", "2001:db8:9::3": "02:00:00:00:00:33"}}
  core: {device: "ring:core", direction: downlink}
paths:
  up: {path: 10, index: 255, direction: uplink, port: fabric, to: "02:00:00:00:00:20"}
  down: {path: 11, index: 9, nextIndex: 7, direction: downlink, port: routed, to: 10.9.0.3}
  ends: {path: 12, index: 3, direction: uplink, port: fabric, to: "02:00:00:00:00:20"}
  six: {path: 13, index: 9, direction: downlink, port: routed, to: "2001:db8:9::3"}
  turns: {path: 14, index: 9, direction: uplink, port: fabric, to: "02:00:00:00:00:20",
          from: 10.9.0.4, fromPort: routed}
functions:
  count: {function: tally}
  mischief: {function: mischief}
users:
  - {name: ue, count: 8, match: {ipv4: 10.1.0.1}}
rules: |
  from up -> count
  from count -> mischief
  from mischief when direction == uplink -> up
  from mischief -> down
  from down -> count
  from ends -> core
  from six -> count
  from turns -> up
  from core -> up
  from fabric -> drop
  from routed -> drop
"#;

const FABRIC: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x10]);
const ROUTED: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x11]);
/// Who packets of the paths at `fabric` come from.
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x20]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x99]);

fn repr(path: u32, index: u8, length: usize) -> Repr {
    Repr {
        oam: false,
        time_to_live: 63,
        next_protocol: NextProtocol::ETHERNET,
        path: ServicePathId::new(path).unwrap(),
        index,
        metadata: Metadata::Variable { length: length as u8 },
    }
}

fn header(repr: &Repr, contexts: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(contexts);
    bytes.extend_from_slice(payload);
    bytes
}

fn over_ethernet(to: MacAddress, service: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    let link = ethernet::Repr { destination: to, source: PEER, ether_type: EtherType::NSH };
    link.emit(&mut frame).unwrap();
    frame.extend_from_slice(service);
    frame
}

fn over_udp(service: &[u8]) -> Vec<u8> {
    over_udp_from(3, service)
}

/// From 10.9.0.NODE.
fn over_udp_from(node: u8, service: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; 8];
    let gpe = vxlan_gpe::Repr { oam: false, network: None, next_protocol: NextProtocol::NSH };
    gpe.emit(&mut payload).unwrap();
    payload.extend_from_slice(service);
    let mut frame = crate::common::udp_to(ROUTED, [10, 9, 0, node], [10, 9, 0, 2], 64, &payload);
    frame[36..38].copy_from_slice(&vxlan_gpe::PORT.to_be_bytes());
    frame[40..42].fill(0);
    frame
}

/// From 2001:db8:9::NODE.
fn over_udp6_from(node: u8, service: &[u8]) -> Vec<u8> {
    let mut frame = over_udp(service);
    let datagram = frame.split_off(34);
    let (source, destination) =
        ([0x2001, 0xdb8, 9, 0, 0, 0, 0, node.into()], [0x2001, 0xdb8, 9, 0, 0, 0, 0, 2]);
    let repr = ipv6::Repr {
        source: source.into(),
        destination: destination.into(),
        next_header: Protocol::UDP,
        payload_length: datagram.len() as u16,
        ..ipv6::Repr::default()
    };
    let mut header = [0; ipv6::HEADER_LENGTH];
    repr.emit(&mut header).unwrap();
    frame.truncate(12);
    frame.extend([0x86, 0xdd]);
    frame.extend(header);
    frame.extend(datagram);
    frame
}

fn inner(user: u8, text: &[u8]) -> Vec<u8> {
    udp([10, 1, 0, user], [198, 51, 100, 1], text)
}

/// Some metadata that no node here knows.
fn foreign() -> Vec<u8> {
    let context = Context { class: 0x0102, kind: 0x83, content: b"keep me" };
    let mut bytes = vec![0; context.buffer_len()];
    context.emit(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_comes_in_a_service_header_goes_on_in_it() {
    let mut rig = Rig::new(NODE);
    let contexts = foreign();
    let packet = inner(1, b"hello");
    let service = header(&repr(10, 255, contexts.len()), &contexts, &packet);
    rig.send(0, &[over_ethernet(FABRIC, &service)]);
    let out = rig.receive(0);
    assert_eq!(out.len(), 1, "drops {:?}", rig.node.agent().snapshot().drops);
    let expected = Repr { time_to_live: 62, ..repr(10, 254, contexts.len()) };
    let mut frame =
        over_ethernet(MacAddress([2, 0, 0, 0, 0, 0x20]), &header(&expected, &contexts, &packet));
    frame[6..12].copy_from_slice(&FABRIC.0);
    assert_eq!(out[0], frame);
    assert_eq!(rig.tally("ue-0"), 1);
}

#[test]
fn vxlan_gpe_leads_to_an_address() {
    let mut rig = Rig::new(NODE);
    let packet = udp([198, 51, 100, 1], [10, 1, 0, 2], b"Down");
    rig.send(1, &[over_udp(&header(&repr(11, 9, 0), &[], &packet))]);
    let out = rig.receive(1);
    assert_eq!(out.len(), 1, "drops {:?}", rig.node.agent().snapshot().drops);
    assert_eq!(out[0][..6], [2, 0, 0, 0, 0, 0x33]);
    let ip = ipv4::Packet::new_checked(&out[0][14..]).unwrap();
    assert_eq!(ip.verify_checksum(), Ok(()));
    assert_eq!((ip.source(), ip.destination()), ([10, 9, 0, 2].into(), [10, 9, 0, 3].into()));
    assert_eq!(usize::from(ip.total_length()), out[0].len() - 14);
    let outer = datagram::Datagram::new_checked(ip.payload()).unwrap();
    assert_eq!((outer.destination_port(), outer.checksum()), (vxlan_gpe::PORT, 0));
    let gpe = vxlan_gpe::Packet::new_checked(outer.payload()).unwrap();
    assert_eq!(gpe.next_protocol(), NextProtocol::NSH);
    let expected = header(&Repr { time_to_live: 62, ..repr(11, 7, 0) }, &[], &packet);
    assert_eq!(gpe.payload(), expected);
    assert_eq!(rig.tally("ue-1"), 1);
}

#[test]
fn bare_ip_stays_bare_and_metadata_of_type_1_stays_what_it_is() {
    let mut rig = Rig::new(NODE);
    let packet = inner(1, b"bare");
    let fixed = Metadata::Fixed(*b"sixteen octets!!");
    let one = Repr { next_protocol: NextProtocol::IPV4, metadata: fixed, ..repr(10, 255, 0) };
    rig.send(0, &[over_ethernet(FABRIC, &header(&one, &[], &packet[14..]))]);
    let out = rig.receive(0);
    let expected = Repr { index: 254, time_to_live: 62, ..one };
    assert_eq!(out[0][14..], header(&expected, &[], &packet[14..]));
}

#[test]
fn a_path_ends_at_a_port_and_begins_there() {
    let mut rig = Rig::new(NODE);
    let packet = inner(3, b"ends");
    rig.send(0, &[over_ethernet(FABRIC, &header(&repr(12, 3, 0), &[], &packet))]);
    assert_eq!(rig.receive(2), [packet]);
    let packet = udp([198, 51, 100, 1], [10, 1, 0, 2], b"begins");
    rig.send(2, std::slice::from_ref(&packet));
    assert_eq!(rig.receive(0)[0][14..], header(&repr(10, 254, 0), &[], &packet));
}

#[test]
fn what_must_not_go_on_is_dropped_for_a_named_reason() {
    let mut rig = Rig::new(NODE);
    let packet = inner(1, b"x");
    let good = repr(10, 255, 0);
    let ethernet = |repr: &Repr| over_ethernet(FABRIC, &header(repr, &[], &packet));
    let mut version = ethernet(&good);
    version[14] |= 0x40;
    let mut type_2_of_1 = ethernet(&good);
    type_2_of_1[16] = 1;
    let mut too_long = ethernet(&good);
    too_long[15] |= 0x3f;
    let mut overrun = over_ethernet(FABRIC, &header(&repr(10, 255, 4), &[1, 2, 3, 9], &packet));
    overrun[14 + 11] = 127;
    let mut gpe = over_udp(&header(&good, &[], &packet));
    gpe[45] = 3;
    let cases = [
        ("nsh_malformed", 0, version),
        ("nsh_malformed", 0, type_2_of_1),
        ("nsh_malformed", 0, too_long),
        ("nsh_malformed", 0, overrun),
        ("nsh_malformed", 0, over_ethernet(FABRIC, &[0; 7])),
        ("nsh_ttl_exceeded", 0, ethernet(&Repr { time_to_live: 1, ..good })),
        ("nsh_path_unknown", 0, ethernet(&repr(10, 254, 0))),
        ("nsh_path_unknown", 0, ethernet(&repr(10, 0, 0))),
        ("nsh_path_unknown", 0, ethernet(&repr(77, 255, 0))),
        ("nsh_payload_unknown", 0, ethernet(&Repr { next_protocol: NextProtocol::MPLS, ..good })),
        ("nsh_payload_unknown", 0, ethernet(&Repr { next_protocol: NextProtocol::NSH, ..good })),
        ("vxlan_malformed", 1, gpe),
        ("not_for_us", 0, over_ethernet(OTHER, &header(&good, &[], &packet))),
        ("unknown_user", 0, over_ethernet(FABRIC, &header(&good, &[], &inner(99, b"x")))),
        ("ethernet_malformed", 0, over_ethernet(FABRIC, &header(&good, &[], &[1, 2, 3]))),
    ];
    for (number, (reason, port, frame)) in cases.into_iter().enumerate() {
        let before = rig.drops(reason);
        rig.send(port, &[frame]);
        assert_eq!(rig.drops(reason), before + 1, "case {number}: {reason}");
    }
    assert_eq!((rig.receive(0).len(), rig.receive(1).len()), (0, 0));
    // 0 is what those send who do not know the field, and counts as 64.
    rig.send(0, &[ethernet(&Repr { time_to_live: 0, ..good })]);
    let out = rig.receive(0);
    assert_eq!(nsh::Packet::new_checked(&out[0][14..]).unwrap().time_to_live(), 63);
}

/// Fault 51, as a stranger sends it: the header is right, and who sends it is not.
#[test]
fn fault_51_headers_of_strangers_are_dropped() {
    let mut rig = Rig::new(NODE);
    let (up, down) = (inner(1, b"x"), udp([198, 51, 100, 1], [10, 1, 0, 2], b"x"));
    let on = |path: u32, index: u8| {
        header(&repr(path, index, 0), &[], if path == 10 { &up } else { &down })
    };
    let from = |mac: MacAddress, mut frame: Vec<u8>| {
        frame[6..12].copy_from_slice(&mac.0);
        frame
    };
    let tagged = |mut frame: Vec<u8>| {
        frame.splice(12..12, [0x81, 0, 0, 5]);
        frame
    };
    let probe = header(&Repr { oam: true, ..repr(10, 255, 0) }, &[], &up);
    let strange = [
        // From another station, at another port, in another VLAN, in another encapsulation.
        (0, from(OTHER, over_ethernet(FABRIC, &on(10, 255)))),
        (0, from(OTHER, over_ethernet(MacAddress::BROADCAST, &on(10, 255)))),
        (0, from(OTHER, over_ethernet(FABRIC, &probe))),
        (0, tagged(over_ethernet(FABRIC, &on(10, 255)))),
        (1, over_ethernet(ROUTED, &on(10, 255))),
        (1, over_udp(&on(10, 255))),
        (1, over_udp6_from(3, &on(10, 255))),
        // From another address, of either version, and without one.
        (1, over_udp_from(7, &on(11, 9))),
        (1, over_udp6_from(3, &on(11, 9))),
        (1, over_udp6_from(7, &on(13, 9))),
        (1, over_udp(&on(13, 9))),
        (1, over_ethernet(ROUTED, &on(11, 9))),
        (0, over_ethernet(FABRIC, &on(11, 9))),
        // The next hop is not who sends.
        (0, over_ethernet(FABRIC, &on(14, 9))),
        (1, over_udp_from(3, &on(14, 9))),
    ];
    for (number, (port, frame)) in strange.into_iter().enumerate() {
        rig.send(port, &[frame]);
        assert_eq!(rig.drops("nsh_wrong_peer"), number as u64 + 1, "case {number}");
    }
    assert_eq!([0, 1, 2].map(|port| rig.receive(port).len()), [0; 3]);
    assert_eq!((rig.tally("ue-0"), rig.tally("ue-1")), (0, 0));
    // The peers themselves.
    let right = [
        (0, over_ethernet(FABRIC, &on(10, 255))),
        (1, over_udp(&on(11, 9))),
        (1, over_udp6_from(3, &on(13, 9))),
    ];
    for (port, frame) in right {
        rig.send(port, &[frame]);
    }
    let packet = header(&repr(14, 9, 0), &[], &inner(1, b"turns"));
    rig.send(1, &[over_udp_from(4, &packet)]);
    assert_eq!((rig.receive(0).len(), rig.receive(1).len()), (2, 2));
    assert_eq!((rig.drops("nsh_wrong_peer"), rig.tally("ue-1")), (15, 2));
}

#[test]
fn what_is_for_maintenance_passes_functions_by() {
    let mut rig = Rig::new(NODE);
    let packet = inner(1, b"P would panic");
    let one = Repr { oam: true, ..repr(10, 255, 0) };
    rig.send(0, &[over_ethernet(FABRIC, &header(&one, &[], &packet))]);
    let out = rig.receive(0);
    let expected = Repr { oam: true, time_to_live: 62, ..repr(10, 254, 0) };
    assert_eq!(out[0][14..], header(&expected, &[], &packet));
    assert_eq!(rig.tally("ue-0"), 0);
}

#[test]
fn packets_that_functions_keep_and_make_find_their_headers() {
    let mut rig = Rig::new(NODE);
    let contexts = foreign();
    let frame = |text: &[u8]| {
        let service = header(&repr(10, 255, contexts.len()), &contexts, &inner(1, text));
        over_ethernet(FABRIC, &service)
    };
    rig.send(0, &[frame(b"k0 kept"), frame(b"c0 copied"), frame(b"r0 release")]);
    let out = rig.receive(0);
    let texts: Vec<_> = out
        .iter()
        .map(|frame| {
            let header = nsh::Packet::new_checked(&frame[14..]).unwrap();
            assert_eq!(header.contexts().next().unwrap().unwrap().content, b"keep me");
            assert_eq!((header.index(), header.time_to_live()), (254, 62));
            String::from_utf8_lossy(&header.payload()[42..]).into_owned()
        })
        .collect();
    assert_eq!(texts, ["k0 kept", "c0 copied", "c0 copied", "r0 release"]);
}
