//! A relay between tunnels looks at nothing inside them, and at where they come from only
//! where it is told to.

use crate::common::gtpu::{ACCESS, HOST, NODE, STATION, datagram, message, tunnelled};
use crate::common::{Rig, udp, udp_to};
use weft_wire::gtpu::{Extensions, Message, MessageType};
use weft_wire::{ipv4, udp as wire_udp};

const SGW: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: sgw}
memory: {packets: 4095}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24, '2001:db8:a::fe/64']
    neighbours: {10.0.0.1: 02:00:00:00:01:01}
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24]
    neighbours: {198.51.100.1: 02:00:00:00:02:01}
functions:
  relay: {function: gtpu-relay, composition: {composition}}
users:
  - name: ue
    match: {teid: 0x1000}
    functions:
      relay:
        uplink: {teid: 0x5000, peer: 198.51.100.1, local: 198.51.100.254}
        downlink: {teid: 0x6000, peer: 10.0.0.1, local: 10.0.0.254}
        {peer}
rules: |
  from access -> relay
  from core -> relay
  from relay when direction == uplink -> core
  from relay when direction == downlink -> access
";

fn gateway(composition: &str, peer: &str) -> Rig {
    Rig::new(&SGW.replace("{composition}", composition).replace("{peer}", peer))
}

/// What is in the tunnel that a packet left in.
fn inside(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let open = |frame: &Vec<u8>| Message::new_checked(&frame[42..]).unwrap().payload().to_vec();
    frames.iter().map(open).collect()
}

#[test]
fn fault_18_19_a_relay_does_not_judge_what_is_inside() {
    let ipv6 = |to: &str, hop_limit: u8| {
        let mut octets = vec![0; 48];
        octets[0] = 0x60;
        (octets[5], octets[6], octets[7]) = (8, 58, hop_limit);
        octets[8..24].copy_from_slice(&"fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        octets[24..40].copy_from_slice(&to.parse::<std::net::Ipv6Addr>().unwrap().octets());
        octets[40] = 143;
        octets
    };
    let ue = [10, 45, 0, 1];
    let v4 = |from, to| udp(from, to, b"any").split_off(14);
    let packets = [
        // The gateway's own addresses, on either side.
        v4(ue, ACCESS),
        v4(ue, [198, 51, 100, 254]),
        v4(ue, STATION),
        // Broadcasts, DHCP, mDNS, IGMP, loopback.
        v4(ue, [255; 4]),
        v4(ue, [10, 0, 0, 255]),
        v4([0; 4], [255; 4]),
        v4(ue, [224, 0, 0, 251]),
        v4(ue, [224, 0, 0, 22]),
        v4([127, 0, 0, 1], HOST),
        // A report of multicast listeners, a neighbour's question, the gateway's own.
        ipv6("ff02::16", 1),
        ipv6("ff02::1", 255),
        ipv6("2001:db8:a::fe", 64),
    ];
    for composition in ["call", "fused"] {
        let mut rig = gateway(composition, "");
        for packet in &packets {
            rig.send(0, &[tunnelled(0x1000, packet)]);
            let left = inside(&rig.receive(1));
            let drops = rig.node.agent().snapshot().drops;
            assert_eq!(left, std::slice::from_ref(packet), "{composition}: {packet:x?}: {drops:?}");
        }
        // A tunnel of the gateway's own, inside.
        let own = tunnelled(0x1000, &v4(ue, HOST)).split_off(14);
        rig.send(0, &[tunnelled(0x1000, &own)]);
        assert_eq!(inside(&rig.receive(1)), [own]);
    }
}

#[test]
fn fault_25_a_relay_refuses_the_wrong_peer_where_it_is_told_to() {
    let other = |mut frame: Vec<u8>| {
        let mut ip = ipv4::Packet::new_checked(&mut frame[14..]).unwrap();
        ip.set_source([10, 0, 0, 9].into());
        ip.fill_checksum();
        frame
    };
    let packet = udp([10, 45, 0, 1], HOST, b"up").split_off(14);
    let uplink = || tunnelled(0x1000, &packet);
    let marker = || datagram(&message(MessageType::END_MARKER, 0x1000, Extensions::NONE, b""));
    let mut downlink = udp_to(
        crate::common::gtpu::NODE,
        HOST,
        [198, 51, 100, 254],
        64,
        &message(MessageType::G_PDU, 0x1000, Extensions::NONE, &packet),
    );
    downlink[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    let mut header = wire_udp::Datagram::new_checked(&mut downlink[34..]).unwrap();
    header.set_destination_port(2152);
    header.set_checksum(0);
    assert_eq!(NODE.0[5], 1);
    for composition in ["call", "fused"] {
        let mut open = gateway(composition, "");
        open.send(0, &[other(uplink()), other(marker())]);
        assert_eq!(open.receive(1).len(), 2);

        let mut closed = gateway(composition, "peer: {uplink: 10.0.0.1}");
        closed.send(0, &[uplink(), other(uplink()), marker(), other(marker())]);
        assert_eq!(closed.receive(1).len(), 2);
        assert_eq!(closed.drops("wrong_peer"), 2);
        // The other direction is as before.
        closed.send(1, &[downlink.clone()]);
        assert_eq!(closed.receive(0).len(), 1);

        let mut closed = gateway(composition, "peer: {downlink: 198.51.100.7}");
        closed.send(1, &[downlink.clone()]);
        assert_eq!((closed.receive(0).len(), closed.drops("wrong_peer")), (0, 1));
    }
}
