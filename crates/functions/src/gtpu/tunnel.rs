//! GTP-U tunnels as settings give them, and their outer headers.

mod front;
pub(crate) mod lowered;
mod put;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    ConfigError, ContextError, Emit, Fields, Metadata, Packet, PacketMetadata, Position, TunnelEnd,
};
use weft_wire::gtpu::{PORT, Signal, Teid};
use weft_wire::{Dscp, Protocol, ethernet};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use self::put::{Outer, Unfit};
use crate::common::export::{read_address, write_address};

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
}

/// The addresses of the node that an instance's tunnels begin at, and the UDP port that
/// they send from. The addresses are few, so a tunnel names its own by a number.
#[derive(Debug, Default)]
pub struct Locals {
    addresses: Vec<IpAddr>,
    /// The port of all tunnels; none where each has one of its own.
    source_port: Option<u16>,
}

impl Locals {
    /// No address yet, and the port that `sourcePort` sets.
    ///
    /// # Errors
    /// [`ConfigError`] for a port at which the node does not hear Error Indications.
    pub fn new(source_port: Option<u16>) -> Result<Locals, ConfigError> {
        if let Some(port) = source_port.filter(|port| *port != PORT && *port < 0xc000) {
            let message = format!("{port} is neither 2152 nor within 49152..65535");
            return Err(ConfigError::at("sourcePort", message));
        }
        Ok(Locals { addresses: Vec::new(), source_port })
    }

    /// The tunnel to `end`. None beyond 65,535 addresses of the node.
    pub fn tunnel(&mut self, end: TunnelEnd) -> Option<Tunnel> {
        let place =
            self.addresses.iter().position(|known| *known == end.local).unwrap_or_else(|| {
                self.addresses.push(end.local);
                self.addresses.len() - 1
            });
        let local = u16::try_from(place + 1).ok()?;
        let local_ipv4 = match (end.local, end.peer) {
            (IpAddr::V4(local), IpAddr::V4(_)) => local.to_bits(),
            _ => 0,
        };
        let bits = to_mapped(end.peer).to_bits();
        Some(Tunnel {
            peer: [bits >> 96, bits >> 64, bits >> 32].map(|word| word as u32),
            peer_last: bits as u32,
            teid: end.teid.0,
            local_ipv4,
            local,
            sent: 0,
        })
    }

    /// Where a tunnel of this instance leads.
    #[inline]
    pub fn end(&self, tunnel: &Tunnel) -> TunnelEnd {
        let teid = Teid(tunnel.teid);
        if tunnel.local_ipv4 != 0 {
            let [local, peer] = [tunnel.local_ipv4, tunnel.peer_last].map(Ipv4Addr::from_bits);
            return self.with_port(TunnelEnd::new(teid, local.into(), peer.into()));
        }
        let place = usize::from(tunnel.local).checked_sub(1);
        let local = place.and_then(|place| self.addresses.get(place).copied());
        let [first, second, third] = tunnel.peer.map(u128::from);
        let bits = first << 96 | second << 64 | third << 32 | u128::from(tunnel.peer_last);
        let peer = Ipv6Addr::from_bits(bits).to_canonical();
        let local = local.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        self.with_port(TunnelEnd::new(teid, local, peer))
    }

    /// The far end of the tunnel that `settings` give the `nth` user.
    pub fn nth(&self, settings: &TunnelSettings, nth: u32) -> TunnelEnd {
        let TunnelSettings { teid, peer, local } = *settings;
        self.with_port(TunnelEnd::new(Teid(teid.wrapping_add(nth)), local, peer))
    }

    /// The same end, reached from the port that `sourcePort` sets.
    #[inline]
    pub fn with_port(&self, end: TunnelEnd) -> TunnelEnd {
        TunnelEnd { source_port: self.source_port.unwrap_or(end.source_port), ..end }
    }

    /// The UDP port that packets of a tunnel come from.
    #[inline(always)]
    fn port_of(&self, tunnel: &Tunnel) -> u16 {
        self.source_port.unwrap_or(TunnelEnd::port_of(Teid(tunnel.teid)))
    }

    /// Writes a tunnel as bytes.
    pub fn export(&self, tunnel: &Tunnel, out: &mut Vec<u8>) {
        let end = self.end(tunnel);
        out.extend_from_slice(&end.teid.0.to_le_bytes());
        write_address(end.peer, out);
        write_address(end.local, out);
        out.extend_from_slice(&tunnel.sent.to_le_bytes());
    }

    /// Reads what [`export`](Self::export) wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn import(&mut self, fields: &mut Fields<'_>) -> Result<Tunnel, ContextError> {
        let (teid, peer) = (Teid(fields.u32()?), read_address(fields)?);
        let end = TunnelEnd::new(teid, read_address(fields)?, peer);
        let sent = fields.u16()?;
        let tunnel = self.tunnel(end).ok_or(ContextError::Damaged)?;
        Ok(Tunnel { sent, ..tunnel })
    }
}

/// A tunnel that begins here, or none: 28 bytes of plain numbers, so both of a bearer
/// are in one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Tunnel {
    /// The first words of the address. IPv4 addresses are mapped ones.
    peer: [u32; 3],
    /// Its last word: the IPv4 address.
    pub(crate) peer_last: u32,
    pub(crate) teid: u32,
    /// The address of the node where it and the peer's are of IPv4; else 0.
    pub(crate) local_ipv4: u32,
    /// Which of [`Locals`] that address is, from 1; 0 for no tunnel.
    pub(crate) local: u16,
    /// Packets sent, which numbers them.
    pub(crate) sent: u16,
}

impl Tunnel {
    /// Itself, unless it is none.
    #[inline]
    pub fn get(&self) -> Option<Tunnel> {
        (self.local != 0).then_some(*self)
    }

    /// Whether both lead to the same peer, with the same TEID and from the same address.
    pub fn leads_like(&self, other: &Tunnel) -> bool {
        Tunnel { sent: 0, ..*self } == Tunnel { sent: 0, ..*other }
    }

    /// Itself, unless it is none.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut Tunnel> {
        if self.local != 0 { Some(self) } else { None }
    }

    /// The identification of the next packet to the end with this TEID.
    #[inline]
    pub fn number(&mut self, teid: Teid) -> u16 {
        self.sent = self.sent.wrapping_add(1);
        // Tunnels between two nodes begin at different numbers.
        TunnelEnd::port_of(teid).rotate_left(2) ^ self.sent
    }

    /// Sends an End Marker (TS 29.281 §7.3.2) into the tunnel to `end`, in a packet with
    /// the metadata of `like`. Without a `dscp` of all packets it is sent with
    /// best effort, so that it overtakes nothing on its way.
    pub fn send_end_marker(
        &mut self,
        end: &TunnelEnd,
        like: &PacketMetadata,
        dscp: Option<Dscp>,
        zero_checksum: bool,
        emit: &mut Emit<'_>,
    ) {
        let marker = Signal::EndMarker { teid: end.teid };
        let (front, headers) = (ethernet::HEADER_LENGTH, end.headers_length());
        let length = headers + marker.buffer_len();
        let Some(mut packet) = emit.allocate(like) else { return };
        let Some(frame) = packet.append(front + length) else { return };
        frame.fill(0);
        frame[12..front].copy_from_slice(&end.ether_type().0.to_be_bytes());
        let (dscp, number) = (dscp.unwrap_or_default(), self.number(end.teid));
        let written = marker.emit(&mut frame[front + headers..]).is_ok()
            && end.emit(&mut frame[front..], dscp, number, zero_checksum);
        if !written {
            return;
        }
        // As of one that came in: nothing of a user is inside.
        let metadata = packet.metadata_mut();
        metadata.ether_type = end.ether_type().0;
        metadata.protocol = Protocol::UDP.0;
        metadata.outer_offset = front as u16;
        metadata.network_offset = front as u16;
        metadata.network_length = length as u16;
        metadata.transport_offset = 0;
        metadata.flags |= PacketMetadata::TUNNELLED;
        emit.send(packet, Position::After);
    }
}

/// An address in 16 bytes: one of IPv4 as the mapped one of IPv6 (RFC 4291 §2.5.5.2).
#[inline]
pub fn to_mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// DSCP of the tunnel around a packet.
#[inline]
pub fn outer_dscp(packet: &Packet) -> Dscp {
    let outer = packet.data().get(usize::from(packet.metadata().outer_offset)..);
    match outer {
        Some([first, second, ..]) if first >> 4 == 6 => {
            Dscp::of_traffic_class(first << 4 | second >> 4)
        }
        Some([_, second, ..]) => Dscp::of_traffic_class(*second),
        _ => Dscp::default(),
    }
}
