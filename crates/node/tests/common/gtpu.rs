//! GTP-U as a base station at a gateway's access port speaks it.

use weft_wire::gtpu::{Extensions, MessageType, PORT, Repr, Teid};
use weft_wire::{MacAddress, udp as wire_udp};

use super::udp_to;

/// MAC address of the access port.
pub const NODE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// The base station.
pub const STATION: [u8; 4] = [10, 0, 0, 1];
/// Address of the access port.
pub const ACCESS: [u8; 4] = [10, 0, 0, 254];
/// A host behind the gateway.
pub const HOST: [u8; 4] = [198, 51, 100, 1];

/// A UDP datagram of the base station to port 2152 of the node.
pub fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut frame = udp_to(NODE, STATION, ACCESS, 64, payload);
    let mut datagram = wire_udp::Datagram::new_checked(&mut frame[34..]).unwrap();
    datagram.set_source_port(40000);
    datagram.set_destination_port(PORT);
    datagram.set_checksum(0);
    frame
}

pub fn message(
    message_type: MessageType,
    teid: u32,
    extensions: Extensions,
    inside: &[u8],
) -> Vec<u8> {
    let (teid, payload_length) = (Teid(teid), inside.len());
    let repr = Repr { message_type, teid, extensions, payload_length, ..Default::default() };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes).unwrap();
    bytes.extend(inside);
    bytes
}

/// An IP packet in a tunnel from the base station.
pub fn tunnelled(teid: u32, inside: &[u8]) -> Vec<u8> {
    datagram(&message(MessageType::G_PDU, teid, Extensions::NONE, inside))
}
