//! What follows from the length of a packet and from other octets (INFERRED), and
//! checksums that say whether it is right.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Chain, Layer, Transport};
use crate::checksum::{PseudoHeader, add, sum, sum20};
use crate::octets::{array, put_u16, u16_at};
use crate::{Error, Protocol, ipv4, ipv6};

impl Chain {
    /// Whether lengths and IPv4 checksums of a packet of `total` octets are
    /// those that [`infer`](Self::infer) would write.
    #[inline]
    pub fn can_be_inferred(&self, header: &[u8], total: usize) -> bool {
        self.layers().iter().all(|layer| layer.agrees(header, total))
            && (self.transport != Transport::Udp
                || self.transport_offset() + usize::from(udp_length(header, self)) == total)
    }

    /// Writes the length fields of a packet of `total` octets, those of headers
    /// that are otherwise sent as they are too: full headers carry a context in
    /// them (RFC 2507 §5.3).
    ///
    /// # Errors
    /// [`Error::PayloadTooLong`] above 65,535 octets.
    pub fn restore_lengths(&self, header: &mut [u8], total: usize) -> Result<(), Error> {
        self.check(header, total)?;
        for layer in self.layers() {
            let at = layer.length_field();
            let before = layer.offset() + if layer.is_v6() { ipv6::HEADER_LENGTH } else { 0 };
            put_u16(header, at..at + 2, (total - before) as u16);
        }
        self.infer_udp(header, total);
        Ok(())
    }

    /// Writes the INFERRED fields of a packet of `total` octets. Of IPv4 headers
    /// with options and of fragments there are none (RFC 2507 §7.13 b).
    ///
    /// # Errors
    /// [`Error::PayloadTooLong`] above 65,535 octets.
    #[inline]
    pub fn infer(&self, header: &mut [u8], total: usize) -> Result<(), Error> {
        self.check(header, total)?;
        for layer in self.layers().iter().filter(|layer| !layer.is_whole()) {
            layer.infer(header, total);
        }
        self.infer_udp(header, total);
        Ok(())
    }

    #[inline]
    fn check(&self, header: &[u8], total: usize) -> Result<(), Error> {
        match total <= usize::from(u16::MAX) && header.len().min(total) >= self.length() {
            true => Ok(()),
            false => Err(Error::PayloadTooLong),
        }
    }

    #[inline]
    fn infer_udp(&self, header: &mut [u8], total: usize) {
        if self.transport == Transport::Udp {
            let at = self.transport_offset();
            put_u16(header, at + 4..at + 6, (total - at) as u16);
        }
    }

    /// Whether the TCP checksum is right; false for headers without TCP, and
    /// behind a routing header of unknown type.
    pub fn tcp_checksum_is_right(&self, header: &[u8], payload: &[u8]) -> bool {
        let tcp = header.get(self.transport_offset()..self.length());
        let (Some(tcp), Transport::Tcp) = (tcp, self.transport) else { return false };
        let Some(pseudo_header) = self.pseudo_header(header) else { return false };
        let length = tcp.len() + payload.len();
        let total = add(pseudo_header.sum(Protocol::TCP, length), sum(tcp));
        add(total, sum(payload)) == 0xffff
    }

    fn pseudo_header(&self, headers: &[u8]) -> Option<PseudoHeader> {
        let layer = self.layers().last()?;
        let header = headers.get(layer.offset()..self.length())?;
        if layer.is_v6() {
            let source = Ipv6Addr::from(array::<16>(header, 8..24));
            let destination = self.final_destination(headers, array(header, 24..40))?;
            return Some(PseudoHeader::V6 { source, destination: destination.into() });
        }
        let source = Ipv4Addr::from(array::<4>(header, 12..16));
        let destination = Ipv4Addr::from(array::<4>(header, 16..20));
        Some(PseudoHeader::V4 { source, destination })
    }

    /// Where a packet goes in the end (RFC 8200 §8.1): the last address of a
    /// routing header of type 0 or 2, the first of type 4 (RFC 8754 §2).
    fn final_destination(&self, headers: &[u8], destination: [u8; 16]) -> Option<[u8; 16]> {
        let routing = usize::from(self.routing & !Self::SPECIAL);
        if routing == 0 {
            return Some(destination);
        }
        let header = headers.get(routing..self.length())?;
        let &[_, words, kind, left] = header.first_chunk()?;
        let header = header.get(..(usize::from(words) + 1) * 8)?;
        match (left, kind) {
            (0, _) => Some(destination),
            (_, 0 | 2) => header.get(8..)?.last_chunk().copied(),
            (_, 4) => header.get(8..)?.first_chunk().copied(),
            _ => None,
        }
    }
}

impl Layer {
    #[inline]
    fn agrees(self, header: &[u8], total: usize) -> bool {
        let at = self.offset();
        let Some(header) = header.get(at..) else { return false };
        if self.is_v6() {
            return header.len() >= ipv6::HEADER_LENGTH
                && usize::from(u16_at(header, 4..6)) + ipv6::HEADER_LENGTH + at == total;
        }
        let Some(header) = header.first_chunk::<{ ipv4::MIN_HEADER_LENGTH }>() else {
            return false;
        };
        usize::from(u16_at(header, 2..4)) + at == total
            // All ones is no checksum that is ever computed.
            && (self.is_whole() || u16_at(header, 10..12) != 0xffff && sum20(header) == 0xffff)
    }

    /// The header is there: the chain is of these octets.
    #[inline]
    fn infer(self, header: &mut [u8], total: usize) {
        let at = self.offset();
        let header = &mut header[at..];
        if self.is_v6() {
            put_u16(header, 4..6, (total - at - ipv6::HEADER_LENGTH) as u16);
            return;
        }
        put_u16(header, 2..4, (total - at) as u16);
        put_u16(header, 10..12, 0);
        if let Some(header) = header.first_chunk_mut() {
            let checksum = !sum20(header);
            put_u16(header, 10..12, checksum);
        }
    }
}

#[inline]
fn udp_length(header: &[u8], chain: &Chain) -> u16 {
    let at = chain.transport_offset() + 4;
    header.get(at..at + 2).map_or(0, |length| u16_at(length, 0..2))
}
