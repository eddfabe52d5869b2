//! Messages of the handover protocol.

use weft_mobility_protocol::Envelope;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok((envelope, length)) = Envelope::parse(bytes) else { return };
    let mut copy = Vec::new();
    envelope.emit(&mut copy).unwrap();
    assert_eq!(copy, bytes[..length]);
}
