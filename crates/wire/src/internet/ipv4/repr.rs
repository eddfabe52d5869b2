//! The header of a packet as a value.

use std::fmt;
use std::net::Ipv4Addr;

use super::{MIN_HEADER_LENGTH, Packet, field};
use crate::Error;
use crate::ip::{Dscp, Ecn, Protocol, traffic_class};
use crate::octets::header;
use crate::options::Options;

/// A header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// What the packet carries.
    pub protocol: Protocol,
    /// Octets that follow the header.
    pub payload_length: u16,
    /// Routers that may still forward the packet.
    pub time_to_live: u8,
    /// How the packet wants to be forwarded.
    pub dscp: Dscp,
    /// Congestion notification.
    pub ecn: Ecn,
    /// The same in all fragments of one datagram.
    pub identification: u16,
    /// Routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Another fragment follows this one.
    pub more_fragments: bool,
    /// Where in its datagram the payload begins, in octets, rounded down to a
    /// multiple of 8.
    pub fragment_offset: u16,
    /// Options, padded.
    pub options: Options,
}

impl Default for Repr {
    /// From and to 0.0.0.0 with a time to live of 64, and zeros elsewhere.
    #[inline]
    fn default() -> Self {
        Self {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
            protocol: Protocol::default(),
            payload_length: 0,
            time_to_live: 64,
            dscp: Dscp::CS0,
            ecn: Ecn::NotEct,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            options: Options::NONE,
        }
    }
}

impl Repr {
    /// The header of a packet.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            payload_length: packet.payload().len() as u16,
            time_to_live: packet.time_to_live(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            options: Options::new(packet.options()).unwrap_or_default(),
        }
    }

    /// Octets that [`emit`](Self::emit) writes: the header with options.
    #[inline]
    pub fn buffer_len(&self) -> usize {
        MIN_HEADER_LENGTH + self.options.as_bytes().len()
    }

    /// Writes the header with its checksum to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets;
    /// [`Error::PayloadTooLong`] where header and payload exceed 65535 octets.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let header_length = self.buffer_len();
        let total_length =
            (header_length as u16).checked_add(self.payload_length).ok_or(Error::PayloadTooLong)?;
        let bytes = header(buffer, header_length)?;
        bytes[..MIN_HEADER_LENGTH].fill(0);
        bytes[field::VERSION_AND_LENGTH] = 0x40 | (header_length / 4) as u8;
        bytes[field::TYPE_OF_SERVICE] = traffic_class(self.dscp, self.ecn);
        bytes[MIN_HEADER_LENGTH..].copy_from_slice(self.options.as_bytes());
        let mut packet = Packet { bytes };
        packet.set_total_length(total_length);
        packet.set_identification(self.identification);
        packet.set_dont_fragment(self.dont_fragment);
        packet.set_more_fragments(self.more_fragments);
        packet.set_fragment_offset(self.fragment_offset);
        packet.set_time_to_live(self.time_to_live);
        packet.set_protocol(self.protocol);
        packet.set_source(self.source);
        packet.set_destination(self.destination);
        packet.fill_checksum();
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, protocol, time_to_live, payload_length, .. } = self;
        write!(f, "ipv4 {source} > {destination} {protocol} ttl {time_to_live}")?;
        write!(f, " dscp {} payload {payload_length}", self.dscp)?;
        if self.more_fragments || self.fragment_offset > 0 {
            let more = if self.more_fragments { " more follow" } else { "" };
            write!(f, " fragment {} at {}{more}", self.identification, self.fragment_offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::hex;

    fn packet() -> Vec<u8> {
        hex("45b9 0020 1234 4000 40 11 3ba9 c0000201 c6336402 13880868000c19d5 77656674")
    }

    fn fragment() -> Vec<u8> {
        hex("4600 0020 0007 20b9 03 11 ee06 0a000001 0a000002 94040000 6162636465666768")
    }

    #[test]
    fn writes_what_it_read() {
        for original in [packet(), fragment()] {
            let repr = Repr::parse(&Packet::new_checked(&original[..]).unwrap());
            let mut copy = [0xaa; 60];
            repr.emit(&mut copy).unwrap();
            let length = repr.buffer_len();
            assert_eq!(copy[..length], original[..length]);
            assert_eq!(copy[length], 0xaa);
            assert_eq!(repr.emit(&mut copy[..length - 1]), Err(Error::BufferTooShort));
        }
        let long = Repr { payload_length: 65516, ..Repr::default() };
        assert_eq!(long.emit(&mut [0; 20]), Err(Error::PayloadTooLong));
    }

    fn repr() -> impl Strategy<Value = Repr> {
        let addresses = any::<(Ipv4Addr, Ipv4Addr)>();
        let service = (0..64_u8, 0..4_u8);
        let part = (any::<u16>(), any::<bool>(), any::<bool>(), 0..0x2000_u16);
        let rest = (any::<u8>(), 0..=65475_u16, any::<u8>(), vec(any::<u8>(), 0..=40));
        (addresses, service, part, rest).prop_map(|(addresses, service, part, rest)| Repr {
            source: addresses.0,
            destination: addresses.1,
            dscp: Dscp::new(service.0).unwrap(),
            ecn: Ecn::of_traffic_class(service.1),
            identification: part.0,
            dont_fragment: part.1,
            more_fragments: part.2,
            fragment_offset: part.3 * 8,
            protocol: Protocol(rest.0),
            payload_length: rest.1,
            time_to_live: rest.2,
            options: Options::new(&rest.3).unwrap(),
        })
    }

    proptest! {
        #[test]
        fn parse_of_emit(repr in repr()) {
            let mut bytes = vec![0xff; repr.buffer_len() + usize::from(repr.payload_length)];
            repr.emit(&mut bytes).unwrap();
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            prop_assert_eq!(packet.verify_checksum(), Ok(()));
            prop_assert_eq!(Repr::parse(&packet), repr);
        }

        #[test]
        fn routers_repair_the_checksum(repr in repr()) {
            let repr = Repr { payload_length: 0, ..repr };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes).unwrap();
            let mut packet = Packet::new_checked(&mut bytes[..]).unwrap();
            let forwarded = packet.decrement_time_to_live();
            prop_assert_eq!(forwarded, repr.time_to_live > 1);
            prop_assert_eq!(packet.time_to_live(), repr.time_to_live - u8::from(forwarded));
            let repaired = packet.checksum();
            packet.fill_checksum();
            prop_assert_eq!(packet.checksum(), repaired);
        }
    }
}
