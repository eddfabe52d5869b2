//! Bit rates of QoS flows and of users, by `examples/quality-of-service.yaml`.

use crate::common::gtpu::message;
use crate::common::{Rig, udp_to};
use weft_wire::gtpu::{ExtensionRepr, Extensions, Message, MessageType, PduSession, Qfi};
use weft_wire::{MacAddress, udp as wire_udp};

const NODE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const CORE: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const HOST: [u8; 4] = [198, 51, 100, 254];
/// Bytes of an IP packet.
const LENGTH: usize = 1000;

/// The example, on memory rings.
fn rig() -> Rig {
    let yaml = include_str!("../../../../examples/quality-of-service.yaml")
        .replace("net_af_packet0,iface=n3", "'ring:access'\n    mac: 02:00:00:00:00:01")
        .replace("net_af_packet1,iface=n6", "'ring:core'\n    mac: 02:00:00:00:00:02")
        .replace(
            "[192.0.2.1/24]",
            "[192.0.2.1/24]\n    neighbours: {192.0.2.10: 02:00:00:00:01:01}",
        )
        .replace(
            "gateways: [198.51.100.254]",
            "gateways: [198.51.100.254]\n    neighbours: {198.51.100.254: 02:00:00:00:02:01}",
        );
    Rig::new(&yaml)
}

fn uplink(user: u8, qfi: u8) -> Vec<u8> {
    let inside = udp_to(NODE, [10, 45, 0, user], HOST, 64, &[7; LENGTH - 28]).split_off(14);
    let qfi = Qfi::new(qfi).unwrap();
    let container = Extensions::one(ExtensionRepr::PduSession(PduSession::Uplink { qfi }));
    let teid = 0x1000 + u32::from(user) - 1;
    let payload = message(MessageType::G_PDU, teid, container, &inside);
    let mut frame = udp_to(NODE, [192, 0, 2, 10], [192, 0, 2, 1], 64, &payload);
    let mut datagram = wire_udp::Datagram::new_checked(&mut frame[34..]).unwrap();
    datagram.set_destination_port(2152);
    datagram.set_checksum(0);
    frame
}

fn downlink(user: u8, source_port: u16) -> Vec<u8> {
    let mut frame = udp_to(CORE, HOST, [10, 45, 0, user], 64, &[7; LENGTH - 28]);
    let mut datagram = wire_udp::Datagram::new_checked(&mut frame[34..]).unwrap();
    datagram.set_source_port(source_port);
    datagram.set_checksum(0);
    frame
}

/// How many of so many packets pass.
fn pass(rig: &mut Rig, from: usize, frame: &[u8], count: usize) -> usize {
    rig.send(from, &vec![frame.to_vec(); count]);
    rig.receive(1 - from).len()
}

#[test]
fn flows_and_users_keep_to_their_rates() {
    let mut rig = rig();
    // Full buckets: 4 kB for the flow, 20 kB for the others together.
    assert_eq!(pass(&mut rig, 0, &uplink(1, 1), 10), 4);
    assert_eq!(pass(&mut rig, 0, &uplink(1, 9), 15), 15);
    assert_eq!(pass(&mut rig, 0, &uplink(1, 5), 15), 5);
    // Another user has buckets of its own.
    assert_eq!(pass(&mut rig, 0, &uplink(2, 9), 30), 20);
    assert_eq!(pass(&mut rig, 0, &uplink(2, 1), 5), 4);
    // 128 kbit/s are 1 kB in 62.5 ms, 20 Mbit/s are 1 kB in 0.4 ms.
    rig.advance(62_500_000);
    assert_eq!(pass(&mut rig, 0, &uplink(1, 1), 5), 1);
    assert_eq!(pass(&mut rig, 0, &uplink(1, 9), 30), 20);
    rig.advance(400_000 * 3);
    assert_eq!(pass(&mut rig, 0, &uplink(1, 9), 30), 3);
}

#[test]
fn downlink_has_rates_of_its_own_and_flows_their_qfi() {
    let mut rig = rig();
    rig.send(1, &vec![downlink(1, 30_500); 10]);
    let frames = rig.receive(0);
    let qfi = |frame: &Vec<u8>| {
        let message = Message::new_checked(&frame[42..]).unwrap();
        message.pdu_session().unwrap().unwrap().qfi().value()
    };
    assert_eq!(frames.iter().map(qfi).collect::<Vec<_>>(), [1; 4]);
    rig.send(1, &vec![downlink(1, 443); 60]);
    let frames = rig.receive(0);
    assert_eq!(frames.iter().map(qfi).collect::<Vec<_>>(), [9; 50]);
    // The uplink has not spent any of it.
    assert_eq!(pass(&mut rig, 0, &uplink(1, 9), 30), 20);
    assert_eq!(pass(&mut rig, 0, &uplink(1, 1), 10), 4);
}
