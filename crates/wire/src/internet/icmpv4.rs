//! ICMP for IPv4 (RFC 792; path MTU discovery of RFC 1191).

use std::fmt;
use std::ops::Range;

use crate::Error;
use crate::checksum::{self, Change};
use crate::octets::{array, header, put, put_u16, u16_at};

/// Octets of the header of every message.
pub const HEADER_LENGTH: usize = 8;

/// What a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type(pub u8);

impl Type {
    /// Answer to an echo request.
    pub const ECHO_REPLY: Self = Self(0);
    /// A packet could not be delivered.
    pub const DESTINATION_UNREACHABLE: Self = Self(3);
    /// A router asks to slow down (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: Self = Self(4);
    /// A router knows a shorter way.
    pub const REDIRECT: Self = Self(5);
    /// The receiver is asked to answer.
    pub const ECHO_REQUEST: Self = Self(8);
    /// A packet lived too long.
    pub const TIME_EXCEEDED: Self = Self(11);
    /// A header was not understood.
    pub const PARAMETER_PROBLEM: Self = Self(12);

    /// The message reports on another packet, so that none may be sent about it
    /// (RFC 1122 §3.2.2).
    #[inline]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Self::DESTINATION_UNREACHABLE
                | Self::SOURCE_QUENCH
                | Self::REDIRECT
                | Self::TIME_EXCEEDED
                | Self::PARAMETER_PROBLEM
        )
    }
}

/// Why a destination was unreachable (RFC 792, RFC 1812 §5.2.7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unreachable(pub u8);

impl Unreachable {
    /// No route to the network.
    pub const NETWORK: Self = Self(0);
    /// The host does not answer on its link.
    pub const HOST: Self = Self(1);
    /// The host does not know the protocol.
    pub const PROTOCOL: Self = Self(2);
    /// No program listens at the port.
    pub const PORT: Self = Self(3);
    /// The packet exceeds the next link's MTU and must not be fragmented.
    pub const FRAGMENTATION_NEEDED: Self = Self(4);
    /// Forbidden by a filter.
    pub const PROHIBITED: Self = Self(13);
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NETWORK => f.pad("network"),
            Self::HOST => f.pad("host"),
            Self::PROTOCOL => f.pad("protocol"),
            Self::PORT => f.pad("port"),
            Self::FRAGMENTATION_NEEDED => f.pad("fragmentation needed"),
            Self::PROHIBITED => f.pad("prohibited"),
            Self(code) => write!(f, "code {code}"),
        }
    }
}

/// Which time was exceeded (RFC 792).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Exceeded(pub u8);

impl Exceeded {
    /// The time to live ran out on the way.
    pub const IN_TRANSIT: Self = Self(0);
    /// Fragments of a datagram did not arrive in time.
    pub const REASSEMBLY: Self = Self(1);
}

mod field {
    use super::Range;

    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: Range<usize> = 2..4;
    pub const REST: Range<usize> = 4..8;
    pub const IDENTIFIER: Range<usize> = 4..6;
    pub const SEQUENCE: Range<usize> = 6..8;
    pub const MTU: Range<usize> = 6..8;
}

/// View of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Message<T> {
    /// Checks that the header is there. The bytes are the IP payload, no less
    /// and no more: ICMP has no length of its own.
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

    /// Identifier of an echo; other messages have other things there.
    #[inline]
    pub fn identifier(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::IDENTIFIER)
    }

    /// Sequence number of an echo; other messages have other things there.
    #[inline]
    pub fn sequence(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::SEQUENCE)
    }

    /// MTU of the next link, in octets, where fragmentation is needed (RFC 1191
    /// §4); 0 from a router that does not know of it.
    #[inline]
    pub fn mtu(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::MTU)
    }

    /// Data of an echo; in an error the start of the packet that it is about.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LENGTH..]
    }

    /// Tests the checksum.
    ///
    /// # Errors
    /// [`Error::BadChecksum`].
    pub fn verify_checksum(&self) -> Result<(), Error> {
        if checksum::of(self.bytes.as_ref()) == 0 { Ok(()) } else { Err(Error::BadChecksum) }
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

    /// Sets the identifier of an echo.
    #[inline]
    pub fn set_identifier(&mut self, identifier: u16) {
        put_u16(self.bytes.as_mut(), field::IDENTIFIER, identifier);
    }

    /// Sets the sequence number of an echo.
    #[inline]
    pub fn set_sequence(&mut self, sequence: u16) {
        put_u16(self.bytes.as_mut(), field::SEQUENCE, sequence);
    }

    /// Computes the checksum over header and payload.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::of(self.bytes.as_ref());
        self.set_checksum(checksum);
    }

    /// Repairs the checksum after fields that it covers changed.
    #[inline]
    pub fn update_checksum(&mut self, change: Change) {
        self.set_checksum(change.apply(self.checksum()));
    }

    /// What follows the header.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LENGTH..]
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A header as a value; what follows it is the caller's.
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
        /// MTU of the next link, in octets, with
        /// [`Unreachable::FRAGMENTATION_NEEDED`]; 0 otherwise.
        mtu: u16,
    },
    /// A packet lived too long.
    TimeExceeded {
        /// Which time.
        reason: Exceeded,
    },
    /// Any other message.
    Other {
        /// What it is.
        message_type: Type,
        /// What it says more exactly.
        code: u8,
        /// The rest of the header.
        rest: [u8; 4],
    },
}

impl Repr {
    /// The header of a message. An echo with a code other than 0 is
    /// [`Repr::Other`].
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Self {
        let (identifier, sequence) = (message.identifier(), message.sequence());
        match (message.message_type(), message.code()) {
            (Type::ECHO_REQUEST, 0) => Self::EchoRequest { identifier, sequence },
            (Type::ECHO_REPLY, 0) => Self::EchoReply { identifier, sequence },
            (Type::DESTINATION_UNREACHABLE, code) => {
                Self::DestinationUnreachable { reason: Unreachable(code), mtu: message.mtu() }
            }
            (Type::TIME_EXCEEDED, code) => Self::TimeExceeded { reason: Exceeded(code) },
            (message_type, code) => {
                let rest = array(message.bytes.as_ref(), field::REST);
                Self::Other { message_type, code, rest }
            }
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the header with a checksum of 0 to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        let (message_type, code, rest) = self.parts();
        put(bytes, field::REST, &rest);
        let mut message = Message { bytes };
        message.set_message_type(message_type);
        message.set_code(code);
        message.set_checksum(0);
        Ok(())
    }

    #[inline]
    fn parts(&self) -> (Type, u8, [u8; 4]) {
        let pair =
            |first: u16, second: u16| (u32::from(first) << 16 | u32::from(second)).to_be_bytes();
        match *self {
            Self::EchoRequest { identifier, sequence } => {
                (Type::ECHO_REQUEST, 0, pair(identifier, sequence))
            }
            Self::EchoReply { identifier, sequence } => {
                (Type::ECHO_REPLY, 0, pair(identifier, sequence))
            }
            Self::DestinationUnreachable { reason, mtu } => {
                (Type::DESTINATION_UNREACHABLE, reason.0, pair(0, mtu))
            }
            Self::TimeExceeded { reason } => (Type::TIME_EXCEEDED, reason.0, [0; 4]),
            Self::Other { message_type, code, rest } => (message_type, code, rest),
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EchoRequest { identifier, sequence } => {
                write!(f, "icmp echo request {identifier} sequence {sequence}")
            }
            Self::EchoReply { identifier, sequence } => {
                write!(f, "icmp echo reply {identifier} sequence {sequence}")
            }
            Self::DestinationUnreachable { reason: Unreachable::FRAGMENTATION_NEEDED, mtu } => {
                write!(f, "icmp fragmentation needed mtu {mtu}")
            }
            Self::DestinationUnreachable { reason, .. } => {
                write!(f, "icmp destination unreachable ({reason})")
            }
            Self::TimeExceeded { reason: Exceeded(code) } => {
                write!(f, "icmp time exceeded code {code}")
            }
            Self::Other { message_type: Type(message_type), code, .. } => {
                write!(f, "icmp type {message_type} code {code}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    fn echo() -> Vec<u8> {
        hex("08 00 f8ab 0077 0003 7765667421")
    }

    fn fragmentation_needed() -> Vec<u8> {
        hex("03 04 f1b8 0000 0578 450005dc00094000401121060a0000010a000002 000100020 5c80000")
    }

    #[test]
    fn reads_an_echo() {
        let message = Message::new_checked(echo()).unwrap();
        assert_eq!(Repr::parse(&message), Repr::EchoRequest { identifier: 0x77, sequence: 3 });
        assert_eq!(message.payload(), b"weft!");
        assert_eq!(message.verify_checksum(), Ok(()));
        assert_eq!(message.to_string(), "icmp echo request 119 sequence 3");
    }

    #[test]
    fn reads_the_mtu() {
        let message = Message::new_checked(fragmentation_needed()).unwrap();
        let reason = Unreachable::FRAGMENTATION_NEEDED;
        assert_eq!(Repr::parse(&message), Repr::DestinationUnreachable { reason, mtu: 1400 });
        assert_eq!(message.payload()[0], 0x45);
        assert_eq!(message.verify_checksum(), Ok(()));
        assert_eq!(message.to_string(), "icmp fragmentation needed mtu 1400");
    }

    #[test]
    fn an_answer_is_the_question_with_another_type() {
        let mut message = Message::new_checked(echo()).unwrap();
        message.set_message_type(Type::ECHO_REPLY);
        message.update_checksum(Change::NONE.field16(0x0800, 0x0000));
        assert_eq!(message.verify_checksum(), Ok(()));
        assert_eq!(Repr::parse(&message), Repr::EchoReply { identifier: 0x77, sequence: 3 });
    }

    #[test]
    fn writes_what_it_read() {
        for original in [echo(), fragmentation_needed()] {
            let repr = Repr::parse(&Message::new_checked(&original[..]).unwrap());
            let mut copy = original.clone();
            copy[..8].fill(0xff);
            repr.emit(&mut copy).unwrap();
            Message::new_checked(&mut copy[..]).unwrap().fill_checksum();
            assert_eq!(copy, original);
            assert_eq!(repr.emit(&mut copy[..7]), Err(Error::BufferTooShort));
        }
    }

    #[test]
    fn setters_change_their_field_only() {
        let mut message = Message::new_checked([0; 9]).unwrap();
        message.set_code(1);
        message.set_identifier(0x0203);
        message.set_sequence(0x0405);
        message.payload_mut()[0] = 6;
        assert_eq!(message.into_inner()[..], hex("00 01 0000 0203 0405 06"));
    }

    #[test]
    fn defects_are_named() {
        assert_eq!(Message::new_checked([0; 7]).unwrap_err(), Error::Truncated);
        let mut bytes = echo();
        bytes[8] ^= 1;
        let message = Message::new_checked(bytes).unwrap();
        assert_eq!(message.verify_checksum(), Err(Error::BadChecksum));
    }

    #[test]
    fn errors_are_told_from_questions() {
        assert!(Type::TIME_EXCEEDED.is_error() && Type::REDIRECT.is_error());
        assert!(!Type::ECHO_REQUEST.is_error() && !Type(13).is_error());
    }

    fn repr() -> impl Strategy<Value = Repr> {
        let echo = any::<(u16, u16)>();
        let other = (any::<u8>(), any::<u8>(), any::<[u8; 4]>());
        prop_oneof![
            echo.prop_map(|(identifier, sequence)| Repr::EchoRequest { identifier, sequence }),
            echo.prop_map(|(identifier, sequence)| Repr::EchoReply { identifier, sequence }),
            any::<(u8, u16)>().prop_map(|(code, mtu)| {
                Repr::DestinationUnreachable { reason: Unreachable(code), mtu }
            }),
            any::<u8>().prop_map(|code| Repr::TimeExceeded { reason: Exceeded(code) }),
            other
                .prop_filter("has a form of its own", |(number, ..)| ![0, 3, 8, 11]
                    .contains(number))
                .prop_map(|(number, code, rest)| {
                    Repr::Other { message_type: Type(number), code, rest }
                }),
        ]
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in hostile(fragmentation_needed())) {
            if let Ok(message) = Message::new_checked(&bytes[..]) {
                black_box(message.verify_checksum()).ok();
                black_box((message.payload(), message.to_string()));
                let (repr, mut copy) = (Repr::parse(&message), bytes.clone());
                repr.emit(&mut copy).unwrap();
                prop_assert_eq!(Repr::parse(&Message::new_checked(&copy[..]).unwrap()), repr);
            }
        }

        #[test]
        fn parse_of_emit(repr in repr()) {
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes).unwrap();
            let message = Message::new_checked(&bytes[..]).unwrap();
            prop_assert_eq!(Repr::parse(&message), repr);
            prop_assert!(message.to_string().starts_with("icmp "));
        }
    }
}
