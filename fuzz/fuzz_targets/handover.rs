//! Messages of the handover protocol.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_mobility_protocol::Envelope;

fuzz_target!(|bytes: &[u8]| {
    let Ok((envelope, length)) = Envelope::parse(bytes) else { return };
    let mut copy = Vec::new();
    envelope.emit(&mut copy).unwrap();
    assert_eq!(copy, bytes[..length]);
});
