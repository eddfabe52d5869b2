//! The control protocol beside a ring: messages, and a stream of them that comes in pieces.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;

use weft_offload::process::protocol::{Connection, MAX_MESSAGE, Message};

/// Octets that are written at once.
const PIECE: usize = 977;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    if let Ok(message) = Message::read(bytes) {
        round_trip(&message);
    }
    let expected = messages(bytes);
    let (mut far, near) = UnixStream::pair().expect("two sockets");
    let mut connection = Connection::new(near).expect("it can be made not to block");
    let mut came = Vec::new();
    for piece in bytes.chunks(PIECE) {
        far.write_all(piece).expect("there is room for an input");
        if !receive(&mut connection, &mut came) {
            break;
        }
    }
    assert_eq!(came, expected);
}

/// What was read is written so that it reads the same.
fn round_trip(message: &Message) {
    let mut written = Vec::new();
    message.write(&mut written);
    let (length, octets) = written.split_first_chunk::<4>().expect("a length");
    assert_eq!(u32::from_le_bytes(*length) as usize, octets.len());
    let again = Message::read(octets).expect("what was written is read");
    // Numbers of a configuration may come back rounded.
    match (message, &again) {
        (Message::Welcome(_), Message::Welcome(_)) => {}
        _ => assert_eq!(again, *message),
    }
}

/// The messages that a stream begins with.
fn messages(mut stream: &[u8]) -> Vec<Message> {
    let mut all = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (true, Some((octets, rest))) = (length <= MAX_MESSAGE, rest.split_at_checked(length))
        else {
            break;
        };
        let Ok(message) = Message::read(octets) else { break };
        all.push(message);
        stream = rest;
    }
    all
}

/// Takes what has come; whether the connection goes on.
fn receive(connection: &mut Connection, came: &mut Vec<Message>) -> bool {
    loop {
        match connection.receive() {
            Ok(Some(message)) => came.push(message),
            Ok(None) => return true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidData);
                return false;
            }
        }
    }
}
