//! Why a function dropped a packet, as the packet itself says it: the node that waits for it
//! is told.

use weft_compose::Burst;

/// In the annotation `state` of a packet that a function has dropped; the reason and
/// the function stand below.
const DROPPED: u32 = 0xd6 << 24;

/// Notes in a packet why a function dropped it.
#[cold]
pub fn note_drop(burst: &mut Burst, position: usize, reason: u8, function: &str) {
    burst.packets[position].annotations_mut().state = state_of_drop(reason, function);
}

/// What notes in the annotation `state` why a function dropped a packet.
pub fn state_of_drop(reason: u8, function: &str) -> u32 {
    DROPPED | u32::from(reason) << 8 | u32::from(sum_of(function))
}

/// The reason, and a sum over the name of the function, if that is noted there.
pub fn drop_of(state: u32) -> Option<(u8, u8)> {
    (state & 0xff00_0000 == DROPPED).then_some(((state >> 8) as u8, state as u8))
}

/// A sum over the name of a function.
pub fn sum_of(function: &str) -> u8 {
    let sum = hash(FNV, function.as_bytes());
    (sum ^ sum >> 8 ^ sum >> 16 ^ sum >> 24) as u8
}

/// FNV-1a, 32 bits, goes on from here.
pub const FNV: u32 = 0x811c_9dc5;

/// FNV-1a over further octets.
pub fn hash(sum: u32, octets: &[u8]) -> u32 {
    octets.iter().fold(sum, |sum, octet| (sum ^ u32::from(*octet)).wrapping_mul(0x0100_0193))
}
