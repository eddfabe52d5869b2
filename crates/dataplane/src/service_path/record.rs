//! What a node that asks for functions elsewhere writes into a service header, to
//! know its packet again: a ticket, and where the packet's headers are.
//!
//! With MD type 2 it is a context header of its own, type 2 of an experimental class
//! (RFC 8300 §9.1.4), and the values of the node's tags follow in one of type 3. With
//! MD type 1 it is the context header, and tags do not travel. All numbers are in
//! network byte order:
//!
//! | octets | |
//! |---|---|
//! | 0–1 | 0x5767, so that other metadata of the same length is not taken for it |
//! | 2–7 | session: a random number, which tells who sees no packet of the path nothing |
//! | 8–11 | ticket |
//! | 12 | worker that has it |
//! | 13 | bits 0 and 1: what the packet is, see [`RecordKind`]; the others: flags of the node's metadata |
//! | 14 | offset of the IP header in the frame; of a drop the number of its reason |
//! | 15 | offset of the IP header of the tunnel around it, 0 outside tunnels; of a drop a sum over the name of the function |

use weft_function::{PacketMetadata, TAG_SLOTS, TagTable};
use weft_wire::nsh::{self, Context, FIXED_CONTEXT_LENGTH};

use crate::offload::{FNV, hash};

/// Class of the context headers (RFC 8300 §9.1.4: experimental).
pub const CLASS: u16 = 0xfff6;
/// Type of the record.
pub const RECORD: u8 = 2;
/// Type of the tags: four octets that say which they are, four for each value.
pub const TAGS: u8 = 3;

const MAGIC: [u8; 2] = [0x57, 0x67];
/// Bits of a session.
pub const SESSION_BITS: u32 = 48;
/// Octets of a record.
pub const LENGTH: usize = FIXED_CONTEXT_LENGTH;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// The packet of the ticket.
    Packet = 0,
    /// The packet of the ticket was dropped. No packet of a user follows.
    Dropped = 1,
    /// A packet that a function made beside that of the ticket.
    Emitted = 2,
    /// Nothing: whether it comes back tells whether the path is there.
    Probe = 3,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which session of the node the ticket is of, in [`SESSION_BITS`] bits.
    pub session: u64,
    /// Which packet it is.
    pub ticket: u32,
    /// The worker that has the ticket.
    pub worker: u8,
    /// What the frame is.
    pub what: RecordKind,
    /// Number of the reason of a drop.
    pub reason: u8,
    /// Offset of the IP header in the frame.
    pub network_offset: u8,
    /// Offset of the IP header of the tunnel around it; 0 outside tunnels.
    pub outer_offset: u8,
    /// Flags of the metadata.
    pub flags: u8,
    /// Sum over the name of the function that dropped it.
    pub function: u8,
}

/// Flags that mean the same at every node.
const SHARED_FLAGS: u8 = PacketMetadata::TUNNELLED
    | PacketMetadata::LINK_SCOPE
    | PacketMetadata::DISCARDED_EXTENSIONS
    | PacketMetadata::OWN_INSIDE
    | PacketMetadata::MARTIAN_INSIDE;

impl Record {
    /// Reads a record; none where something else stands.
    #[inline]
    pub fn read(octets: &[u8]) -> Option<Record> {
        let octets: &[u8; LENGTH] = octets.try_into().ok()?;
        let &[a, b, ref middle @ .., worker, what, first, second] = octets;
        let (session, ticket) = middle.split_first_chunk::<6>()?;
        let session = session.iter().fold(0, |number, octet| number << 8 | u64::from(*octet));
        let ticket = u32::from_be_bytes(ticket.try_into().ok()?);
        let flags = what & SHARED_FLAGS;
        let what = match what & !SHARED_FLAGS {
            0 => RecordKind::Packet,
            1 => RecordKind::Dropped,
            2 => RecordKind::Emitted,
            3 => RecordKind::Probe,
            _ => return None,
        };
        let ((reason, function), (network_offset, outer_offset)) = match what {
            RecordKind::Dropped => ((first, second), (0, 0)),
            _ => ((0, 0), (first, second)),
        };
        ([a, b] == MAGIC).then_some(Record {
            session,
            ticket,
            worker,
            what,
            reason,
            network_offset,
            outer_offset,
            flags,
            function,
        })
    }

    /// The octets of it.
    #[inline]
    pub fn octets(&self) -> [u8; LENGTH] {
        let mut octets = [0; LENGTH];
        octets[..2].copy_from_slice(&MAGIC);
        octets[2..8].copy_from_slice(&self.session.to_be_bytes()[2..]);
        octets[8..12].copy_from_slice(&self.ticket.to_be_bytes());
        let (first, second) = match self.what {
            RecordKind::Dropped => (self.reason, self.function),
            _ => (self.network_offset, self.outer_offset),
        };
        let what = self.what as u8 | self.flags & SHARED_FLAGS;
        octets[12..].copy_from_slice(&[self.worker, what, first, second]);
        octets
    }

    /// Notes where the headers of a packet are; false where they lie too far behind
    /// to be said.
    #[inline]
    pub fn place(&mut self, metadata: &PacketMetadata) -> bool {
        let offsets = (metadata.network_offset, metadata.outer_offset);
        let (Ok(network), Ok(outer)) = (offsets.0.try_into(), offsets.1.try_into()) else {
            return false;
        };
        (self.network_offset, self.outer_offset) = (network, outer);
        self.flags = metadata.flags & SHARED_FLAGS;
        true
    }
}

/// Where the record of a header stands among its octets, if it has one.
#[inline]
pub fn record_in(header: &nsh::Packet<&[u8]>) -> Option<usize> {
    let at = match header.fixed_context() {
        Some(_) => nsh::MIN_HEADER_LENGTH,
        None => content_of(header, RECORD)?,
    };
    let octets = header.into_inner().get(at..at + LENGTH)?;
    Record::read(octets).map(|_| at)
}

/// Where the values of the tags stand, and how many octets they take.
#[inline]
pub fn tags_in(header: &nsh::Packet<&[u8]>, names: u32) -> Option<(usize, usize)> {
    let at = content_of(header, TAGS)?;
    let mut contexts = header.contexts().filter_map(Result::ok);
    let context = contexts.find(|one| one.class == CLASS && one.kind == TAGS)?;
    let (first, values) = context.content.split_first_chunk::<4>()?;
    let known = u32::from_be_bytes(*first) == names && values.len() <= 4 * TAG_SLOTS;
    known.then_some((at + 4, values.len() / 4 * 4))
}

/// Where the content of a context header of ours begins.
fn content_of(header: &nsh::Packet<&[u8]>, kind: u8) -> Option<usize> {
    let mut at = nsh::MIN_HEADER_LENGTH;
    for context in header.contexts().filter_map(Result::ok) {
        if context.class == CLASS && context.kind == kind {
            return Some(at + 4);
        }
        at += context.buffer_len();
    }
    None
}

/// The context headers of MD type 2 with a record and tags; how many octets.
#[inline]
pub fn write(record: &Record, names: u32, tags: &[u32], room: &mut [u8]) -> usize {
    let octets = record.octets();
    let first = Context { class: CLASS, kind: RECORD, content: &octets };
    let mut content = [0; 4 + 4 * TAG_SLOTS];
    content[..4].copy_from_slice(&names.to_be_bytes());
    put_tags(tags, &mut content[4..]);
    let count = 4 + 4 * tags.len().min(TAG_SLOTS);
    let second = Context { class: CLASS, kind: TAGS, content: &content[..count] };
    let length = first.buffer_len() + second.buffer_len();
    let Some(room) = room.get_mut(..length) else { return 0 };
    let (here, rest) = room.split_at_mut(first.buffer_len());
    // Both have the length that they say.
    let emitted = first.emit(here).and_then(|()| second.emit(rest));
    debug_assert!(emitted.is_ok());
    length
}

/// Writes values of tags.
pub fn put_tags(tags: &[u32], room: &mut [u8]) {
    for (place, tag) in room.as_chunks_mut::<4>().0.iter_mut().zip(tags) {
        *place = tag.to_be_bytes();
    }
}

/// A number for the names of a node's tags, in the order of their slots: nodes with
/// the same understand each other's.
pub fn names_of(tags: &TagTable) -> u32 {
    tags.iter().fold(FNV, |sum, (name, _)| hash(hash(sum, name.as_bytes()), b","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn read_of_octets(
            session in 0..1_u64 << SESSION_BITS, ticket: u32, worker: u8, what in 0..4_u8,
            first: u8, second: u8, flags: u8,
        ) {
            let what = [RecordKind::Packet, RecordKind::Dropped, RecordKind::Emitted, RecordKind::Probe][usize::from(what)];
            let flags = flags & SHARED_FLAGS;
            let ((reason, function), (network_offset, outer_offset)) = match what {
                RecordKind::Dropped => ((first, second), (0, 0)),
                _ => ((0, 0), (first, second)),
            };
            let record = Record {
                session, ticket, worker, what, reason, network_offset, outer_offset, flags, function,
            };
            prop_assert_eq!(Record::read(&record.octets()), Some(record));
        }

        #[test]
        fn no_octets_panic(octets in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Record::read(&octets);
            if let Ok(header) = nsh::Packet::new_checked(&octets[..]) {
                let _ = record_in(&header);
                let _ = tags_in(&header, 1);
            }
        }
    }

    #[test]
    fn a_record_is_found_behind_what_others_wrote() {
        let record = Record {
            session: 7,
            ticket: 9,
            worker: 1,
            what: RecordKind::Packet,
            reason: 0,
            network_offset: 14,
            outer_offset: 0,
            flags: 0,
            function: 0,
        };
        let mut bytes = [0; 120];
        let other = Context { class: 0x0101, kind: 3, content: &[1, 2, 3] };
        other.emit(&mut bytes[8..]).unwrap();
        let length = 8 + write(&record, 77, &[1, 2, 3], &mut bytes[16..]);
        let repr = nsh::Repr {
            oam: false,
            time_to_live: 1,
            next_protocol: nsh::NextProtocol::ETHERNET,
            path: nsh::ServicePathId::default(),
            index: 1,
            metadata: nsh::Metadata::Variable { length: length as u8 },
        };
        repr.emit(&mut bytes).unwrap();
        let header = nsh::Packet::new_checked(&bytes[..]).unwrap();
        let at = record_in(&header).unwrap();
        assert_eq!(Record::read(&bytes[at..at + LENGTH]), Some(record));
        let (at, length) = tags_in(&header, 77).unwrap();
        assert_eq!(bytes[at..at + length], [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
        assert_eq!(tags_in(&header, 78), None);
    }
}
