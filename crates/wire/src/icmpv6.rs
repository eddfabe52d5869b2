//! ICMP for IPv6 (RFC 4443), with the messages of neighbour discovery by which
//! a node finds its neighbours (RFC 4861 §4.3, §4.4).

use std::fmt;
use std::net::Ipv6Addr;
use std::ops::Range;

use crate::checksum::{Change, PseudoHeader};
use crate::octets::{array, header, put, put_u16, put_u32, u16_at, u32_at};
use crate::{Error, MacAddress, Protocol};

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
    /// Nobody listens at the port.
    pub const PORT: Self = Self(4);
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NO_ROUTE => f.pad("no route"),
            Self::PROHIBITED => f.pad("prohibited"),
            Self::ADDRESS => f.pad("address"),
            Self::PORT => f.pad("port"),
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

/// A header as a value, and of a neighbour message the link-layer address too;
/// what follows is the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// The receiver is asked to answer.
    EchoRequest {
        /// Tells one asker from another.
        identifier: u16,
        /// Tells one request from another.
        sequence: u16,
    },
    /// The answer, with the request's numbers and data.
    EchoReply {
        /// As in the request.
        identifier: u16,
        /// As in the request.
        sequence: u16,
    },
    /// A packet could not be delivered.
    DestinationUnreachable {
        /// Why.
        reason: Unreachable,
    },
    /// A packet exceeds the next link's MTU.
    PacketTooBig {
        /// MTU of the next link, in octets.
        mtu: u32,
    },
    /// A packet lived too long.
    TimeExceeded {
        /// Which time.
        reason: Exceeded,
    },
    /// Who has an address?
    NeighbourSolicitation {
        /// The address.
        target: Ipv6Addr,
        /// MAC address of the sender; none when it asks whether the address is
        /// free.
        source_mac: Option<MacAddress>,
    },
    /// The sender has an address.
    NeighbourAdvertisement {
        /// The address.
        target: Ipv6Addr,
        /// MAC address of the sender.
        target_mac: Option<MacAddress>,
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces what the receiver knew.
        replaces: bool,
    },
    /// Any other message.
    Other {
        /// What it is.
        message_type: Type,
        /// What it says more exactly.
        code: u8,
    },
}

impl Repr {
    /// The header of a message. An echo, packet-too-big or neighbour message
    /// with a code other than 0 is [`Repr::Other`].
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Self {
        let (message_type, code) = (message.message_type(), message.code());
        let other = Self::Other { message_type, code };
        let (identifier, sequence) = (message.identifier(), message.sequence());
        match (message_type, code) {
            (Type::ECHO_REQUEST, 0) => Self::EchoRequest { identifier, sequence },
            (Type::ECHO_REPLY, 0) => Self::EchoReply { identifier, sequence },
            (Type::DESTINATION_UNREACHABLE, _) => {
                Self::DestinationUnreachable { reason: Unreachable(code) }
            }
            (Type::PACKET_TOO_BIG, 0) => Self::PacketTooBig { mtu: message.mtu() },
            (Type::TIME_EXCEEDED, _) => Self::TimeExceeded { reason: Exceeded(code) },
            (Type::NEIGHBOUR_SOLICITATION | Type::NEIGHBOUR_ADVERTISEMENT, 0) => {
                Self::parse_neighbour(message).unwrap_or(other)
            }
            _ => other,
        }
    }

    fn parse_neighbour<T: AsRef<[u8]>>(message: &Message<T>) -> Option<Self> {
        let (target, mac) = (message.target()?, message.link_layer_address());
        if message.message_type() == Type::NEIGHBOUR_SOLICITATION {
            return Some(Self::NeighbourSolicitation { target, source_mac: mac });
        }
        let flags = message.rest()?;
        Some(Self::NeighbourAdvertisement {
            target,
            target_mac: mac,
            router: flags & flag::ROUTER != 0,
            solicited: flags & flag::SOLICITED != 0,
            replaces: flags & flag::OVERRIDE != 0,
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        let option = if self.mac().is_some() { option::LINK_LAYER_LENGTH } else { 0 };
        self.message_type().header_length() + option
    }

    /// What the message is.
    #[inline]
    pub const fn message_type(&self) -> Type {
        match self {
            Self::EchoRequest { .. } => Type::ECHO_REQUEST,
            Self::EchoReply { .. } => Type::ECHO_REPLY,
            Self::DestinationUnreachable { .. } => Type::DESTINATION_UNREACHABLE,
            Self::PacketTooBig { .. } => Type::PACKET_TOO_BIG,
            Self::TimeExceeded { .. } => Type::TIME_EXCEEDED,
            Self::NeighbourSolicitation { .. } => Type::NEIGHBOUR_SOLICITATION,
            Self::NeighbourAdvertisement { .. } => Type::NEIGHBOUR_ADVERTISEMENT,
            Self::Other { message_type, .. } => *message_type,
        }
    }

    const fn mac(&self) -> Option<MacAddress> {
        match self {
            Self::NeighbourSolicitation { source_mac: mac, .. }
            | Self::NeighbourAdvertisement { target_mac: mac, .. } => *mac,
            _ => None,
        }
    }

    /// Writes the header with a checksum of 0 to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        bytes.fill(0);
        bytes[field::TYPE] = self.message_type().0;
        match *self {
            Self::EchoRequest { identifier, sequence }
            | Self::EchoReply { identifier, sequence } => {
                put_u16(bytes, field::IDENTIFIER, identifier);
                put_u16(bytes, field::SEQUENCE, sequence);
            }
            Self::DestinationUnreachable { reason } => bytes[field::CODE] = reason.0,
            Self::PacketTooBig { mtu } => put_u32(bytes, field::REST, mtu),
            Self::TimeExceeded { reason } => bytes[field::CODE] = reason.0,
            Self::NeighbourSolicitation { target, source_mac } => {
                emit_neighbour(bytes, 0, target, option::SOURCE_LINK_LAYER, source_mac);
            }
            Self::NeighbourAdvertisement { target, target_mac, router, solicited, replaces } => {
                let flags = if router { flag::ROUTER } else { 0 }
                    | if solicited { flag::SOLICITED } else { 0 }
                    | if replaces { flag::OVERRIDE } else { 0 };
                emit_neighbour(bytes, flags, target, option::TARGET_LINK_LAYER, target_mac);
            }
            Self::Other { code, .. } => bytes[field::CODE] = code,
        }
        Ok(())
    }
}

fn emit_neighbour(
    bytes: &mut [u8],
    flags: u32,
    target: Ipv6Addr,
    option: u8,
    mac: Option<MacAddress>,
) {
    put_u32(bytes, field::REST, flags);
    put(bytes, field::TARGET, &target.octets());
    if let Some(mac) = mac {
        let at = field::TARGET.end;
        put(bytes, at..at + 2, &[option, 1]);
        put(bytes, at + 2..at + option::LINK_LAYER_LENGTH, &mac.0);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EchoRequest { identifier, sequence } => {
                write!(f, "icmpv6 echo request {identifier} sequence {sequence}")
            }
            Self::EchoReply { identifier, sequence } => {
                write!(f, "icmpv6 echo reply {identifier} sequence {sequence}")
            }
            Self::DestinationUnreachable { reason } => {
                write!(f, "icmpv6 destination unreachable ({reason})")
            }
            Self::PacketTooBig { mtu } => write!(f, "icmpv6 packet too big mtu {mtu}"),
            Self::TimeExceeded { reason: Exceeded(code) } => {
                write!(f, "icmpv6 time exceeded code {code}")
            }
            Self::NeighbourSolicitation { target, .. } => {
                write!(f, "icmpv6 neighbour solicitation {target}")
            }
            Self::NeighbourAdvertisement { target, target_mac: Some(mac), .. } => {
                write!(f, "icmpv6 neighbour advertisement {target} at {mac}")
            }
            Self::NeighbourAdvertisement { target, target_mac: None, .. } => {
                write!(f, "icmpv6 neighbour advertisement {target}")
            }
            Self::Other { message_type: Type(message_type), code } => {
                write!(f, "icmpv6 type {message_type} code {code}")
            }
        }
    }
}
