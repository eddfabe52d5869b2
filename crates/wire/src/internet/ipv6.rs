//! IPv6 packets (RFC 8200) and the walk over their extension headers.

use std::fmt;
use std::net::Ipv6Addr;
use std::ops::Range;

use crate::Error;
use crate::checksum::PseudoHeader;
use crate::ip::{Dscp, Ecn, Protocol, traffic_class};
use crate::octets::{array, header, put, put_u16, put_u32, u16_at, u32_at};

mod extension;

pub use extension::{MAX_EXTENSION_HEADERS, UpperLayer};

/// Octets of the header, without extension headers.
pub const HEADER_LENGTH: usize = 40;

mod field {
    use super::Range;

    pub const VERSION_CLASS_AND_FLOW: Range<usize> = 0..4;
    pub const PAYLOAD_LENGTH: Range<usize> = 4..6;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SOURCE: Range<usize> = 8..24;
    pub const DESTINATION: Range<usize> = 24..40;
}

mod mask {
    pub const TRAFFIC_CLASS: u32 = 0x0ff0_0000;
    pub const FLOW_LABEL: u32 = 0x000f_ffff;
}

/// View of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks version and length. The bytes may go on behind the packet, as
    /// Ethernet's padding does. Extension headers are not looked at; see
    /// [`upper_layer`](Self::upper_layer).
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::BadVersion`], [`Error::BadPayloadLength`];
    /// and for a payload length of 0 with any next header but "none",
    /// [`Error::Jumbogram`] or [`Error::MissingPayload`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let length = bytes.as_ref().len();
        if length < HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        let packet = Self { bytes };
        if packet.first_word() >> 28 != 6 {
            return Err(Error::BadVersion);
        }
        let payload_length = usize::from(packet.payload_length());
        if payload_length > length - HEADER_LENGTH {
            return Err(Error::BadPayloadLength);
        }
        if payload_length == 0 {
            match packet.next_header() {
                Protocol::NO_NEXT_HEADER => {}
                Protocol::HOP_BY_HOP => return Err(Error::Jumbogram),
                _ => return Err(Error::MissingPayload),
            }
        }
        Ok(packet)
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    #[inline]
    fn first_word(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::VERSION_CLASS_AND_FLOW)
    }

    #[inline]
    fn traffic_class(&self) -> u8 {
        (self.first_word() >> 20) as u8
    }

    /// How the packet wants to be forwarded.
    #[inline]
    pub fn dscp(&self) -> Dscp {
        Dscp::of_traffic_class(self.traffic_class())
    }

    /// Congestion notification.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::of_traffic_class(self.traffic_class())
    }

    /// Flow label, 20 bits (RFC 6437).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.first_word() & mask::FLOW_LABEL
    }

    /// Octets that follow the header, extension headers included.
    #[inline]
    pub fn payload_length(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::PAYLOAD_LENGTH)
    }

    /// What follows the header: an extension header, or the upper layer.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.bytes.as_ref()[field::NEXT_HEADER])
    }

    /// Routers that may still forward the packet.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.bytes.as_ref()[field::HOP_LIMIT]
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.bytes.as_ref(), field::SOURCE))
    }

    /// Destination address; with a routing header, of the next stop only.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.bytes.as_ref(), field::DESTINATION))
    }

    /// Octets of the packet, header included.
    #[inline]
    pub fn total_length(&self) -> usize {
        HEADER_LENGTH + usize::from(self.payload_length())
    }

    /// What follows the header, without what follows the packet.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(HEADER_LENGTH..self.total_length()).unwrap_or_default()
    }

    /// The packet without what follows it in the bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref().get(..self.total_length()).unwrap_or_default()
    }

    /// What the transport's checksum covers of this header. Without a routing
    /// header, that is: its last address would be the destination.
    #[inline]
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V6 { source: self.source(), destination: self.destination() }
    }

    /// Walks the extension headers (hop-by-hop options, routing, fragment,
    /// destination options, authentication) to what the packet carries.
    ///
    /// # Errors
    /// [`Error::TooManyExtensionHeaders`], [`Error::TruncatedExtensionHeader`],
    /// [`Error::BadExtensionHeaderLength`], [`Error::MisplacedHopByHop`] or
    /// [`Error::RepeatedFragmentHeader`].
    #[inline]
    pub fn upper_layer(&self) -> Result<UpperLayer, Error> {
        extension::upper_layer(self.as_bytes(), self.next_header())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    #[inline]
    fn set_first_word(&mut self, mask: u32, value: u32) {
        let word = self.first_word() & !mask | value & mask;
        put_u32(self.bytes.as_mut(), field::VERSION_CLASS_AND_FLOW, word);
    }

    /// Sets how the packet wants to be forwarded.
    #[inline]
    pub fn set_dscp(&mut self, dscp: Dscp) {
        let class = traffic_class(dscp, self.ecn());
        self.set_first_word(mask::TRAFFIC_CLASS, u32::from(class) << 20);
    }

    /// Sets the congestion notification.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        let class = traffic_class(self.dscp(), ecn);
        self.set_first_word(mask::TRAFFIC_CLASS, u32::from(class) << 20);
    }

    /// Sets the flow label; the lower 20 bits count.
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        self.set_first_word(mask::FLOW_LABEL, label);
    }

    /// Sets the octets that follow the header.
    #[inline]
    pub fn set_payload_length(&mut self, length: u16) {
        put_u16(self.bytes.as_mut(), field::PAYLOAD_LENGTH, length);
    }

    /// Sets what follows the header.
    #[inline]
    pub fn set_next_header(&mut self, protocol: Protocol) {
        self.bytes.as_mut()[field::NEXT_HEADER] = protocol.0;
    }

    /// Sets how many routers may still forward the packet.
    #[inline]
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        self.bytes.as_mut()[field::HOP_LIMIT] = hop_limit;
    }

    /// Counts one router. Returns whether the packet may be forwarded; where
    /// not (RFC 8200 §3), it is left as it was.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let hop_limit = self.hop_limit();
        if hop_limit <= 1 {
            return false;
        }
        self.set_hop_limit(hop_limit - 1);
        true
    }

    /// Sets the source address.
    #[inline]
    pub fn set_source(&mut self, address: Ipv6Addr) {
        put(self.bytes.as_mut(), field::SOURCE, &address.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        put(self.bytes.as_mut(), field::DESTINATION, &address.octets());
    }

    /// What follows the header, without what follows the packet.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LENGTH..self.total_length();
        self.bytes.as_mut().get_mut(range).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A header as a value, without extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// What follows the header.
    pub next_header: Protocol,
    /// Octets that follow the header.
    pub payload_length: u16,
    /// Routers that may still forward the packet.
    pub hop_limit: u8,
    /// How the packet wants to be forwarded.
    pub dscp: Dscp,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Flow label; the lower 20 bits are emitted.
    pub flow_label: u32,
}

impl Default for Repr {
    /// From and to `::` with a hop limit of 64 and nothing behind the header.
    #[inline]
    fn default() -> Self {
        Self {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
            next_header: Protocol::NO_NEXT_HEADER,
            payload_length: 0,
            hop_limit: 64,
            dscp: Dscp::CS0,
            ecn: Ecn::NotEct,
            flow_label: 0,
        }
    }
}

impl Repr {
    /// The header of a packet.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            source: packet.source(),
            destination: packet.destination(),
            next_header: packet.next_header(),
            payload_length: packet.payload_length(),
            hop_limit: packet.hop_limit(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            flow_label: packet.flow_label(),
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the header to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        put_u32(bytes, field::VERSION_CLASS_AND_FLOW, 6 << 28);
        let mut packet = Packet { bytes };
        packet.set_dscp(self.dscp);
        packet.set_ecn(self.ecn);
        packet.set_flow_label(self.flow_label);
        packet.set_payload_length(self.payload_length);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_source(self.source);
        packet.set_destination(self.destination);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, next_header, hop_limit, payload_length, .. } = self;
        write!(f, "ipv6 {source} > {destination} {next_header} hop limit {hop_limit}")?;
        write!(f, " dscp {} payload {payload_length}", self.dscp)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    fn packet() -> Vec<u8> {
        hex("6ba12345 000c 11 40 20010db8000000000000000000000001 \
             20010db8000000000000000000000002 13880868000caa97 77656674")
    }

    #[test]
    fn reads_a_packet() {
        let packet = Packet::new_checked(packet()).unwrap();
        let repr = Repr {
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
            next_header: Protocol::UDP,
            payload_length: 12,
            hop_limit: 64,
            dscp: Dscp::EF,
            ecn: Ecn::Ect0,
            flow_label: 0x12345,
        };
        assert_eq!(Repr::parse(&packet), repr);
        assert_eq!(packet.payload()[8..], *b"weft");
        assert_eq!(packet.total_length(), 52);
        let upper = UpperLayer { protocol: Protocol::UDP, offset: 40, fragment: None };
        assert_eq!(packet.upper_layer(), Ok(upper));
        let text = "ipv6 2001:db8::1 > 2001:db8::2 udp hop limit 64 dscp ef payload 12";
        assert_eq!(packet.to_string(), text);
    }

    #[test]
    fn writes_what_it_read() {
        let repr = Repr::parse(&Packet::new_checked(packet()).unwrap());
        let mut copy = [0xaa; 41];
        repr.emit(&mut copy).unwrap();
        assert_eq!(copy[..40], packet()[..40]);
        assert_eq!(copy[40], 0xaa);
        assert_eq!(repr.emit(&mut copy[..39]), Err(Error::BufferTooShort));
    }

    #[test]
    fn padding_is_not_payload() {
        let mut bytes = packet();
        bytes.extend([0xee; 3]);
        let mut view = Packet::new_checked(&mut bytes[..]).unwrap();
        assert_eq!(view.payload_mut().len(), 12);
        assert_eq!(view.as_bytes(), packet());
    }

    /// Fault 14: a payload length of 0 although a header is announced; and
    /// fault 15: jumbograms.
    #[test]
    fn fault_14_and_15_no_payload() {
        let defect = |next_header: Protocol| {
            let mut bytes = packet();
            bytes[4..6].fill(0);
            bytes[6] = next_header.0;
            Packet::new_checked(bytes).err()
        };
        assert_eq!(defect(Protocol::UDP), Some(Error::MissingPayload));
        assert_eq!(defect(Protocol::HOP_BY_HOP), Some(Error::Jumbogram));
        assert_eq!(defect(Protocol::NO_NEXT_HEADER), None);
    }

    #[test]
    fn defects_are_named() {
        let mut bytes = packet();
        assert_eq!(Packet::new_checked(&bytes[..39]).unwrap_err(), Error::Truncated);
        assert_eq!(Packet::new_checked(&bytes[..51]).unwrap_err(), Error::BadPayloadLength);
        bytes[0] = 0x4b;
        assert_eq!(Packet::new_checked(bytes).unwrap_err(), Error::BadVersion);
    }

    #[test]
    fn setters_change_their_field_only() {
        let mut packet = Packet::new_checked(packet()).unwrap();
        packet.set_dscp(Dscp::CS0);
        packet.set_ecn(Ecn::Ce);
        packet.set_flow_label(0xfff0_0001);
        packet.set_payload_length(11);
        packet.set_next_header(Protocol::TCP);
        packet.set_hop_limit(2);
        packet.set_source(Ipv6Addr::LOCALHOST);
        packet.set_destination(Ipv6Addr::UNSPECIFIED);
        assert_eq!(packet.payload().len(), 11);
        assert!(packet.decrement_hop_limit());
        assert!(!packet.decrement_hop_limit());
        let header = hex("60300001 000b 06 01 00000000000000000000000000000001 \
             00000000000000000000000000000000");
        assert_eq!(packet.into_inner()[..40], header);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in hostile(packet()), length: u16) {
            if let Ok(packet) = Packet::new_checked(&bytes[..]) {
                black_box((packet.upper_layer().ok(), packet.to_string()));
                prop_assert_eq!(packet.payload().len(), usize::from(packet.payload_length()));
                let mut copy = bytes.clone();
                Repr::parse(&packet).emit(&mut copy).unwrap();
                prop_assert_eq!(&copy, &bytes);
                let mut packet = Packet::new_checked(&mut copy[..]).unwrap();
                packet.set_payload_length(length);
                black_box((packet.payload_mut().len(), packet.as_bytes().len()));
                black_box(packet.upper_layer().ok());
            }
        }

        #[test]
        fn parse_of_emit(
            addresses: [Ipv6Addr; 2],
            next_header: u8,
            payload_length in 1..2000_u16,
            hop_limit: u8,
            class: u8,
            flow_label in 0..0x10_0000_u32,
        ) {
            let repr = Repr {
                source: addresses[0],
                destination: addresses[1],
                next_header: Protocol(next_header),
                payload_length,
                hop_limit,
                dscp: Dscp::of_traffic_class(class),
                ecn: Ecn::of_traffic_class(class),
                flow_label,
            };
            let mut bytes = vec![0xff; repr.buffer_len() + usize::from(payload_length)];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), repr);
        }
    }
}
