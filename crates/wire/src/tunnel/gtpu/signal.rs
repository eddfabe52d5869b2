//! Whole messages that carry no packet of a user, as values (TS 29.281 §7).

use std::fmt;
use std::net::IpAddr;

use super::extension::{ExtensionRepr, ExtensionType, Extensions};
use super::header::Repr;
use super::information::{Element, elements, kind};
use super::{Message, MessageType, Teid};
use crate::Error;
use crate::octets::header;

/// Types of extension headers that a node knows: at most eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtensionTypes {
    list: [ExtensionType; Self::MAX],
    count: u8,
}

impl ExtensionTypes {
    const MAX: usize = 8;

    /// A list of types; what goes beyond eight is left out.
    pub fn new(types: &[ExtensionType]) -> Self {
        let mut list = [ExtensionType::NONE; Self::MAX];
        let count = types.len().min(Self::MAX);
        list[..count].copy_from_slice(&types[..count]);
        Self { list, count: count as u8 }
    }

    /// The types.
    pub fn as_slice(&self) -> &[ExtensionType] {
        self.list.get(..self.count.into()).unwrap_or_default()
    }
}

/// A message between the ends of a path or tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The peer is asked whether it is there (§7.2.1).
    EchoRequest {
        /// Tells one request from another.
        sequence: u16,
    },
    /// It is (§7.2.2).
    EchoResponse {
        /// As in the request.
        sequence: u16,
        /// Restart counter; 0 is sent, and what comes means nothing (§8.2).
        recovery: u8,
    },
    /// A packet came for a tunnel that is not known (§7.3.1).
    ErrorIndication {
        /// The tunnel.
        teid: Teid,
        /// The address that the packet was sent to.
        peer: IpAddr,
        /// The UDP port that it came from.
        udp_port: Option<u16>,
    },
    /// Which extension headers the sender knows (§7.2.3).
    SupportedExtensionHeaders {
        /// Their types.
        types: ExtensionTypes,
    },
    /// The last packet of a tunnel has been sent on this path (§7.3.2).
    EndMarker {
        /// The tunnel.
        teid: Teid,
    },
}

impl Signal {
    /// A message as a value. Information elements and extension headers that it
    /// need not have are left out.
    ///
    /// # Errors
    /// [`Error::UnknownGtpMessage`] for a message of another type, a user's
    /// packet among them; [`Error::BadInformationElement`];
    /// [`Error::BadGtpExtensionContent`].
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Result<Self, Error> {
        let sequence = message.sequence().unwrap_or_default();
        Ok(match message.message_type() {
            MessageType::ECHO_REQUEST => Self::EchoRequest { sequence },
            MessageType::ECHO_RESPONSE => {
                let recovery = find(message, |element| match element {
                    Element::Recovery(counter) => Some(counter),
                    _ => None,
                })?;
                Self::EchoResponse { sequence, recovery }
            }
            MessageType::ERROR_INDICATION => Self::ErrorIndication {
                teid: find(message, |element| match element {
                    Element::TeidDataI(teid) => Some(teid),
                    _ => None,
                })?,
                peer: find(message, |element| match element {
                    Element::PeerAddress(address) => Some(address),
                    _ => None,
                })?,
                udp_port: udp_port(message)?,
            },
            MessageType::SUPPORTED_EXTENSION_HEADERS => Self::SupportedExtensionHeaders {
                types: find(message, |element| match element {
                    Element::ExtensionHeaderTypes(types) => Some(list(types)),
                    _ => None,
                })?,
            },
            MessageType::END_MARKER => Self::EndMarker { teid: message.teid() },
            _ => return Err(Error::UnknownGtpMessage),
        })
    }

    fn header(&self) -> Repr {
        let path = |message_type, sequence| Repr {
            message_type,
            sequence: Some(sequence),
            payload_length: self.payload_length(),
            ..Repr::default()
        };
        match *self {
            Self::EchoRequest { sequence } => path(MessageType::ECHO_REQUEST, sequence),
            Self::EchoResponse { sequence, .. } => path(MessageType::ECHO_RESPONSE, sequence),
            Self::ErrorIndication { udp_port, .. } => {
                let extension = |port| Extensions::one(ExtensionRepr::UdpPort(port));
                let extensions = udp_port.map_or(Extensions::NONE, extension);
                Repr { extensions, ..path(MessageType::ERROR_INDICATION, 0) }
            }
            Self::SupportedExtensionHeaders { .. } => {
                path(MessageType::SUPPORTED_EXTENSION_HEADERS, 0)
            }
            // Alone among them it has no sequence number (§5.1).
            Self::EndMarker { teid } => {
                Repr { message_type: MessageType::END_MARKER, teid, ..Repr::default() }
            }
        }
    }

    const fn payload_length(&self) -> usize {
        match self {
            Self::EchoRequest { .. } | Self::EndMarker { .. } => 0,
            Self::EchoResponse { .. } => 2,
            Self::ErrorIndication { peer: IpAddr::V4(_), .. } => 5 + 3 + 4,
            Self::ErrorIndication { peer: IpAddr::V6(_), .. } => 5 + 3 + 16,
            Self::SupportedExtensionHeaders { types } => 2 + types.count as usize,
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        self.header().buffer_len() + self.payload_length()
    }

    /// Writes the whole message to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        let repr = self.header();
        repr.emit(bytes)?;
        let payload = &mut bytes[repr.buffer_len()..];
        match self {
            Self::EchoRequest { .. } | Self::EndMarker { .. } => {}
            Self::EchoResponse { recovery, .. } => {
                payload.copy_from_slice(&[kind::RECOVERY, *recovery]);
            }
            Self::ErrorIndication { teid, peer, .. } => emit_error(payload, *teid, *peer),
            Self::SupportedExtensionHeaders { types } => {
                payload[0] = kind::EXTENSION_HEADER_TYPES;
                payload[1] = types.count;
                for (octet, kind) in payload[2..].iter_mut().zip(types.as_slice()) {
                    *octet = kind.0;
                }
            }
        }
        Ok(())
    }
}

fn emit_error(payload: &mut [u8], teid: Teid, peer: IpAddr) {
    payload[0] = kind::TEID_DATA_I;
    payload[1..5].copy_from_slice(&teid.0.to_be_bytes());
    let (length, address) = payload[5..].split_at_mut(3);
    length.copy_from_slice(&[kind::PEER_ADDRESS, 0, address.len() as u8]);
    match peer {
        IpAddr::V4(peer) => address.copy_from_slice(&peer.octets()),
        IpAddr::V6(peer) => address.copy_from_slice(&peer.octets()),
    }
}

/// The first information element that `choose` takes.
fn find<'a, T: AsRef<[u8]>, V>(
    message: &'a Message<T>,
    choose: impl Fn(Element<'a>) -> Option<V>,
) -> Result<V, Error> {
    for element in elements(message.payload()) {
        if let Some(value) = choose(element?) {
            return Ok(value);
        }
    }
    Err(Error::BadInformationElement)
}

fn udp_port<T: AsRef<[u8]>>(message: &Message<T>) -> Result<Option<u16>, Error> {
    for extension in message.extensions() {
        if let Some(ExtensionRepr::UdpPort(port)) = ExtensionRepr::parse(&extension)? {
            return Ok(Some(port));
        }
    }
    Ok(None)
}

fn list(types: &[u8]) -> ExtensionTypes {
    let mut list = ExtensionTypes::default();
    for (place, kind) in list.list.iter_mut().zip(types) {
        *place = ExtensionType(*kind);
        list.count += 1;
    }
    list
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gtp-u {}", self.header().message_type)?;
        match self {
            Self::EchoRequest { sequence } => write!(f, " sequence {sequence}"),
            Self::EchoResponse { sequence, recovery } => {
                write!(f, " sequence {sequence} recovery {recovery}")
            }
            Self::ErrorIndication { teid, peer, .. } => write!(f, " teid {teid} at {peer}"),
            Self::SupportedExtensionHeaders { types } => {
                types.as_slice().iter().try_for_each(|kind| write!(f, " {:#04x}", kind.0))
            }
            Self::EndMarker { teid } => write!(f, " teid {teid}"),
        }
    }
}
