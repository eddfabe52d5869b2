//! The IP packet that was inside.

use weft_function::{Metadata, Packet, PacketMetadata, Tunnel as _};
use weft_wire::{Ecn, EtherType, Fragment, Protocol, ipv4, ipv6, tcp, udp};

/// What the parser would have noted of it.
#[derive(Clone, Copy, Debug)]
pub struct Inner {
    ether_type: EtherType,
    protocol: Protocol,
    /// Octets of the packet; padding against traffic analysis may follow (RFC 4303 §2.7).
    pub length: usize,
    /// From the IP header to the transport header; 0 where there is none.
    transport: usize,
    is_fragment: bool,
    pub ecn: Ecn,
}

impl Inner {
    /// The packet at the front of `bytes`; none where no sound one is there.
    #[inline]
    pub fn read(bytes: &[u8], next_header: Protocol) -> Option<Inner> {
        match next_header {
            Protocol::IPV4 => {
                let ip = ipv4::Packet::new_checked(bytes).ok()?;
                ip.verify_checksum().ok()?;
                let (length, header) = (usize::from(ip.total_length()), ip.header_length());
                let inner = Inner {
                    ether_type: EtherType::IPV4,
                    protocol: ip.protocol(),
                    length,
                    transport: header,
                    is_fragment: false,
                    ecn: ip.ecn(),
                };
                inner.with_transport(ip.fragment(), ip.payload())
            }
            _ => {
                let ip = ipv6::Packet::new_checked(bytes).ok()?;
                let upper = ip.upper_layer().ok()?;
                let inner = Inner {
                    ether_type: EtherType::IPV6,
                    protocol: upper.protocol,
                    length: ip.total_length(),
                    transport: upper.offset,
                    is_fragment: false,
                    ecn: ip.ecn(),
                };
                inner.with_transport(upper.fragment, ip.as_bytes().get(upper.offset..)?)
            }
        }
    }

    /// A whole packet has a whole transport header.
    #[inline]
    fn with_transport(mut self, fragment: Option<Fragment>, transport: &[u8]) -> Option<Inner> {
        let fragment = fragment.filter(|fragment| !fragment.is_whole());
        self.is_fragment = fragment.is_some();
        if fragment.is_some_and(|fragment| !fragment.is_first()) {
            self.transport = 0;
            return Some(self);
        }
        let whole = match self.protocol {
            Protocol::UDP if self.is_fragment => {
                udp::Datagram::new_checked_fragment(transport).is_ok()
            }
            Protocol::UDP => udp::Datagram::new_checked(transport).is_ok(),
            Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
            _ => true,
        };
        if !whole {
            self.transport = 0;
        }
        (whole || self.is_fragment).then_some(self)
    }

    /// Takes off everything in front of the packet, which is at `start`, and behind it.
    #[inline]
    pub fn unwrap(&self, packet: &mut Packet, start: usize) {
        let metadata = packet.metadata_mut();
        metadata.outer_offset = metadata.network_offset;
        metadata.network_offset = start as u16;
        metadata.network_length = self.length as u16;
        metadata.ether_type = self.ether_type.0;
        metadata.protocol = self.protocol.0;
        metadata.transport_offset = (start + self.transport) as u16;
        metadata.flags &= !PacketMetadata::FRAGMENT;
        if self.is_fragment {
            metadata.flags |= PacketMetadata::FRAGMENT;
        }
        packet.unwrap_tunnel();
        if self.transport == 0 {
            packet.metadata_mut().transport_offset = 0;
        }
    }
}
