//! The header of a message as a value.

use std::fmt;

use super::extension::{ExtensionRepr, ExtensionType, Extensions};
use super::{MIN_HEADER_LENGTH, Message, MessageType, OPTIONAL_HEADER_LENGTH, Teid, field, flag};
use crate::Error;
use crate::octets::{header, put_u16, put_u32};

/// A header with its extension headers as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// What the message is.
    pub message_type: MessageType,
    /// The receiver's end of the tunnel.
    pub teid: Teid,
    /// Sequence number.
    pub sequence: Option<u16>,
    /// N-PDU number.
    pub n_pdu: Option<u8>,
    /// Extension headers.
    pub extensions: Extensions,
    /// Octets of what the message carries.
    pub payload_length: usize,
}

impl Repr {
    /// The header as a value. Extension headers that have no
    /// [`ExtensionRepr`], or do not hold what their type says, are left out.
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Self {
        let mut extensions = Extensions::NONE;
        for extension in message.extensions() {
            if let Ok(Some(known)) = ExtensionRepr::parse(&extension) {
                // A checked message has no more than there is room for.
                extensions.push(known);
            }
        }
        Self {
            message_type: message.message_type(),
            teid: message.teid(),
            sequence: message.sequence(),
            n_pdu: message.n_pdu(),
            extensions,
            payload_length: message.payload().len(),
        }
    }

    #[inline]
    fn flags(&self) -> u8 {
        let extension = if self.extensions.is_empty() { 0 } else { flag::EXTENSION };
        let sequence = self.sequence.map_or(0, |_| flag::SEQUENCE);
        extension | sequence | self.n_pdu.map_or(0, |_| flag::N_PDU)
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub fn buffer_len(&self) -> usize {
        if self.flags() == 0 {
            return MIN_HEADER_LENGTH;
        }
        let extensions = self.extensions.iter().map(ExtensionRepr::buffer_len);
        OPTIONAL_HEADER_LENGTH + extensions.sum::<usize>()
    }

    /// Writes the header to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets;
    /// [`Error::PayloadTooLong`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        let length = bytes.len() - MIN_HEADER_LENGTH + self.payload_length;
        let length = u16::try_from(length).map_err(|_| Error::PayloadTooLong)?;
        bytes[field::FLAGS] = flag::VERSION | self.flags();
        bytes[field::MESSAGE_TYPE] = self.message_type.0;
        put_u16(bytes, field::LENGTH, length);
        put_u32(bytes, field::TEID, self.teid.0);
        if bytes.len() == MIN_HEADER_LENGTH {
            return Ok(());
        }
        put_u16(bytes, field::SEQUENCE, self.sequence.unwrap_or_default());
        bytes[field::N_PDU] = self.n_pdu.unwrap_or_default();
        bytes[field::NEXT_TYPE] = self.extensions.first().0;
        let mut at = OPTIONAL_HEADER_LENGTH;
        let mut extensions = self.extensions.iter().peekable();
        while let Some(extension) = extensions.next() {
            let end = at + extension.buffer_len();
            let next = extensions.peek().map_or(ExtensionType::NONE, |next| next.kind());
            extension.emit(&mut bytes[at..end], next);
            at = end;
        }
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gtp-u {} teid {}", self.message_type, self.teid)?;
        if let Some(sequence) = self.sequence {
            write!(f, " sequence {sequence}")?;
        }
        if let Some(number) = self.n_pdu {
            write!(f, " n-pdu {number}")?;
        }
        self.extensions.iter().try_for_each(|extension| write!(f, " {extension}"))?;
        write!(f, " payload {}", self.payload_length)
    }
}
