//! GTP-U as a base station at a gateway's access port speaks it.

use weft_wire::gtpu::{Extensions, Message, MessageType, PORT, Repr, Signal, Teid};
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

/// A message of the base station to port 2152 of the node.
pub fn signal(signal: Signal) -> Vec<u8> {
    let mut bytes = vec![0; signal.buffer_len()];
    signal.emit(&mut bytes).unwrap();
    datagram(&bytes)
}

/// A message that left the node over IPv4: where it goes, what it is, and the UDP
/// payload of the user's packet inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub to: [u8; 4],
    pub message_type: MessageType,
    pub teid: u32,
    pub payload: String,
}

/// The messages in frames that left.
pub fn left(frames: &[Vec<u8>]) -> Vec<Left> {
    let open = |frame: &Vec<u8>| {
        let message = Message::new_checked(&frame[42..]).unwrap();
        let (message_type, Teid(teid)) = (message.message_type(), message.teid());
        let payload = message.payload().get(28..).unwrap_or_default();
        let payload = String::from_utf8_lossy(payload).into_owned();
        Left { to: frame[30..34].try_into().unwrap(), message_type, teid, payload }
    };
    frames.iter().map(open).collect()
}
