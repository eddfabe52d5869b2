//! Packets that are put into a tunnel, or moved from one to the next.

use weft_function::{Headers, Metadata, Packet, PacketMetadata, Tunnel as _, TunnelEnd};
use weft_wire::Dscp;
use weft_wire::gtpu::{
    Comprehension, ExtensionType, Extensions, MIN_HEADER_LENGTH, Message, MessageType, Repr,
    discard_extensions,
};

use super::{Locals, Tunnel, outer_dscp};

/// Why a packet cannot be put into a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is in a tunnel already.
    TunnelledAlready,
    /// It is in no tunnel.
    NotTunnelled,
    /// It is neither IPv4 nor IPv6.
    NotIp,
    /// There is no room for the tunnel's headers.
    NoHeadroom,
}

/// How outer headers are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outer {
    /// DSCP; without it, that of the packet inside or of the tunnel before.
    pub dscp: Option<Dscp>,
    /// No UDP checksum over IPv6 (RFC 6935).
    pub zero_checksum: bool,
}

impl Locals {
    /// Puts a packet into a tunnel, with these extension headers.
    ///
    /// # Errors
    /// [`Unfit`].
    #[inline]
    pub fn put_into(
        &self,
        packet: &mut Packet,
        tunnel: &mut Tunnel,
        extensions: Extensions,
        outer: Outer,
    ) -> Result<(), Unfit> {
        if packet.is_tunnelled() {
            return Err(Unfit::TunnelledAlready);
        }
        let Some(dscp) = packet.dscp() else { return Err(Unfit::NotIp) };
        let network = usize::from(packet.metadata().network_offset);
        // Padding of the link does not travel in the tunnel.
        packet.truncate(network + packet.ip_length());
        let end = self.end(tunnel);
        let owes = end.may_owe(outer.zero_checksum);
        let message = Repr {
            message_type: MessageType::G_PDU,
            teid: end.teid,
            extensions,
            payload_length: packet.len().saturating_sub(network),
            ..Default::default()
        };
        let headers = end.headers_length();
        let length = headers + message.buffer_len();
        let Some(front) = packet.wrap(network, length, end.ether_type()) else {
            return Err(Unfit::NoHeadroom);
        };
        let (dscp, number) = (outer.dscp.unwrap_or(dscp), tunnel.number(end.teid));
        let written = message.emit(&mut front[headers..]).is_ok()
            && end.emit(front, dscp, number, outer.zero_checksum || owes);
        finish(packet, &end, owes, written)
    }

    /// Puts a packet into UDP to `port`, without GTP-U.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn put_into_udp(
        &self,
        packet: &mut Packet,
        (tunnel, port): (&mut Tunnel, u16),
        outer: Outer,
    ) -> Result<(), Unfit> {
        if packet.is_tunnelled() {
            return Err(Unfit::TunnelledAlready);
        }
        let Some(dscp) = packet.dscp() else { return Err(Unfit::NotIp) };
        let network = usize::from(packet.metadata().network_offset);
        packet.truncate(network + packet.ip_length());
        let end = TunnelEnd { destination_port: port, ..self.end(tunnel) };
        let owes = end.may_owe(outer.zero_checksum);
        let Some(front) = packet.wrap(network, end.headers_length(), end.ether_type()) else {
            return Err(Unfit::NoHeadroom);
        };
        let number = tunnel.number(end.teid);
        let dscp = outer.dscp.unwrap_or(dscp);
        let written = end.emit(front, dscp, number, outer.zero_checksum || owes);
        finish(packet, &end, owes, written)
    }

    /// Moves a packet from its tunnel to another, in place: its extension headers stay, but
    /// for those that are not to be passed on (TS 29.281 §5.2.1).
    ///
    /// # Errors
    /// [`Unfit`].
    #[inline]
    pub fn move_into(
        &self,
        packet: &mut Packet,
        tunnel: &mut Tunnel,
        outer: Outer,
    ) -> Result<(), Unfit> {
        let Some(offset) = packet.message_offset() else { return Err(Unfit::NotTunnelled) };
        let message = packet.data().get(offset..).map(Message::new_checked);
        let Some(Ok(message)) = message else { return Err(Unfit::NotTunnelled) };
        // What follows the message is no part of it.
        let end = offset + MIN_HEADER_LENGTH + usize::from(message.length());
        let dscp = outer.dscp.unwrap_or_else(|| outer_dscp(packet));
        packet.truncate(end);
        let offset = match packet.metadata().flags & PacketMetadata::DISCARDED_EXTENSIONS {
            0 => offset,
            _ => offset + discard(packet, offset),
        };
        let end = self.end(tunnel);
        let owes = end.may_owe(outer.zero_checksum);
        let headers = end.headers_length();
        let Some(front) = packet.wrap(offset, headers, end.ether_type()) else {
            return Err(Unfit::NoHeadroom);
        };
        if let Ok(mut message) = Message::new_checked(&mut front[headers..]) {
            message.set_teid(end.teid);
        }
        let written = end.emit(front, dscp, tunnel.number(end.teid), outer.zero_checksum || owes);
        finish(packet, &end, owes, written)
    }
}

/// Notes in a packet with its tunnel around it whether it owes a checksum.
#[inline(always)]
fn finish(packet: &mut Packet, end: &TunnelEnd, owes: bool, written: bool) -> Result<(), Unfit> {
    if end.peer.is_ipv6() {
        packet.owe_udp_checksum(owes);
    }
    if written { Ok(()) } else { Err(Unfit::NoHeadroom) }
}

/// Takes out the extension headers that are not to be passed on (TS 29.281 §5.2.1);
/// returns how far the message has moved.
#[cold]
fn discard(packet: &mut Packet, offset: usize) -> usize {
    let unwanted =
        |kind: ExtensionType| !kind.is_known() && kind.comprehension() == Comprehension::Discarded;
    let message = packet.data_mut().get_mut(offset..).unwrap_or_default();
    // The node has checked the message.
    discard_extensions(message, unwanted).unwrap_or(0)
}
