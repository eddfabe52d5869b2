//! GTP-U tunnels as settings give them, and their outer headers.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    Annotations, ConfigError, ContextError, Emit, Fields, Packet, Position, TunnelEnd,
};
use weft_wire::gtpu::{Signal, Teid};
use weft_wire::{Dscp, EtherType, Protocol, ethernet};

/// Where the packets of one bearer are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TunnelSettings {
    /// TEID that the peer has given out; of several users, the nth from 0 has
    /// the one that is higher by n.
    #[schemars(range(min = 1))]
    pub teid: u32,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Address of the node that the packets come from, of the same family.
    pub local: IpAddr,
}

impl TunnelSettings {
    /// Checks the settings that stand at `path` for `count` users.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of the value that is wrong.
    pub fn check(&self, path: &str, count: u32) -> Result<(), ConfigError> {
        let wrong = |key: &str, message: String| {
            let dot = if path.is_empty() { "" } else { "." };
            Err(ConfigError::at(format!("{path}{dot}{key}"), message))
        };
        if self.teid == 0 {
            return wrong("teid", "0 is not the TEID of a tunnel".into());
        }
        if self.teid.checked_add(count.max(1) - 1).is_none() {
            return wrong("teid", format!("{count} users are more than there are TEIDs from it"));
        }
        for (key, address) in [("peer", self.peer), ("local", self.local)] {
            if address.is_unspecified() || address.is_multicast() {
                return wrong(key, format!("{address} is not the address of one host"));
            }
        }
        if self.peer.is_ipv4() != self.local.is_ipv4() {
            return wrong("local", "peer and local are of one family".into());
        }
        Ok(())
    }

    /// The tunnel of the `nth` user.
    pub fn nth(&self, nth: u32) -> Tunnel {
        let teid = Teid(self.teid.wrapping_add(nth));
        Tunnel { teid, peer: self.peer, local: self.local, sent: 0 }
    }
}

/// A tunnel that begins here: 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The peer's end.
    pub teid: Teid,
    peer: IpAddr,
    local: IpAddr,
    /// Packets sent, which numbers them.
    sent: u16,
}

impl Tunnel {
    /// Octets of IP and UDP header.
    #[inline]
    pub fn headers_length(&self) -> usize {
        self.end().headers_length()
    }

    /// The tunnel, as the node knows it.
    #[inline]
    pub fn end(&self) -> TunnelEnd {
        TunnelEnd::new(self.teid, self.local, self.peer)
    }

    /// Sends an End Marker (TS 29.281 §7.3.2) into the tunnel, in a packet with
    /// the annotations of `like`. Without a `dscp` of all packets it is sent with
    /// best effort, so that it overtakes nothing on its way.
    pub fn send_end_marker(
        &mut self,
        like: &Annotations,
        dscp: Option<Dscp>,
        zero_checksum: bool,
        emit: &mut Emit<'_>,
    ) {
        let marker = Signal::EndMarker { teid: self.teid };
        let (front, headers) = (ethernet::HEADER_LENGTH, self.headers_length());
        let length = headers + marker.buffer_len();
        let Some(mut packet) = emit.allocate(like) else { return };
        let Some(frame) = packet.append(front + length) else { return };
        frame.fill(0);
        frame[12..front].copy_from_slice(&self.ether_type().0.to_be_bytes());
        let written = marker.emit(&mut frame[front + headers..]).is_ok()
            && self.emit(&mut frame[front..], dscp.unwrap_or_default(), zero_checksum);
        if !written {
            return;
        }
        // As of one that came in: nothing of a user is inside.
        let annotations = packet.annotations_mut();
        annotations.ether_type = self.ether_type().0;
        annotations.protocol = Protocol::UDP.0;
        annotations.outer_offset = front as u16;
        annotations.network_offset = front as u16;
        annotations.network_length = length as u16;
        annotations.transport_offset = 0;
        annotations.flags |= Annotations::TUNNELLED;
        emit.send(packet, Position::After);
    }

    /// What stands in front of the IP header.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        self.end().ether_type()
    }

    /// Writes IP and UDP header to the front of `packet`: see [`TunnelEnd::emit`].
    #[inline]
    pub fn emit(&mut self, packet: &mut [u8], dscp: Dscp, zero_checksum: bool) -> bool {
        let end = self.end();
        if end.peer.is_ipv4() {
            self.sent = self.sent.wrapping_add(1);
        }
        // Tunnels between two nodes begin at different numbers.
        let number = end.source_port.rotate_left(2) ^ self.sent;
        end.emit(packet, dscp, number, zero_checksum)
    }

    /// Writes the tunnel as bytes.
    pub fn export(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.teid.0.to_le_bytes());
        write_address(self.peer, out);
        write_address(self.local, out);
        out.extend_from_slice(&self.sent.to_le_bytes());
    }

    /// Reads what [`export`](Self::export) wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn import(fields: &mut Fields<'_>) -> Result<Tunnel, ContextError> {
        Ok(Tunnel {
            teid: Teid(fields.u32()?),
            peer: read_address(fields)?,
            local: read_address(fields)?,
            sent: fields.u16()?,
        })
    }
}

/// Writes an address as bytes.
pub fn write_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(6);
            out.extend_from_slice(&address.octets());
        }
    }
}

/// Reads what [`write_address`] wrote.
///
/// # Errors
/// [`ContextError::Damaged`].
pub fn read_address(fields: &mut Fields<'_>) -> Result<IpAddr, ContextError> {
    match fields.u8()? {
        4 => Ok(fields.array::<4>()?.into()),
        6 => Ok(fields.array::<16>()?.into()),
        _ => Err(ContextError::Damaged),
    }
}

/// Writes what may be there or not.
pub fn write_option<T>(value: Option<T>, out: &mut Vec<u8>, write: impl FnOnce(T, &mut Vec<u8>)) {
    out.push(value.is_some().into());
    if let Some(value) = value {
        write(value, out);
    }
}

/// Reads what [`write_option`] wrote.
///
/// # Errors
/// [`ContextError::Damaged`], and whatever `read` says.
pub fn read_option<T>(
    fields: &mut Fields<'_>,
    read: impl FnOnce(&mut Fields<'_>) -> Result<T, ContextError>,
) -> Result<Option<T>, ContextError> {
    match fields.u8()? {
        0 => Ok(None),
        1 => read(fields).map(Some),
        _ => Err(ContextError::Damaged),
    }
}

/// DSCP of the tunnel around a packet.
#[inline]
pub fn outer_dscp(packet: &Packet) -> Dscp {
    let outer = packet.data().get(usize::from(packet.annotations().outer_offset)..);
    match outer {
        Some([first, second, ..]) if first >> 4 == 6 => {
            Dscp::of_traffic_class(first << 4 | second >> 4)
        }
        Some([_, second, ..]) => Dscp::of_traffic_class(*second),
        _ => Dscp::default(),
    }
}
