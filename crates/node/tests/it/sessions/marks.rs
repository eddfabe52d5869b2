//! Which header gets which DSCP, in packets of both IP versions: that of a flow (DL Flow Level
//! Marking, TS 29.244 §8.2.66) stands in the packet, that of a path (Transport Level Marking,
//! §8.2.12) in the header around it, or in the packet where there is none.

use super::*;
use crate::common::gtpu::{NODE, tunnelled};

const USER: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const FAR: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// An IPv6 packet without a payload, of a flow label and with a congestion mark.
fn ipv6(source: [u8; 16], destination: [u8; 16]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0x1a, 0xbc, 0xde, 0, 0, 59, 64];
    bytes.extend(source);
    bytes.extend(destination);
    bytes
}

fn ethernet(to: [u8; 6], ip: &[u8]) -> Vec<u8> {
    let mut frame = to.to_vec();
    frame.extend([2, 0, 0, 0, 1, 1, 0x86, 0xdd]);
    frame.extend(ip);
    frame
}

/// The DSCP of an IP header.
fn dscp(ip: &[u8]) -> u8 {
    match ip[0] >> 4 {
        4 => ip[1] >> 2,
        _ => (ip[0] & 15) << 2 | ip[1] >> 6,
    }
}

/// A user plane with IPv6 on both sides.
fn upf() -> Upf {
    let yaml =
        UPF.replace("[198.51.100.254/24]", "[198.51.100.254/24, '2001:db8:99::254/64']").replace(
            "{198.51.100.1: 02:00:00:00:02:01}",
            "{198.51.100.1: 02:00:00:00:02:01, '2001:db8:99::1': 02:00:00:00:02:01}",
        );
    let mut rig = Rig::new(&yaml);
    let events = rig.node.agent().listen_to_sessions();
    Upf { rig, events, told: Vec::new() }
}

/// The usual session of a user with both addresses, changed.
fn rules(change: impl FnOnce(&mut Value)) -> Value {
    let mut rules = usual(1);
    let ue = json!({"ipv4": "10.45.0.1", "ipv6": "2001:db8:45::/64"});
    (rules["pdrs"][0]["ue"], rules["pdrs"][1]["ue"]) = (ue.clone(), ue);
    change(&mut rules);
    rules
}

/// DSCP of the header around, and of the packet inside, as downlink packets of both versions leave.
fn down(upf: &mut Upf) -> Vec<(u8, u8)> {
    let packet = ipv6(FAR, USER);
    upf.rig.send(1, &[downlink(1, b"down"), ethernet([2, 0, 0, 0, 0, 2], &packet)]);
    let frames = upf.rig.receive(0);
    let marks = frames.iter().map(|frame| {
        let message = Message::new_checked(&frame[42..]).unwrap();
        let inside = message.payload();
        if inside[0] >> 4 == 6 {
            // Nothing else is another, but for the hop limit.
            assert_eq!((inside[1] & 0x3f, &inside[2..7]), (0x1a, &packet[2..7]));
            assert_eq!((inside[7], &inside[8..40]), (63, &packet[8..40]));
        }
        (dscp(&frame[14..]), dscp(inside))
    });
    marks.collect()
}

/// DSCP of uplink packets of both versions as they leave, without a tunnel.
fn up(upf: &mut Upf) -> Vec<u8> {
    let frames = [uplink(0x1001, [10, 45, 0, 1], b"up"), tunnelled(0x1001, &ipv6(USER, FAR))];
    assert_eq!(frames[1][..6], NODE.0);
    upf.rig.send(0, &frames);
    upf.rig.receive(1).iter().map(|frame| dscp(&frame[14..])).collect()
}

#[test]
fn each_header_gets_its_own_mark() {
    for (flow, path, marks, out) in [
        // What has no mark keeps its own, which the header around takes over.
        (None, None, [(0, 0), (0, 0)], [0, 0]),
        (Some(46), None, [(46, 46), (46, 46)], [0, 0]),
        (None, Some(34), [(34, 0), (34, 0)], [34, 34]),
        (Some(46), Some(34), [(34, 46), (34, 46)], [34, 34]),
    ] {
        let mut upf = upf();
        upf.establish(
            1,
            rules(|rules| {
                rules["qers"][0]["marking"] = json!(flow);
                rules["fars"][0]["forward"]["dscp"] = json!(path);
                rules["fars"][1]["forward"]["dscp"] = json!(path);
            }),
        );
        assert_eq!(down(&mut upf), marks, "{flow:?} {path:?}");
        // A mark of downlink flows does not hold uplink; that of the path stands in the packet.
        assert_eq!(up(&mut upf), out, "{flow:?} {path:?}");
    }
}
