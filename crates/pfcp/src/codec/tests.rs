//! The codec against bytes that were written by hand, against itself, and against bad bytes.

mod bytes;
mod dissector;
mod hostile;
pub(crate) mod strategy;

use super::{Frame, Header, Message, frames};
use proptest::prelude::*;

/// One message as bytes.
pub(crate) fn emitted(message: &Message<'_>, header: &Header) -> Vec<u8> {
    let mut out = Vec::new();
    message.emit(header, &mut out);
    out
}

/// The one message in these bytes.
pub(crate) fn parsed(octets: &[u8]) -> Result<(Header, Message<'_>), super::Error> {
    let (frame, _) = Frame::parse(octets)?;
    Ok((frame.header, Message::parse(&frame)?))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_emitted_is_parsed(message in strategy::message(), header in strategy::header()) {
        let octets = emitted(&message, &header);
        let (read_header, read) = parsed(&octets).unwrap();
        prop_assert_eq!(&read, &message);
        prop_assert_eq!(read_header, header);
        // And once more: writing is a function of the value.
        prop_assert_eq!(emitted(&read, &read_header), octets);
    }

    #[test]
    fn any_bytes_give_a_message_or_an_error(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        for frame in frames(&octets).flatten() {
            let _ = Message::parse(&frame);
        }
    }

    #[test]
    fn a_changed_message_is_a_message_or_an_error(
        message in strategy::message(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut octets = emitted(&message, &Header { seid: Some(1), ..Default::default() });
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        for frame in frames(&octets).flatten() {
            if let Ok(message) = Message::parse(&frame) {
                // Whatever was understood can be written and is understood the same way.
                let again = emitted(&message, &frame.header);
                let (_, read) = parsed(&again).unwrap();
                prop_assert_eq!(emitted(&read, &frame.header), again);
            }
        }
    }
}

#[test]
fn several_messages_stand_in_one_datagram() {
    let heartbeat = Message::HeartbeatRequest(super::message::Heartbeat::default());
    let mut octets = emitted(&heartbeat, &Header { sequence: 1, ..Default::default() });
    octets[0] |= 0x04;
    heartbeat.emit(&Header { sequence: 2, ..Default::default() }, &mut octets);
    let sequences: Vec<_> = frames(&octets).map(|frame| frame.unwrap().header.sequence).collect();
    assert_eq!(sequences, [1, 2]);
    // The second one is announced and missing.
    let mut octets = emitted(&heartbeat, &Header::default());
    octets[0] |= 0x04;
    assert!(frames(&octets).last().unwrap().is_err());
}
