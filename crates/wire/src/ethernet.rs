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
    /// A VLAN tag of a customer (802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
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
