//! The headers of the usual packet of a tunnel, all at once: over IPv4, with a QoS flow or
//! without. [`Repr`](weft_wire::gtpu::Repr) and [`TunnelEnd::emit`] write the same octets field
//! by field, which takes more than three times as many instructions.

use std::net::{IpAddr, Ipv4Addr};

use weft_function::{Headers, Metadata, Packet, Tunnel as _, TunnelEnd};
use weft_wire::checksum::sum20;
use weft_wire::gtpu::{ExtensionRepr, ExtensionType, Extensions, MessageType, PduSession};
use weft_wire::{Dscp, EtherType, Protocol, gtpu, ipv4, udp};

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
    #[inline]
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
        let network = usize::from(packet.metadata().network_offset);
        // Padding of the link does not travel in the tunnel.
        packet.truncate(network + packet.ip_length());
        let total = LENGTH + packet.len().saturating_sub(network);
        let Ok(total) = u16::try_from(total) else { return Err(Unfit::NoHeadroom) };
        let end = self.end(tunnel);
        let front = packet.wrap(network, LENGTH, EtherType::IPV4);
        let Some(front) = front.and_then(|bytes| bytes.first_chunk_mut::<LENGTH>()) else {
            return Err(Unfit::NoHeadroom);
        };
        let number = tunnel.number(&end);
        write(front, &end, (outer.dscp.unwrap_or(dscp), number, total), flow);
        Ok(())
    }
}

/// Writes the headers of a packet that has `total` octets with them.
#[inline(always)]
fn write<const LENGTH: usize>(
    front: &mut [u8; LENGTH],
    end: &TunnelEnd,
    (dscp, number, total): (Dscp, u16, u16),
    flow: Option<PduSession>,
) {
    let [local, peer] = [end.local, end.peer].map(|address| match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    });
    let mut ip = [0; ipv4::MIN_HEADER_LENGTH];
    ip[0] = 0x45;
    ip[1] = dscp.value() << 2;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..6].copy_from_slice(&number.to_be_bytes());
    ip[8] = TunnelEnd::HOPS;
    ip[9] = Protocol::UDP.0;
    ip[12..16].copy_from_slice(&local.octets());
    ip[16..20].copy_from_slice(&peer.octets());
    let checksum = !sum20(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    front[..20].copy_from_slice(&ip);

    let of_udp = total - ipv4::MIN_HEADER_LENGTH as u16;
    front[20..22].copy_from_slice(&end.source_port.to_be_bytes());
    front[22..24].copy_from_slice(&end.destination_port.to_be_bytes());
    front[24..26].copy_from_slice(&of_udp.to_be_bytes());
    front[26..28].copy_from_slice(&[0; 2]);

    let behind = total - PLAIN as u16;
    let is_flow = LENGTH == FLOW;
    front[28] = VERSION | if is_flow { EXTENSION } else { 0 };
    front[29] = MessageType::G_PDU.0;
    front[30..32].copy_from_slice(&behind.to_be_bytes());
    front[32..36].copy_from_slice(&end.teid.0.to_be_bytes());
    if is_flow && let Some(flow) = flow {
        let (kind, marks) = match flow {
            PduSession::Downlink { reflective, .. } => (0, u8::from(reflective) << 6),
            PduSession::Uplink { .. } => (1 << 4, 0),
        };
        let next = ExtensionType::PDU_SESSION.0;
        front[36..44].copy_from_slice(&[0, 0, 0, next, 1, kind, flow.qfi().value() | marks, 0]);
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::gtpu::{Qfi, Repr, Teid};

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
                let written = match flow {
                    None => {
                        let mut front = [0xff; PLAIN];
                        let total = (PLAIN + payload) as u16;
                        super::write(&mut front, &end, (dscp, number, total), flow);
                        front.to_vec()
                    }
                    Some(_) => {
                        let mut front = [0xff; FLOW];
                        let total = (FLOW + payload) as u16;
                        super::write(&mut front, &end, (dscp, number, total), flow);
                        front.to_vec()
                    }
                };
                assert_eq!(written, wanted, "{flow:?}, {payload} octets");
            }
        }
    }
}
