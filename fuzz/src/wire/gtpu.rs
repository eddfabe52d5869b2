//! GTP-U messages: header, extension headers, containers and elements.

use std::hint::black_box;

use weft_wire::gtpu::{ExtensionRepr, MAX_EXTENSION_HEADERS, Message, Repr, Signal, elements};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(message) = Message::new_checked(bytes) else { return };
    black_box((message.message_type(), message.teid(), message.sequence(), message.n_pdu()));
    black_box((message.to_string(), message.pdu_session().is_ok()));
    black_box(elements(message.payload()).count());
    assert!(message.extensions().count() <= MAX_EXTENSION_HEADERS);
    for extension in message.extensions() {
        black_box(ExtensionRepr::parse(&extension).is_ok());
    }

    let repr = Repr::parse(&message);
    let mut copy = vec![0; repr.buffer_len() + repr.payload_length];
    repr.emit(&mut copy).unwrap();
    assert_eq!(Repr::parse(&Message::new_checked(&copy[..]).unwrap()), repr);

    let Ok(signal) = Signal::parse(&message) else { return };
    let mut copy = vec![0; signal.buffer_len()];
    signal.emit(&mut copy).unwrap();
    assert_eq!(Signal::parse(&Message::new_checked(&copy[..]).unwrap()), Ok(signal));
}
