//! ICMP for IPv6 (RFC 4443), with the messages of neighbour discovery by which
//! a node finds its neighbours (RFC 4861 §4.3, §4.4).

use std::fmt;
use std::net::Ipv6Addr;
use std::ops::Range;

use crate::checksum::{Change, PseudoHeader};
use crate::octets::{array, put_u16, u16_at, u32_at};
use crate::{Error, MacAddress, Protocol};

mod repr;

pub use repr::Repr;

/// Octets that every message has.
pub const MIN_HEADER_LENGTH: usize = 4;
/// Hop limit that neighbour messages are sent with, and must arrive with.
pub const NEIGHBOUR_HOP_LIMIT: u8 = 255;

/// What a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type(pub u8);

impl Type {
    /// A packet could not be delivered.
    pub const DESTINATION_UNREACHABLE: Self = Self(1);
    /// A packet exceeds the next link's MTU.
    pub const PACKET_TOO_BIG: Self = Self(2);
    /// A packet lived too long.
    pub const TIME_EXCEEDED: Self = Self(3);
    /// A header was not understood.
    pub const PARAMETER_PROBLEM: Self = Self(4);
    /// The receiver is asked to answer.
    pub const ECHO_REQUEST: Self = Self(128);
    /// Answer to an echo request.
    pub const ECHO_REPLY: Self = Self(129);
    /// Who has an address?
    pub const NEIGHBOUR_SOLICITATION: Self = Self(135);
    /// The sender has it.
    pub const NEIGHBOUR_ADVERTISEMENT: Self = Self(136);

    /// The message reports on another packet, so that none may be sent about it
    /// (RFC 4443 §2.1, §2.4).
    #[inline]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }

    /// The message is about neighbours' addresses.
    #[inline]
    pub const fn is_neighbour(self) -> bool {
        matches!(self, Self::NEIGHBOUR_SOLICITATION | Self::NEIGHBOUR_ADVERTISEMENT)
    }

    /// Octets of the fixed part of a message.
    #[inline]
    const fn header_length(self) -> usize {
        match self {
            Self::DESTINATION_UNREACHABLE
            | Self::PACKET_TOO_BIG
            | Self::TIME_EXCEEDED
            | Self::PARAMETER_PROBLEM
            | Self::ECHO_REQUEST
            | Self::ECHO_REPLY => 8,
            Self::NEIGHBOUR_SOLICITATION | Self::NEIGHBOUR_ADVERTISEMENT => field::TARGET.end,
            _ => MIN_HEADER_LENGTH,
        }
    }
}

/// Why a destination was unreachable (RFC 4443 §3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unreachable(pub u8);

impl Unreachable {
    /// No route.
    pub const NO_ROUTE: Self = Self(0);
    /// Forbidden by a filter.
    pub const PROHIBITED: Self = Self(1);
    /// The host does not answer on its link.
    pub const ADDRESS: Self = Self(3);
    /// No program listens at the port.
    pub const PORT: Self = Self(4);
    /// The source address failed the ingress or egress policy.
    pub const SOURCE_REFUSED: Self = Self(5);
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NO_ROUTE => f.pad("no route"),
            Self::PROHIBITED => f.pad("prohibited"),
            Self::ADDRESS => f.pad("address"),
            Self::PORT => f.pad("port"),
            Self::SOURCE_REFUSED => f.pad("source refused"),
            Self(code) => write!(f, "code {code}"),
        }
    }
}

/// Which time was exceeded (RFC 4443 §3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Exceeded(pub u8);

impl Exceeded {
    /// The hop limit ran out on the way.
    pub const IN_TRANSIT: Self = Self(0);
    /// Fragments of a packet did not arrive in time.
    pub const REASSEMBLY: Self = Self(1);
}

/// The group at which a node with this address is asked for it (RFC 4291 §2.7.1).
#[inline]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., g, h] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | g & 0xff, h)
}

mod field {
    use super::Range;

    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: Range<usize> = 2..4;
    pub const REST: Range<usize> = 4..8;
    pub const IDENTIFIER: Range<usize> = 4..6;
    pub const SEQUENCE: Range<usize> = 6..8;
    pub const TARGET: Range<usize> = 8..24;
}

mod flag {
    pub const ROUTER: u32 = 0x8000_0000;
    pub const SOLICITED: u32 = 0x4000_0000;
    pub const OVERRIDE: u32 = 0x2000_0000;
}

/// Options of neighbour messages (RFC 4861 §4.6).
mod option {
    pub const SOURCE_LINK_LAYER: u8 = 1;
    pub const TARGET_LINK_LAYER: u8 = 2;
    /// Octets of a link-layer address option on Ethernet.
    pub const LINK_LAYER_LENGTH: usize = 8;
}

/// View of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Message<T> {
    /// Checks that the message's fixed part is there, and a neighbour message's
    /// target and options. The bytes are the IP payload, no less and no more:
    /// ICMP has no length of its own.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::MulticastTarget`] or [`Error::BadOption`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let octets = bytes.as_ref();
        if octets.len() < MIN_HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        let message_type = Type(octets[field::TYPE]);
        if octets.len() < message_type.header_length() {
            return Err(Error::Truncated);
        }
        if message_type.is_neighbour() {
            if octets[field::TARGET.start] == 0xff {
                return Err(Error::MulticastTarget);
            }
            for option in Options(&octets[field::TARGET.end..]) {
                option?;
            }
        }
        Ok(Self { bytes })
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// What the message is.
    #[inline]
    pub fn message_type(&self) -> Type {
        Type(self.bytes.as_ref()[field::TYPE])
    }

    /// What it says more exactly; the meaning depends on the type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.bytes.as_ref()[field::CODE]
    }

    /// Checksum of the message.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CHECKSUM)
    }

    /// Octets of the fixed part: 4, 8 or 24 by type.
    #[inline]
    pub fn header_length(&self) -> usize {
        self.message_type().header_length()
    }

    /// The four octets behind the checksum, where the type has them.
    #[inline]
    fn rest(&self) -> Option<u32> {
        let bytes = self.bytes.as_ref();
        (self.header_length() >= field::REST.end && bytes.len() >= field::REST.end)
            .then(|| u32_at(bytes, field::REST))
    }

    /// Identifier of an echo; 0 in other messages.
    #[inline]
    pub fn identifier(&self) -> u16 {
        self.echo().map_or(0, |word| (word >> 16) as u16)
    }

    /// Sequence number of an echo; 0 in other messages.
    #[inline]
    pub fn sequence(&self) -> u16 {
        self.echo().map_or(0, |word| word as u16)
    }

    #[inline]
    fn echo(&self) -> Option<u32> {
        let is_echo = matches!(self.message_type(), Type::ECHO_REQUEST | Type::ECHO_REPLY);
        if is_echo { self.rest() } else { None }
    }

    /// MTU of the next link, in octets, where a packet was too big; 0 in other
    /// messages.
    #[inline]
    pub fn mtu(&self) -> u32 {
        if self.message_type() == Type::PACKET_TOO_BIG { self.rest().unwrap_or(0) } else { 0 }
    }

    /// Address that a neighbour message is about.
    #[inline]
    pub fn target(&self) -> Option<Ipv6Addr> {
        let bytes = self.bytes.as_ref();
        (self.message_type().is_neighbour() && bytes.len() >= field::TARGET.end)
            .then(|| Ipv6Addr::from(array::<16>(bytes, field::TARGET)))
    }

    /// MAC address in a neighbour message: the sender's in a solicitation, the
    /// target's in an advertisement.
    pub fn link_layer_address(&self) -> Option<MacAddress> {
        let wanted = match self.message_type() {
            Type::NEIGHBOUR_SOLICITATION => option::SOURCE_LINK_LAYER,
            Type::NEIGHBOUR_ADVERTISEMENT => option::TARGET_LINK_LAYER,
            _ => return None,
        };
        Options(self.payload())
            .map_while(Result::ok)
            .find(|option| option[0] == wanted && option.len() == option::LINK_LAYER_LENGTH)
            .map(|option| MacAddress(array(option, 2..8)))
    }

    /// What follows the fixed part: data of an echo, options of a neighbour
    /// message; in an error the start of the packet that it is about.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(self.header_length()..).unwrap_or_default()
    }

    #[inline]
    fn compute_checksum(&self, pseudo_header: &PseudoHeader) -> u16 {
        pseudo_header.checksum(Protocol::ICMPV6, self.bytes.as_ref())
    }

    /// Tests the checksum.
    ///
    /// # Errors
    /// [`Error::BadChecksum`].
    pub fn verify_checksum(&self, pseudo_header: &PseudoHeader) -> Result<(), Error> {
        if self.compute_checksum(pseudo_header) == 0 { Ok(()) } else { Err(Error::BadChecksum) }
    }
}

/// The options of a neighbour message, each with its type and length octets.
/// After [`Error::BadOption`] the walk is over.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Result<&'a [u8], Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.0);
        if rest.is_empty() {
            return None;
        }
        // In units of 8 octets; 0 is forbidden (RFC 4861 §4.6).
        let length = rest.get(1).map_or(0, |&length| usize::from(length) * 8);
        if length == 0 || length > rest.len() {
            return Some(Err(Error::BadOption));
        }
        let (option, behind) = rest.split_at(length);
        self.0 = behind;
        Some(Ok(option))
    }
}

/// Setters change their field only; the checksum is repaired by
/// [`update_checksum`](Message::update_checksum) or
/// [`fill_checksum`](Message::fill_checksum).
impl<T: AsRef<[u8]> + AsMut<[u8]>> Message<T> {
    /// Sets what the message is.
    #[inline]
    pub fn set_message_type(&mut self, message_type: Type) {
        self.bytes.as_mut()[field::TYPE] = message_type.0;
    }

    /// Sets what it says more exactly.
    #[inline]
    pub fn set_code(&mut self, code: u8) {
        self.bytes.as_mut()[field::CODE] = code;
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.bytes.as_mut(), field::CHECKSUM, checksum);
    }

    /// Computes the checksum over pseudo-header, header and payload.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo_header: &PseudoHeader) {
        self.set_checksum(0);
        let checksum = self.compute_checksum(pseudo_header);
        self.set_checksum(checksum);
    }

    /// Repairs the checksum after fields that it covers changed.
    #[inline]
    pub fn update_checksum(&mut self, change: Change) {
        self.set_checksum(change.apply(self.checksum()));
    }

    /// What follows the fixed part.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_length();
        self.bytes.as_mut().get_mut(start..).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    const PSEUDO_HEADER: PseudoHeader = PseudoHeader::V6 {
        source: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2),
    };

    fn solicitation() -> Vec<u8> {
        hex("87 00 7a97 00000000 fe800000000000000000000000000002 01 01 020000000001")
    }

    #[test]
    fn reads_a_solicitation() {
        let message = Message::new_checked(solicitation()).unwrap();
        assert_eq!(message.message_type(), Type::NEIGHBOUR_SOLICITATION);
        assert_eq!(message.target(), Some("fe80::2".parse().unwrap()));
        assert_eq!(message.link_layer_address(), Some(MacAddress([2, 0, 0, 0, 0, 1])));
        assert_eq!(message.verify_checksum(&PSEUDO_HEADER), Ok(()));
        // Numbers that other messages have there.
        assert_eq!((message.identifier(), message.sequence(), message.mtu()), (0, 0, 0));
    }

    #[test]
    fn skips_options_it_does_not_know() {
        let mut bytes = solicitation()[..24].to_vec();
        bytes.extend(hex("0e02 0000 00000000 0000000000000000 01 01 020000000009"));
        let message = Message::new_checked(bytes).unwrap();
        assert_eq!(message.link_layer_address(), Some(MacAddress([2, 0, 0, 0, 0, 9])));
        let advertisement = [&[136], &solicitation()[1..]].concat();
        let message = Message::new_checked(advertisement).unwrap();
        assert_eq!(message.link_layer_address(), None, "a source option in an advertisement");
    }

    #[test]
    fn defects_are_named() {
        let defect = |bytes: &[u8]| Message::new_checked(bytes).unwrap_err();
        assert_eq!(defect(&[1; 3]), Error::Truncated);
        assert_eq!(defect(&[128, 0, 0, 0, 0, 0, 0]), Error::Truncated);
        assert_eq!(defect(&solicitation()[..23]), Error::Truncated);
        assert_eq!(defect(&solicitation()[..25]), Error::BadOption);
        assert_eq!(defect(&solicitation()[..31]), Error::BadOption);
        let with = |at: usize, octet: u8| {
            let mut bytes = solicitation();
            bytes[at] = octet;
            bytes
        };
        assert_eq!(defect(&with(25, 0)), Error::BadOption);
        assert_eq!(defect(&with(25, 2)), Error::BadOption);
        assert_eq!(defect(&with(8, 0xff)), Error::MulticastTarget);
        let message = Message::new_checked(with(31, 9)).unwrap();
        assert_eq!(message.verify_checksum(&PSEUDO_HEADER), Err(Error::BadChecksum));
    }

    #[test]
    fn a_message_of_a_type_unknown_to_us_may_be_short() {
        let message = Message::new_checked([152, 0, 0, 0]).unwrap();
        assert_eq!(message.header_length(), 4);
        assert!(message.payload().is_empty());
    }

    #[test]
    fn setters_change_their_field_only() {
        let mut message = Message::new_checked([0x99; 6]).unwrap();
        message.set_code(1);
        message.set_checksum(0x0203);
        message.payload_mut()[1] = 4;
        assert_eq!(message.into_inner()[..], hex("99 01 0203 99 04"));
    }

    #[test]
    fn repairs_the_checksum() {
        let mut message = Message::new_checked(solicitation()).unwrap();
        message.payload_mut()[7] = 2;
        message.update_checksum(Change::NONE.field16(1, 2));
        assert_eq!(message.verify_checksum(&PSEUDO_HEADER), Ok(()));
        let repaired = message.checksum();
        message.fill_checksum(&PSEUDO_HEADER);
        assert_eq!(message.checksum(), repaired);
    }

    #[test]
    fn groups_at_which_addresses_are_asked_for() {
        let address = "2001:db8::1234:5678:9abc".parse().unwrap();
        assert_eq!(solicited_node(address), "ff02::1:ff78:9abc".parse::<Ipv6Addr>().unwrap());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in hostile(solicitation()), other_type: u8) {
            if let Ok(message) = Message::new_checked(&bytes[..]) {
                black_box((message.target(), message.link_layer_address(), message.payload()));
                black_box((message.identifier(), message.sequence(), message.mtu()));
                black_box(message.verify_checksum(&PSEUDO_HEADER)).ok();
                black_box(message.to_string());
            }
            if let Ok(mut message) = Message::new_checked(&mut bytes[..]) {
                message.set_message_type(Type(other_type));
                message.fill_checksum(&PSEUDO_HEADER);
                black_box((message.target(), message.link_layer_address(), message.mtu()));
                black_box((message.payload_mut().len(), message.to_string()));
            }
        }
    }
}
