//! What packets are carried in, between Ethernet and their own IP header.

use std::net::IpAddr;

use weft_wire::gtpu::{self, ExtensionRepr, Extensions, MessageType, PduSession, Qfi, Teid};
use weft_wire::nsh::{self, Metadata, NextProtocol, ServicePathId};
use weft_wire::{Error, EtherType, Protocol, ethernet, ipv4, ipv6, udp, vxlan_gpe};

use crate::template::endpoints::Direction;

/// EtherType of NSH (RFC 8300 §6.1).
const NSH: EtherType = EtherType(0x894f);

/// What packets are carried in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encapsulation {
    /// Nothing.
    #[default]
    None,
    /// GTP-U (3GPP TS 29.281): G-PDUs, each flow in a tunnel of its own.
    Gtpu {
        /// Where the tunnels begin.
        source: IpAddr,
        /// Where they end; of the family of `source`.
        destination: IpAddr,
        /// TEID of the first flow; each further flow has the next one.
        first_teid: Teid,
        /// With it, packets have a PDU Session Container (TS 38.415).
        qfi: Option<Qfi>,
    },
    /// NSH with MD type 2 and no context headers (RFC 8300).
    Nsh {
        /// The service path.
        path: ServicePathId,
        /// The service index.
        index: u8,
        /// Between these two addresses in VXLAN-GPE over UDP; without them, right
        /// behind Ethernet.
        over: Option<(IpAddr, IpAddr)>,
    },
}

impl Encapsulation {
    /// Addresses of the outer IP header.
    fn outer(&self) -> Option<(IpAddr, IpAddr)> {
        match self {
            Encapsulation::None => None,
            Encapsulation::Gtpu { source, destination, .. } => Some((*source, *destination)),
            Encapsulation::Nsh { over, .. } => *over,
        }
    }

    /// Bytes between Ethernet and the packet's own IP header.
    pub(crate) fn length(&self) -> usize {
        let outer = match self.outer() {
            None => 0,
            Some((IpAddr::V4(_), _)) => ipv4::MIN_HEADER_LENGTH + udp::HEADER_LENGTH,
            Some((IpAddr::V6(_), _)) => ipv6::HEADER_LENGTH + udp::HEADER_LENGTH,
        };
        outer
            + match self {
                Encapsulation::None => 0,
                // Neither direction nor payload changes a header's length.
                Encapsulation::Gtpu { .. } => self.gtpu(Direction::Uplink, 0).buffer_len(),
                Encapsulation::Nsh { over: Some(_), .. } => {
                    vxlan_gpe::HEADER_LENGTH + nsh::MIN_HEADER_LENGTH
                }
                Encapsulation::Nsh { over: None, .. } => nsh::MIN_HEADER_LENGTH,
            }
    }

    /// TEID of the first flow, and where in a frame TEIDs stand.
    pub(crate) fn teid(&self) -> Option<(u32, usize)> {
        let Encapsulation::Gtpu { source, first_teid, .. } = self else { return None };
        let ip = if source.is_ipv4() { ipv4::MIN_HEADER_LENGTH } else { ipv6::HEADER_LENGTH };
        Some((first_teid.0, ethernet::HEADER_LENGTH + ip + udp::HEADER_LENGTH + 4))
    }

    /// Writes all headers in front of an `inner` packet of so many bytes over
    /// zeros; returns the EtherType. Outer UDP checksums stay zero, as they may in
    /// tunnels (RFC 768, RFC 6935 §5).
    pub(crate) fn emit(
        &self,
        bytes: &mut [u8],
        inner: EtherType,
        direction: Direction,
        length: usize,
    ) -> Result<EtherType, Error> {
        let own = self.length();
        let Some((source, destination)) = self.outer() else {
            if *self == Encapsulation::None {
                return Ok(inner);
            }
            self.nsh(inner)?.emit(bytes)?;
            return Ok(NSH);
        };
        let port = match self {
            Encapsulation::Gtpu { .. } => gtpu::PORT,
            _ => vxlan_gpe::PORT,
        };
        let ether_type = outer_ip(bytes, source, destination, own + length)?;
        let ip = if source.is_ipv4() { ipv4::MIN_HEADER_LENGTH } else { ipv6::HEADER_LENGTH };
        let payload_length = (own - ip - udp::HEADER_LENGTH + length) as u16;
        let header = udp::Repr { source_port: port, destination_port: port, payload_length };
        header.emit(&mut bytes[ip..])?;
        let behind = &mut bytes[ip + udp::HEADER_LENGTH..];
        match self {
            Encapsulation::Gtpu { .. } => self.gtpu(direction, length).emit(behind)?,
            _ => {
                vxlan_gpe::Repr { next_protocol: NextProtocol::NSH, ..Default::default() }
                    .emit(behind)?;
                self.nsh(inner)?.emit(&mut behind[vxlan_gpe::HEADER_LENGTH..])?;
            }
        }
        Ok(ether_type)
    }

    fn gtpu(&self, direction: Direction, payload_length: usize) -> gtpu::Repr {
        let Encapsulation::Gtpu { qfi, .. } = self else { return gtpu::Repr::default() };
        let session = qfi.map(|qfi| match direction {
            Direction::Uplink => PduSession::Uplink { qfi },
            Direction::Downlink => {
                PduSession::Downlink { qfi, reflective: false, paging_policy: None }
            }
        });
        let extensions = session.map(|session| Extensions::one(ExtensionRepr::PduSession(session)));
        gtpu::Repr {
            message_type: MessageType::G_PDU,
            extensions: extensions.unwrap_or(Extensions::NONE),
            payload_length,
            ..Default::default()
        }
    }

    fn nsh(&self, inner: EtherType) -> Result<nsh::Repr, Error> {
        let Encapsulation::Nsh { path, index, .. } = *self else { return Err(Error::BadVersion) };
        let next_protocol = match inner {
            EtherType::IPV4 => NextProtocol::IPV4,
            _ => NextProtocol::IPV6,
        };
        let metadata = Metadata::Variable { length: 0 };
        let time_to_live = nsh::DEFAULT_TTL;
        Ok(nsh::Repr { oam: false, time_to_live, next_protocol, path, index, metadata })
    }
}

/// Writes an outer IP header for a packet of `length` bytes in all.
fn outer_ip(
    bytes: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
    length: usize,
) -> Result<EtherType, Error> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let payload_length = (length - ipv4::MIN_HEADER_LENGTH) as u16;
            let protocol = Protocol::UDP;
            ipv4::Repr { source, destination, protocol, payload_length, ..Default::default() }
                .emit(bytes)?;
            Ok(EtherType::IPV4)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let payload_length = (length - ipv6::HEADER_LENGTH) as u16;
            let next_header = Protocol::UDP;
            ipv6::Repr { source, destination, next_header, payload_length, ..Default::default() }
                .emit(bytes)?;
            Ok(EtherType::IPV6)
        }
        _ => Err(Error::BadVersion),
    }
}

/// Whether a UDP datagram at `port` is a tunnel's.
pub(crate) fn is_tunnel(port: u16) -> bool {
    matches!(port, gtpu::PORT | vxlan_gpe::PORT)
}

/// The IP packet that a UDP datagram at `port` carries, and its EtherType; none
/// where it is no tunnel's.
#[inline]
pub(crate) fn datagram_carries(port: u16, payload: &[u8]) -> Option<(EtherType, &[u8])> {
    match port {
        gtpu::PORT => {
            let start = gtpu::Message::new_checked(payload).ok()?;
            let inner = payload.get(start.header_length()..)?;
            Some((ip_type(inner)?, inner))
        }
        vxlan_gpe::PORT => {
            let packet = vxlan_gpe::Packet::new_checked(payload).ok()?;
            let inner = payload.get(vxlan_gpe::HEADER_LENGTH..)?;
            (packet.next_protocol() == NextProtocol::NSH).then(|| frame_carries(NSH, inner))?
        }
        _ => None,
    }
}

/// The IP packet that a frame of this EtherType carries behind NSH.
#[inline]
pub(crate) fn frame_carries(ether_type: EtherType, payload: &[u8]) -> Option<(EtherType, &[u8])> {
    if ether_type != NSH {
        return None;
    }
    let start = nsh::Packet::new_checked(payload).ok()?;
    let inner = payload.get(start.header_length()..)?;
    Some((ip_type(inner)?, inner))
}

/// What kind of IP packet this is.
fn ip_type(packet: &[u8]) -> Option<EtherType> {
    match packet.first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}
