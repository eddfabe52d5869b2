//! The headers of the usual packet of a tunnel, all at once: over IPv4, with a QoS flow or
//! without. [`Repr`](weft_wire::gtpu::Repr) and [`TunnelEnd::emit`] write the same octets field
//! by field, which takes more than three times as many instructions.

use weft_function::{Headers, Packet, Tunnel as _, TunnelEnd};
use weft_wire::checksum::sum_of_words;
use weft_wire::gtpu::{ExtensionRepr, ExtensionType, Extensions, MessageType, PduSession, Teid};
use weft_wire::{Dscp, Protocol, gtpu, ipv4, udp};

use super::put::{Outer, Unfit};
use super::{Locals, Tunnel};

/// Octets of IPv4 and UDP.
const BELOW: usize = ipv4::MIN_HEADER_LENGTH + udp::HEADER_LENGTH;
/// Octets of the front without extension header, and with a PDU session container.
const PLAIN: usize = BELOW + gtpu::MIN_HEADER_LENGTH;
const FLOW: usize = PLAIN + 8;

/// Version 1, GTP and not GTP'; and that an extension header follows (TS 29.281 §5.1).
const VERSION: u8 = 0x30;
const EXTENSION: u8 = gtpu::EXTENSION_FLAG;

impl Locals {
    /// Puts a packet into a tunnel, with a PDU session container if there is a flow.
    ///
    /// # Errors
    /// [`Unfit`].
    #[inline(always)]
    pub fn put_into_flow(
        &self,
        packet: &mut Packet,
        tunnel: &mut Tunnel,
        flow: Option<PduSession>,
        outer: Outer,
    ) -> Result<(), Unfit> {
        let is_long = matches!(flow, Some(PduSession::Downlink { paging_policy: Some(_), .. }));
        if tunnel.local_ipv4 == 0 || is_long || packet.is_tunnelled() {
            return self.put_field_by_field(packet, tunnel, flow, outer);
        }
        match flow {
            None => self.put_all_at_once::<PLAIN>(packet, tunnel, None, outer),
            Some(_) => self.put_all_at_once::<FLOW>(packet, tunnel, flow, outer),
        }
    }

    #[inline(never)]
    fn put_field_by_field(
        &self,
        packet: &mut Packet,
        tunnel: &mut Tunnel,
        flow: Option<PduSession>,
        outer: Outer,
    ) -> Result<(), Unfit> {
        let flow = flow.map(|flow| Extensions::one(ExtensionRepr::PduSession(flow)));
        self.put_into(packet, tunnel, flow.unwrap_or(Extensions::NONE), outer)
    }

    #[inline(always)]
    fn put_all_at_once<const LENGTH: usize>(
        &self,
        packet: &mut Packet,
        tunnel: &mut Tunnel,
        flow: Option<PduSession>,
        outer: Outer,
    ) -> Result<(), Unfit> {
        let Some(dscp) = packet.dscp() else { return Err(Unfit::NotIp) };
        let Ok(total) = u16::try_from(LENGTH + packet.ip_length()) else {
            return Err(Unfit::NoHeadroom);
        };
        let Some(front) = packet.wrap_whole::<LENGTH>() else {
            return self.put_field_by_field(packet, tunnel, flow, outer);
        };
        let number = tunnel.number(Teid(tunnel.teid));
        let source_port = self.port_of(tunnel);
        write(front, (tunnel, source_port), (outer.dscp.unwrap_or(dscp), number, total), flow);
        Ok(())
    }
}

/// Writes the headers of a packet that has `total` octets with them, a word at a time.
#[inline(always)]
fn write<const LENGTH: usize>(
    front: &mut [u8; LENGTH],
    (tunnel, source_port): (&Tunnel, u16),
    (dscp, number, total): (Dscp, u16, u16),
    flow: Option<PduSession>,
) {
    let word = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
    let octets = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    let ip = [
        word(octets(0x45, dscp.value() << 2), total),
        word(number, 0),
        word(octets(TunnelEnd::HOPS, Protocol::UDP.0), 0),
        tunnel.local_ipv4,
        tunnel.peer_last,
    ];
    let checksum = !sum_of_words(ip);
    let is_flow = LENGTH == FLOW;
    let first = VERSION | if is_flow { EXTENSION } else { 0 };
    let container = match flow {
        Some(PduSession::Downlink { qfi, reflective, .. }) => {
            octets(qfi.value() | u8::from(reflective) << 6, 0)
        }
        Some(PduSession::Uplink { qfi }) => octets(qfi.value(), 0),
        None => 0,
    };
    let kind = if matches!(flow, Some(PduSession::Uplink { .. })) { 1 << 4 } else { 0 };
    let words = [
        ip[0],
        ip[1],
        ip[2] | u32::from(checksum),
        ip[3],
        ip[4],
        word(source_port, gtpu::PORT),
        // Over IPv4 there is no UDP checksum.
        word(total - ipv4::MIN_HEADER_LENGTH as u16, 0),
        word(octets(first, MessageType::G_PDU.0), total - PLAIN as u16),
        tunnel.teid,
        // The optional fields, none of which are there, and the container (TS 38.415 §5.5.2).
        u32::from(ExtensionType::PDU_SESSION.0),
        word(octets(1, kind), container),
    ];
    let (places, _) = front.as_chunks_mut::<4>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use weft_wire::gtpu::{Qfi, Repr};

    use super::*;

    /// What field by field comes to.
    fn by_fields(
        end: &TunnelEnd,
        dscp: Dscp,
        number: u16,
        payload: usize,
        flow: Option<PduSession>,
    ) -> Vec<u8> {
        let flow = flow.map(|flow| Extensions::one(ExtensionRepr::PduSession(flow)));
        let message = Repr {
            message_type: MessageType::G_PDU,
            teid: end.teid,
            extensions: flow.unwrap_or(Extensions::NONE),
            payload_length: payload,
            ..Default::default()
        };
        let length = end.headers_length() + message.buffer_len();
        let mut packet = vec![0; length + payload];
        message.emit(&mut packet[end.headers_length()..]).unwrap();
        assert!(end.emit(&mut packet, dscp, number, false));
        packet.truncate(length);
        packet
    }

    #[test]
    fn all_at_once_is_as_field_by_field() {
        let address = |last: u8| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        let qfi = |number: u8| Qfi::new(number).unwrap();
        let flows = [
            None,
            Some(PduSession::Downlink { qfi: qfi(9), reflective: false, paging_policy: None }),
            Some(PduSession::Downlink { qfi: qfi(63), reflective: true, paging_policy: None }),
            Some(PduSession::Uplink { qfi: qfi(0) }),
            Some(PduSession::Uplink { qfi: qfi(63) }),
        ];
        let lengths = [20, 64, 1_400, 8_900, usize::from(u16::MAX) - FLOW];
        let teids = [1, 0x1234_5678, u32::MAX];
        for (teid, payload) in teids.into_iter().flat_map(|teid| lengths.map(|one| (teid, one))) {
            for flow in flows {
                let end = TunnelEnd::new(Teid(teid), address(1), address(9));
                let (dscp, number) = (Dscp::new((payload % 64) as u8).unwrap(), teid as u16);
                let wanted = by_fields(&end, dscp, number, payload, flow);
                let tunnel = Locals::default().tunnel(end).unwrap();
                let port = Locals::default().port_of(&tunnel);
                let written = match flow {
                    None => {
                        let mut front = [0xff; PLAIN];
                        let total = (PLAIN + payload) as u16;
                        super::write(&mut front, (&tunnel, port), (dscp, number, total), flow);
                        front.to_vec()
                    }
                    Some(_) => {
                        let mut front = [0xff; FLOW];
                        let total = (FLOW + payload) as u16;
                        super::write(&mut front, (&tunnel, port), (dscp, number, total), flow);
                        front.to_vec()
                    }
                };
                assert_eq!(written, wanted, "{flow:?}, {payload} octets");
            }
        }
    }
}
