//! What a frame takes on a link.

/// Bytes that a frame takes on an Ethernet link beside its own: preamble, start
/// delimiter and inter-packet gap (IEEE 802.3 §4.2), and the frame check
/// sequence, which is not in memory.
const LINK_BYTES: usize = 20 + 4;

/// Bits of a frame of so many bytes on an Ethernet link (layer 1).
pub fn link_bits(frame_bytes: usize) -> u64 {
    (frame_bytes + LINK_BYTES) as u64 * 8
}
