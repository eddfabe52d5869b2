//! The headers of messages as values.

use std::fmt;
use std::net::Ipv6Addr;

use super::{Exceeded, Message, Type, Unreachable, field, flag, option};
use crate::octets::{header, put, put_u16, put_u32};
use crate::{Error, MacAddress};

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

    #[inline]
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

#[inline]
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::PseudoHeader;
    use crate::testing::hex;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    /// A message from router to host is the header and what follows it.
    fn check(repr: Repr, follows: &[u8], expected: &str) {
        let mut bytes = vec![0xff; repr.buffer_len()];
        repr.emit(&mut bytes).unwrap();
        bytes.extend(follows);
        let pseudo_header = PseudoHeader::V6 { source: ROUTER, destination: HOST };
        Message::new_checked(&mut bytes[..]).unwrap().fill_checksum(&pseudo_header);
        assert_eq!(bytes, hex(expected));
        assert_eq!(Repr::parse(&Message::new_checked(&bytes[..]).unwrap()), repr);
        let short = &mut bytes[..repr.buffer_len() - 1];
        assert_eq!(repr.emit(short), Err(Error::BufferTooShort));
    }

    #[test]
    fn an_advertisement() {
        let repr = Repr::NeighbourAdvertisement {
            target: ROUTER,
            target_mac: Some(MacAddress([2, 0, 0, 0, 0, 2])),
            router: true,
            solicited: true,
            replaces: true,
        };
        let bytes = "88 00 9819 e0000000 fe800000000000000000000000000002 02 01 020000000002";
        check(repr, &[], bytes);
        let text = "icmpv6 neighbour advertisement fe80::2 at 02:00:00:00:00:02";
        assert_eq!(repr.to_string(), text);
    }

    #[test]
    fn packet_too_big() {
        let repr = Repr::PacketTooBig { mtu: 1280 };
        check(repr, &[0x60, 0, 0, 0], "02 00 9bb4 00000500 60000000");
        assert_eq!(repr.to_string(), "icmpv6 packet too big mtu 1280");
    }

    #[test]
    fn an_unexpected_code_makes_another_message() {
        let bytes = hex("80 01 0000 0077 0003");
        let repr = Repr::parse(&Message::new_checked(bytes).unwrap());
        assert_eq!(repr, Repr::Other { message_type: Type::ECHO_REQUEST, code: 1 });
    }

    fn repr() -> impl Strategy<Value = Repr> {
        let echo = any::<(u16, u16)>();
        let target = any::<Ipv6Addr>().prop_filter("multicast", |target| !target.is_multicast());
        let mac = any::<Option<[u8; 6]>>().prop_map(|mac| mac.map(MacAddress));
        let neighbour = (target, mac);
        let flags = any::<(bool, bool, bool)>();
        prop_oneof![
            echo.prop_map(|(identifier, sequence)| Repr::EchoRequest { identifier, sequence }),
            echo.prop_map(|(identifier, sequence)| Repr::EchoReply { identifier, sequence }),
            any::<u8>().prop_map(|code| Repr::DestinationUnreachable { reason: Unreachable(code) }),
            any::<u32>().prop_map(|mtu| Repr::PacketTooBig { mtu }),
            any::<u8>().prop_map(|code| Repr::TimeExceeded { reason: Exceeded(code) }),
            neighbour.clone().prop_map(|(target, source_mac)| {
                Repr::NeighbourSolicitation { target, source_mac }
            }),
            (neighbour, flags).prop_map(|((target, target_mac), flags)| {
                let (router, solicited, replaces) = flags;
                Repr::NeighbourAdvertisement { target, target_mac, router, solicited, replaces }
            }),
            (137..=255_u8, any::<u8>())
                .prop_map(|(number, code)| Repr::Other { message_type: Type(number), code }),
        ]
    }

    proptest! {
        #[test]
        fn parse_of_emit(repr in repr()) {
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes).unwrap();
            let message = Message::new_checked(&bytes[..]).unwrap();
            prop_assert_eq!(Repr::parse(&message), repr);
            prop_assert!(message.to_string().starts_with("icmpv6 "));
        }
    }
}
