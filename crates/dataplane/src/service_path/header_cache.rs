//! Where service headers wait while functions have the packets.
//!
//! A packet keeps a number in a slot of its tags. What lies here is
//! overwritten after `HEADERS` more packets: a packet that a function kept for
//! longer goes on with a fresh header.

use weft_function::{PacketMetadata, TAG_SLOTS};
use weft_wire::nsh;

/// Headers of one worker.
const HEADERS: usize = 4096;
/// Longest header: base and service path header, and as much metadata as the length
/// field has room for.
const LENGTH: usize = nsh::MIN_HEADER_LENGTH + nsh::MAX_CONTEXT_LENGTH;

/// Slot of the tags that has the number of a packet's header, at a node with service
/// paths; 0 for a packet without.
pub const SLOT: usize = TAG_SLOTS - 1;

/// In the number: the packet was made by a function, beside that of the header.
pub const EMITTED: u32 = 1 << 31;

/// The headers of one worker.
#[derive(Debug)]
pub struct NshHeaderCache {
    headers: Box<[(u32, u8, [u8; LENGTH])]>,
    next: u32,
}

impl Default for NshHeaderCache {
    fn default() -> Self {
        NshHeaderCache { headers: vec![(0, 0, [0; LENGTH]); HEADERS].into(), next: 1 }
    }
}

impl NshHeaderCache {
    /// Puts a header down; its number.
    #[inline]
    pub fn put(&mut self, header: &[u8]) -> u32 {
        let number = self.next;
        self.next = match (number + 1) & !EMITTED {
            0 => 1,
            next => next,
        };
        let length = header.len().min(LENGTH);
        let place = &mut self.headers[number as usize % HEADERS];
        (place.0, place.1) = (number, length as u8);
        place.2[..length].copy_from_slice(&header[..length]);
        number
    }

    /// The header of a number, if it is still there.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&[u8]> {
        let (owner, length, header) = &self.headers[number as usize % HEADERS];
        let is_there = number != 0 && *owner == number & !EMITTED;
        is_there.then(|| &header[..usize::from(*length)])
    }
}

/// Where a packet's number is.
#[inline]
pub fn number_of(metadata: &mut PacketMetadata) -> &mut u32 {
    &mut metadata.tags[SLOT]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_stays_until_as_many_have_come_as_there_is_room_for() {
        let mut cache = NshHeaderCache::default();
        let first = cache.put(&[1, 2, 3]);
        assert_eq!(cache.get(first), Some(&[1, 2, 3][..]));
        assert_eq!(cache.get(first | EMITTED), Some(&[1, 2, 3][..]));
        assert_eq!(cache.get(0), None);
        for _ in 1..HEADERS {
            cache.put(&[4]);
        }
        assert_eq!(cache.get(first), Some(&[1, 2, 3][..]));
        let last = cache.put(&[5]);
        assert_eq!((cache.get(first), cache.get(last)), (None, Some(&[5][..])));
    }
}
