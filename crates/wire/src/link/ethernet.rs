//! Ethernet II frames (IEEE 802.3 §3), without preamble and check sequence.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::str::FromStr;

use crate::octets::{array, header, put, put_u16, u16_at};
use crate::{Error, TextError};

/// Octets of the header.
pub const HEADER_LENGTH: usize = 14;

/// A 48-bit MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// All zeros: no address.
    pub const UNSPECIFIED: Self = Self([0; 6]);
    /// Every station on the link.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The octets in the order of the wire.
    #[inline]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// A group of stations; the broadcast address is one.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Every station on the link.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// One station: neither a group nor all zeros.
    #[inline]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self::UNSPECIFIED
    }

    /// Where an IPv4 multicast group is sent (RFC 1112 §6.4).
    #[inline]
    pub const fn of_ipv4_multicast(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// Where an IPv6 multicast group is sent (RFC 2464 §7).
    #[inline]
    pub const fn of_ipv6_multicast(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = TextError;

    /// Six pairs of hexadecimal digits, joined by `:` or `-`.
    #[inline]
    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut octets = [0; 6];
        let mut pairs = text.split([':', '-']);
        for octet in &mut octets {
            let pair = pairs.next().filter(|pair| pair.len() == 2).ok_or(TextError::MacAddress)?;
            // from_str_radix would take "+f".
            if !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(TextError::MacAddress);
            }
            *octet = u8::from_str_radix(pair, 16).map_err(|_| TextError::MacAddress)?;
        }
        if pairs.next().is_some() { Err(TextError::MacAddress) } else { Ok(Self(octets)) }
    }
}

/// What an Ethernet frame carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// A network service header (RFC 8300 §9.1.1).
    pub const NSH: Self = Self(0x894f);
    /// A VLAN tag of a customer (802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// A session of PPP over Ethernet (RFC 2516).
    pub const PPPOE_SESSION: Self = Self(0x8864);
    /// A VLAN tag of a service provider (802.1ad).
    pub const SERVICE_VLAN: Self = Self(0x88a8);

    /// Below 0x0600 the field is the length of an 802.3 frame instead.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    /// A VLAN tag follows.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.pad("ipv4"),
            Self::ARP => f.pad("arp"),
            Self::VLAN => f.pad("vlan"),
            Self::IPV6 => f.pad("ipv6"),
            Self::NSH => f.pad("nsh"),
            Self::PPPOE_SESSION => f.pad("pppoe-session"),
            Self::SERVICE_VLAN => f.pad("service-vlan"),
            Self(value) => write!(f, "{value:#06x}"),
        }
    }
}

mod field {
    use super::Range;

    pub const DESTINATION: Range<usize> = 0..6;
    pub const SOURCE: Range<usize> = 6..12;
    pub const ETHER_TYPE: Range<usize> = 12..14;
}

/// View of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`Error::Truncated`] below [`HEADER_LENGTH`] octets.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        if bytes.as_ref().len() < HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        Ok(Self { bytes })
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Station or group that the frame is for.
    #[inline]
    pub fn destination(&self) -> MacAddress {
        MacAddress(array(self.bytes.as_ref(), field::DESTINATION))
    }

    /// Station that sent the frame.
    #[inline]
    pub fn source(&self) -> MacAddress {
        MacAddress(array(self.bytes.as_ref(), field::SOURCE))
    }

    /// What the frame carries.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(u16_at(self.bytes.as_ref(), field::ETHER_TYPE))
    }

    /// What follows the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LENGTH..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the station or group that the frame is for.
    #[inline]
    pub fn set_destination(&mut self, address: MacAddress) {
        put(self.bytes.as_mut(), field::DESTINATION, &address.0);
    }

    /// Sets the station that sends the frame.
    #[inline]
    pub fn set_source(&mut self, address: MacAddress) {
        put(self.bytes.as_mut(), field::SOURCE, &address.0);
    }

    /// Sets what the frame carries.
    #[inline]
    pub fn set_ether_type(&mut self, ether_type: EtherType) {
        put_u16(self.bytes.as_mut(), field::ETHER_TYPE, ether_type.0);
    }

    /// What follows the header, padding included.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LENGTH..]
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Frame<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Station that sends the frame.
    pub source: MacAddress,
    /// Station or group that the frame is for.
    pub destination: MacAddress,
    /// What the frame carries.
    pub ether_type: EtherType,
}

impl Repr {
    /// The header of a frame.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Self {
        Self {
            source: frame.source(),
            destination: frame.destination(),
            ether_type: frame.ether_type(),
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
        put(bytes, field::DESTINATION, &self.destination.0);
        put(bytes, field::SOURCE, &self.source.0);
        put_u16(bytes, field::ETHER_TYPE, self.ether_type.0);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ethernet {} > {} {}", self.source, self.destination, self.ether_type)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    fn frame() -> Vec<u8> {
        hex("020000000002 020000000001 0800 4500")
    }

    const REPR: Repr = Repr {
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        ether_type: EtherType::IPV4,
    };

    #[test]
    fn reads_a_frame() {
        let frame = Frame::new_checked(frame()).unwrap();
        assert_eq!(Repr::parse(&frame), REPR);
        assert_eq!(frame.payload(), [0x45, 0x00]);
        assert_eq!(frame.to_string(), "ethernet 02:00:00:00:00:01 > 02:00:00:00:00:02 ipv4");
    }

    #[test]
    fn writes_a_frame() {
        let mut bytes = [0xaa; 16];
        REPR.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..14], frame()[..14]);
        assert_eq!(bytes[14..], [0xaa; 2]);
        assert_eq!(REPR.emit(&mut bytes[..13]), Err(Error::BufferTooShort));
    }

    #[test]
    fn setters_change_their_field_only() {
        let mut frame = Frame::new_checked(frame()).unwrap();
        frame.set_destination(MacAddress::BROADCAST);
        frame.set_source(MacAddress([6; 6]));
        frame.set_ether_type(EtherType::ARP);
        frame.payload_mut()[0] = 7;
        assert_eq!(frame.into_inner(), hex("ffffffffffff 060606060606 0806 0700"));
    }

    #[test]
    fn a_header_must_be_whole() {
        assert_eq!(Frame::new_checked([0; 13]).unwrap_err(), Error::Truncated);
        assert!(Frame::new_checked([0; 14]).unwrap().payload().is_empty());
    }

    #[test]
    fn kinds_of_addresses() {
        let mac: MacAddress = "02-00-5e-10-00-0A".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:5e:10:00:0a");
        assert!(mac.is_unicast() && !mac.is_multicast());
        assert!(MacAddress::BROADCAST.is_broadcast() && MacAddress::BROADCAST.is_multicast());
        assert!(!MacAddress::UNSPECIFIED.is_unicast());
        let group = MacAddress::of_ipv4_multicast(Ipv4Addr::new(224, 128, 0, 251));
        assert_eq!(group.to_string(), "01:00:5e:00:00:fb");
        let group = MacAddress::of_ipv6_multicast("ff02::1:ff00:2".parse().unwrap());
        assert_eq!(group.to_string(), "33:33:ff:00:00:02");
    }

    #[test]
    fn texts_that_are_no_address() {
        for text in ["", "02", "02:00:00:00:00", "02:00:00:00:00:0g", "2:0:0:0:0:1"] {
            assert_eq!(text.parse::<MacAddress>(), Err(TextError::MacAddress), "{text}");
        }
        for text in ["02:00:00:00:00:01:", "02:00:00:00:00:01:02", "+2:00:00:00:00:01"] {
            assert_eq!(text.parse::<MacAddress>(), Err(TextError::MacAddress), "{text}");
        }
    }

    #[test]
    fn kinds_of_ether_types() {
        assert!(EtherType(0x05ff).is_length() && !EtherType(0x0600).is_length());
        assert!(EtherType::SERVICE_VLAN.is_vlan() && !EtherType::IPV6.is_vlan());
        assert_eq!(EtherType(0x88cc).to_string(), "0x88cc");
        assert_eq!(EtherType::SERVICE_VLAN.to_string(), "service-vlan");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in hostile(frame())) {
            if let Ok(frame) = Frame::new_checked(&bytes[..]) {
                black_box((frame.payload(), frame.to_string()));
                let mut copy = [0; HEADER_LENGTH];
                Repr::parse(&frame).emit(&mut copy).unwrap();
                prop_assert_eq!(&copy[..], &bytes[..HEADER_LENGTH]);
            }
        }

        #[test]
        fn parse_of_emit(source: [u8; 6], destination: [u8; 6], ether_type: u16) {
            let repr = Repr {
                source: MacAddress(source),
                destination: MacAddress(destination),
                ether_type: EtherType(ether_type),
            };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&Frame::new_checked(&bytes[..]).unwrap()), repr);
            prop_assert_eq!(repr.source.to_string().parse(), Ok(repr.source));
        }
    }
}
