use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixStream;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn welcome() -> Welcome {
    Welcome {
        version: VERSION,
        instance: "count".into(),
        config: json!({ "payload": true }),
        tags: vec![("colour".into(), Some(vec!["green".into()])), ("level".into(), None)],
        contexts: 1024,
        workers: 2,
        descriptors: 256,
        path: 1,
        fabric: Some(Ends { node: [2, 0, 0, 0, 0, 1], function: [2, 0, 0, 0, 0, 2], mtu: 1700 }),
        peers: vec![(1, [2, 0, 0, 0, 0, 2]), (2, [2, 0, 0, 0, 0, 3])],
        max_sleep_us: None,
    }
}

fn messages() -> Vec<Message> {
    let order = (1, 7);
    vec![
        Message::Hello { version: 1, process: 42, function: "counter".into() },
        Message::Welcome(Box::new(welcome())),
        Message::Refuse("another function".into()),
        Message::Configure { order, slot: 3, nth: 4, settings: "{}".into() },
        Message::Release { order, slot: 3 },
        Message::Import { order, slot: 3, now: 1 << 40, context: vec![1, 2] },
        Message::Start(vec![1, 2, 3]),
        Message::Ready,
        Message::Ping(1),
        Message::Pong(2),
        Message::Counted(PortCounters([1, 2, 3, 4, 5, 6, 1 << 40])),
        Message::Fence(3),
        Message::Fenced(4),
        Message::Checkpoint { now: 5 },
        Message::Context { worker: 1, slot: 2, context: vec![] },
        Message::Checkpointed,
        Message::Export { worker: 1, slot: 2, now: 3 },
        Message::Exported { worker: 1, slot: 2, context: vec![3, 4] },
        Message::NotImported { worker: 1, slot: 2, reason: "full".into() },
    ]
}

#[test]
fn what_is_sent_is_received_however_it_is_cut() {
    let (one, other) = UnixStream::pair().unwrap();
    let mut receiver = Connection::new(other).unwrap();
    let mut bytes = Vec::new();
    messages().iter().for_each(|message| message.write(&mut bytes));
    let mut received = Vec::new();
    for chunk in bytes.chunks(3) {
        (&one).write_all(chunk).unwrap();
        while let Some(message) = receiver.receive().unwrap() {
            received.push(message);
        }
    }
    assert_eq!(received, messages());
    drop(one);
    assert_eq!(receiver.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn a_message_that_claims_to_be_huge_ends_the_connection() {
    let (one, other) = UnixStream::pair().unwrap();
    let mut receiver = Connection::new(other).unwrap();
    (&one).write_all(&u32::MAX.to_le_bytes()).unwrap();
    assert_eq!(receiver.receive().unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_message_cut_short_or_drawn_out_is_none() {
    for message in messages() {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let bytes = &bytes[4..];
        assert_eq!(Message::read(bytes), Ok(message.clone()));
        for length in 0..bytes.len() {
            // Text at the end of a message may be shorter, numbers may not.
            if let Ok(other) = Message::read(&bytes[..length]) {
                assert_ne!(other, message);
            }
        }
    }
    assert!(Message::read(&[8, 0]).is_err());
}

proptest! {
    #[test]
    fn no_octets_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Message::read(&bytes);
    }
}
