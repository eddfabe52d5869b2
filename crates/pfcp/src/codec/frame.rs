//! The header of a message (§7.2.2), and the messages of a datagram.

use super::{Defect, Error};

/// Octets of a header without a SEID.
const NODE_HEADER: usize = 8;
/// Octets of a header with a SEID.
const SESSION_HEADER: usize = 16;
/// Octets in front of those that the length field counts.
const UNCOUNTED: usize = 4;

/// The header of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The receiver's session endpoint identifier, in messages about a session.
    pub seid: Option<u64>,
    /// Sequence number, 24 bits.
    pub sequence: u32,
    /// Message priority, 0 (highest) to 15.
    pub priority: Option<u8>,
}

/// A message as it stands in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its header.
    pub header: Header,
    /// Its type (§7.3).
    pub message: u8,
    /// Its information elements.
    pub body: &'a [u8],
}

/// The messages of a datagram, front to back. Behind an error there is nothing more.
pub fn frames(datagram: &[u8]) -> impl Iterator<Item = Result<Frame<'_>, Error>> {
    let mut rest = Some(datagram);
    std::iter::from_fn(move || {
        let read = Frame::parse(rest.take()?);
        Some(read.map(|(frame, follows)| {
            rest = follows;
            frame
        }))
    })
}

impl<'a> Frame<'a> {
    /// The first message of some octets, and the octets behind it if it has the FO flag.
    ///
    /// # Errors
    /// The octets end inside the header, the length is below the header's or beyond the
    /// octets, the version is not 1, or FO is set and nothing follows.
    pub fn parse(octets: &'a [u8]) -> Result<(Self, Option<&'a [u8]>), Error> {
        let truncated = Error::message(Defect::Truncated);
        let fixed = octets.first_chunk::<NODE_HEADER>().ok_or(truncated)?;
        if fixed[0] >> 5 != 1 {
            return Err(Error::message(Defect::Version));
        }
        let (follow_on, with_priority) = (fixed[0] & 0x04 != 0, fixed[0] & 0x02 != 0);
        let length = UNCOUNTED + usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let message = octets.get(..length).ok_or(truncated)?;
        let with_seid = fixed[0] & 0x01 != 0;
        let (seid, tail, body) = if with_seid {
            let (head, body) = message.split_first_chunk::<SESSION_HEADER>().ok_or(truncated)?;
            let seid = u64::from_be_bytes(head[4..12].try_into().map_err(|_| truncated)?);
            (Some(seid), [head[12], head[13], head[14], head[15]], body)
        } else {
            let (head, body) = message.split_first_chunk::<NODE_HEADER>().ok_or(truncated)?;
            (None, [head[4], head[5], head[6], head[7]], body)
        };
        let header = Header {
            seid,
            sequence: u32::from_be_bytes([0, tail[0], tail[1], tail[2]]),
            priority: with_priority.then_some(tail[3] >> 4),
        };
        let follows = &octets[length..];
        if follow_on && follows.is_empty() {
            return Err(truncated);
        }
        let frame = Self { header, message: fixed[1], body };
        Ok((frame, follow_on.then_some(follows)))
    }

    /// The message by itself, as octets.
    #[must_use]
    pub fn alone(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SESSION_HEADER + self.body.len());
        let at = begin(&self.header, self.message, &mut out);
        out.extend_from_slice(self.body);
        end(at, &mut out);
        out
    }

    /// The header of a datagram of another version, for the answer to it (§7.6.2): where
    /// versions agree is in the sequence number.
    #[must_use]
    pub fn foreign_sequence(octets: &[u8]) -> Option<u32> {
        let at = if octets.first()? & 0x01 != 0 { 12 } else { 4 };
        let tail = octets.get(at..at + 3)?;
        Some(u32::from_be_bytes([0, tail[0], tail[1], tail[2]]))
    }
}

/// Begins a message; [`end`] completes its length.
pub(super) fn begin(header: &Header, message: u8, out: &mut Vec<u8>) -> usize {
    let at = out.len();
    let seid = u8::from(header.seid.is_some());
    let priority = u8::from(header.priority.is_some());
    out.extend_from_slice(&[0x20 | priority << 1 | seid, message, 0, 0]);
    if let Some(seid) = header.seid {
        out.extend_from_slice(&seid.to_be_bytes());
    }
    out.extend_from_slice(&header.sequence.to_be_bytes()[1..]);
    out.push(header.priority.unwrap_or(0) << 4);
    at
}

/// Writes the length of the message that begins at `at`.
pub(super) fn end(at: usize, out: &mut [u8]) {
    let length = out.len() - at - UNCOUNTED;
    // A message is built from parts that fit a datagram; a length that does not is cut, and
    // the datagram cannot be sent either.
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    out[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
}
