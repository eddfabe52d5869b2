//! The IP header around an encrypted packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_function::{ConfigError, ContextError, Fields, PacketMetadata};
use weft_wire::checksum::sum20;
use weft_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};

use crate::common::export::{read_address, write_address};

/// Time to live and hop limit of packets that begin here.
const HOPS: u8 = 64;
const FRONT: usize = ethernet::HEADER_LENGTH;

/// Both ends of a tunnel, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    V4([Ipv4Addr; 2]),
    V6([Ipv6Addr; 2]),
}

/// What hangs on the packet inside.
#[derive(Clone, Copy, Debug)]
pub struct Outside {
    pub traffic_class: u8,
    pub dont_fragment: bool,
    /// Identification, for who must put fragments together.
    pub number: u16,
}

impl Ends {
    /// From this address to that.
    ///
    /// # Errors
    /// [`ConfigError`] where they are not two hosts' of one family.
    pub fn new(local: IpAddr, peer: IpAddr) -> Result<Ends, ConfigError> {
        for (path, address) in [("local", local), ("peer", peer)] {
            if address.is_unspecified() || address.is_multicast() {
                let message = format!("{address} is not the address of one host");
                return Err(ConfigError::at(path, message));
            }
        }
        match (local, peer) {
            (IpAddr::V4(local), IpAddr::V4(peer)) => Ok(Ends::V4([local, peer])),
            (IpAddr::V6(local), IpAddr::V6(peer)) => Ok(Ends::V6([local, peer])),
            _ => Err(ConfigError::at("local", "peer and local are of one family")),
        }
    }

    /// Octets of the header.
    #[inline]
    pub fn header_length(&self) -> usize {
        match self {
            Ends::V4(_) => ipv4::MIN_HEADER_LENGTH,
            Ends::V6(_) => ipv6::HEADER_LENGTH,
        }
    }

    #[inline]
    pub fn is_ipv4(&self) -> bool {
        matches!(self, Ends::V4(_))
    }

    #[inline]
    pub fn ether_type(&self) -> EtherType {
        if self.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 }
    }

    /// Writes the header of a packet of `length` octets, header included, to the front of
    /// `bytes`, which are as many.
    #[inline]
    pub fn write(&self, bytes: &mut [u8], length: u16, outside: Outside) -> Option<()> {
        match self {
            Ends::V4([local, peer]) => {
                let header = bytes.first_chunk_mut::<{ ipv4::MIN_HEADER_LENGTH }>()?;
                *header = [0; ipv4::MIN_HEADER_LENGTH];
                (header[0], header[1]) = (0x45, outside.traffic_class);
                header[2..4].copy_from_slice(&length.to_be_bytes());
                // What is not fragmented needs no identification (RFC 6864 §4.1).
                match outside.dont_fragment {
                    true => header[6] = 0x40,
                    false => header[4..6].copy_from_slice(&outside.number.to_be_bytes()),
                }
                (header[8], header[9]) = (HOPS, Protocol::ESP.0);
                header[12..16].copy_from_slice(&local.octets());
                header[16..].copy_from_slice(&peer.octets());
                let checksum = !sum20(header);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            Ends::V6([local, peer]) => {
                let header = bytes.first_chunk_mut::<{ ipv6::HEADER_LENGTH }>()?;
                let first = 6 << 28 | u32::from(outside.traffic_class) << 20;
                header[..4].copy_from_slice(&first.to_be_bytes());
                let payload = length - ipv6::HEADER_LENGTH as u16;
                header[4..6].copy_from_slice(&payload.to_be_bytes());
                (header[6], header[7]) = (Protocol::ESP.0, HOPS);
                header[8..24].copy_from_slice(&local.octets());
                header[24..].copy_from_slice(&peer.octets());
            }
        }
        Some(())
    }

    /// From here on it is this packet of `length` octets.
    #[inline]
    pub fn annotate(&self, metadata: &mut PacketMetadata, length: u16) {
        metadata.ether_type = self.ether_type().0;
        metadata.network_offset = FRONT as u16;
        metadata.network_length = length;
        metadata.protocol = Protocol::ESP.0;
        metadata.transport_offset = (FRONT + self.header_length()) as u16;
        metadata.outer_offset = 0;
        metadata.flags &= !PacketMetadata::FRAGMENT;
    }

    pub fn export(&self, out: &mut Vec<u8>) {
        let (local, peer): (IpAddr, IpAddr) = match *self {
            Ends::V4([local, peer]) => (local.into(), peer.into()),
            Ends::V6([local, peer]) => (local.into(), peer.into()),
        };
        write_address(local, out);
        write_address(peer, out);
    }

    /// Reads what [`export`](Self::export) wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn import(fields: &mut Fields<'_>) -> Result<Ends, ContextError> {
        Ends::new(read_address(fields)?, read_address(fields)?).map_err(|_| ContextError::Damaged)
    }
}
