//! What a gateway has to get rid of: tunnelled packets that are damaged, each in
//! another header.

use std::net::Ipv4Addr;

use weft_traffic::{Captured, CapturedError};
use weft_wire::gtpu::{self, MessageType, Teid};
use weft_wire::{Error, EtherType, MacAddress, ethernet, ipv4, udp};

use crate::traffic::datagram::datagram;

/// Where each header begins in the frame.
const OUTER: usize = ethernet::HEADER_LENGTH;
const DATAGRAM: usize = OUTER + ipv4::MIN_HEADER_LENGTH;
const MESSAGE: usize = DATAGRAM + udp::HEADER_LENGTH;
const INNER: usize = MESSAGE + gtpu::MIN_HEADER_LENGTH;

/// Octets of a sound frame and what damage makes of them.
const DAMAGES: [(usize, u8); 8] = [
    // IPv4: longer than the frame, and a checksum that does not fit.
    (OUTER + 2, 0x40),
    (OUTER + 10, 0x00),
    // UDP: longer than the IP packet.
    (DATAGRAM + 4, 0x10),
    // GTP-U: another version, a longer message, extension headers that are not there.
    (MESSAGE, 0x50),
    (MESSAGE + 2, 0x10),
    (MESSAGE, 0x34),
    // The packet inside: of no IP version, and a checksum that does not fit.
    (INNER, 0x75),
    (INNER + 10, 0x00),
];

/// A tunnel that ends at the gateway, and a packet in it.
#[derive(Clone, Copy, Debug)]
pub struct FloodedTunnel {
    /// Addresses of the tunnel's packets.
    pub outer: [Ipv4Addr; 2],
    /// The tunnel.
    pub teid: Teid,
    /// Addresses of the user's packets.
    pub inner: [Ipv4Addr; 2],
}

impl FloodedTunnel {
    /// Frames of so many bytes without their checksum, one for each damage.
    ///
    /// # Errors
    /// When they are too short for their headers.
    pub fn damaged(&self, bytes: usize) -> Result<Captured, CapturedError> {
        let sound = self.frame(bytes).map_err(|_| CapturedError::Empty)?;
        let damage = |(at, octet): (usize, u8)| {
            let mut frame = sound.clone();
            frame[at] = octet;
            frame
        };
        Captured::new(DAMAGES.map(damage), false)
    }

    fn frame(&self, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut frame = vec![0; bytes.max(INNER + ipv4::MIN_HEADER_LENGTH + udp::HEADER_LENGTH)];
        let link = ethernet::Repr {
            destination: MacAddress([2, 0, 0, 0, 0, 1]),
            source: MacAddress([2, 0, 0, 0, 0, 2]),
            ether_type: EtherType::IPV4,
        };
        link.emit(&mut frame)?;
        datagram(&mut frame[OUTER..], self.outer, [gtpu::PORT; 2])?;
        let message = gtpu::Repr {
            message_type: MessageType::G_PDU,
            teid: self.teid,
            payload_length: bytes - INNER,
            ..Default::default()
        };
        message.emit(&mut frame[MESSAGE..])?;
        datagram(&mut frame[INNER..], self.inner, [9; 2])?;
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_makes_another_frame() {
        let target = FloodedTunnel {
            outer: [[192, 0, 2, 10].into(), [192, 0, 2, 1].into()],
            teid: Teid(7),
            inner: [[10, 0, 0, 0].into(), [198, 51, 100, 1].into()],
        };
        let sound = target.frame(124).unwrap();
        assert!(gtpu::Message::new_checked(&sound[MESSAGE..]).is_ok());
        assert!(ipv4::Packet::new_checked(&sound[INNER..]).unwrap().verify_checksum().is_ok());
        assert!(DAMAGES.iter().all(|(at, octet)| sound[*at] != *octet), "{sound:02x?}");
        assert_eq!(target.damaged(124).unwrap().packets(), (8, 8));
    }
}
