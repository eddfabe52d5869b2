//! GTP-U tunnels as settings give them, and their outer headers.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    Annotations, ConfigError, ContextError, Emit, Fields, Packet, Position, TunnelEnd,
};
use weft_wire::checksum::{PseudoHeader, sum20};
use weft_wire::gtpu::{PORT, Signal, Teid};
use weft_wire::{Dscp, EtherType, Protocol, ethernet, ipv4, ipv6, udp};

/// Hops of a tunnel's packets.
const HOPS: u8 = 64;

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
        udp::HEADER_LENGTH
            + match self.peer {
                IpAddr::V4(_) => ipv4::MIN_HEADER_LENGTH,
                IpAddr::V6(_) => ipv6::HEADER_LENGTH,
            }
    }

    /// The tunnel, as the node knows it.
    pub fn end(&self) -> TunnelEnd {
        let Tunnel { teid, peer, local, .. } = *self;
        TunnelEnd { teid, peer, local, source_port: self.source_port() }
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
        match self.peer {
            IpAddr::V4(_) => EtherType::IPV4,
            IpAddr::V6(_) => EtherType::IPV6,
        }
    }

    /// Source port: networks spread tunnels by it over their paths. It hangs on
    /// the tunnel alone, so that nothing overtakes an End Marker.
    #[inline]
    fn source_port(&self) -> u16 {
        // 14 bits of a multiplicative hash, among the dynamic ports (RFC 6335 §6).
        0xc000 | (self.teid.0.wrapping_mul(0x9e37_79b1) >> 18) as u16
    }

    /// Writes IP and UDP header to the front of `packet`, which the GTP-U
    /// message follows to the end. Over IPv4 there is no UDP checksum; over IPv6
    /// there is, unless `zero_checksum` (RFC 6935 §5). False where the message
    /// is longer than a datagram can be.
    #[inline]
    pub fn emit(&mut self, packet: &mut [u8], dscp: Dscp, zero_checksum: bool) -> bool {
        let payload = packet.len().saturating_sub(self.headers_length());
        let Ok(payload_length) = u16::try_from(payload) else { return false };
        let Some(length) = payload_length.checked_add(udp::HEADER_LENGTH as u16) else {
            return false;
        };
        let port = self.source_port();
        let header = udp::Repr { source_port: port, destination_port: PORT, payload_length };
        match (self.local, self.peer) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.sent = self.sent.wrapping_add(1);
                // Tunnels between two nodes begin at different numbers.
                let identification = port.rotate_left(2) ^ self.sent;
                let total = length.checked_add(ipv4::MIN_HEADER_LENGTH as u16);
                let parts = packet.split_first_chunk_mut().zip(total);
                let Some(((front, datagram), total)) = parts else { return false };
                *front = front_v4([source, destination], dscp, identification, total);
                header.emit(datagram).is_ok()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ip = ipv6::Repr {
                    source,
                    destination,
                    next_header: Protocol::UDP,
                    payload_length: length,
                    hop_limit: HOPS,
                    dscp,
                    flow_label: port.into(),
                    ..Default::default()
                };
                let pseudo_header = PseudoHeader::V6 { source, destination };
                let written =
                    ip.emit(packet).is_ok() && header.emit(&mut packet[ip.buffer_len()..]).is_ok();
                if written && !zero_checksum {
                    let datagram = udp::Datagram::new_checked(&mut packet[ip.buffer_len()..]);
                    return datagram
                        .map(|mut datagram| datagram.fill_checksum(&pseudo_header))
                        .is_ok();
                }
                written
            }
            _ => false,
        }
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

/// The header of an IPv4 packet of `length` octets with a UDP datagram, all at once:
/// what [`ipv4::Repr`] writes field by field.
#[inline]
fn front_v4(
    [source, destination]: [Ipv4Addr; 2],
    dscp: Dscp,
    identification: u16,
    length: u16,
) -> [u8; ipv4::MIN_HEADER_LENGTH] {
    let [length_high, length_low] = length.to_be_bytes();
    let [number_high, number_low] = identification.to_be_bytes();
    let [s0, s1, s2, s3] = source.octets();
    let [d0, d1, d2, d3] = destination.octets();
    #[rustfmt::skip]
    let mut header = [
        0x45, dscp.value() << 2, length_high, length_low,
        number_high, number_low, 0, 0,
        HOPS, Protocol::UDP.0, 0, 0,
        s0, s1, s2, s3,
        d0, d1, d2, d3,
    ];
    let checksum = !sum20(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
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
