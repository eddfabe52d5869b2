//! What one end of a connection of transport says: a greeting or an answer to one, and
//! messages behind it.

use weft_mobility_protocol::{Envelope, ParseError};
use weft_mobility_transport::hello::{
    ANSWER_HEAD, HEAD, Hello, PLACE_HEAD, parse_answer, parse_place, place_rest, refuse, welcome,
};

/// What is sent when there is nothing to say.
const ALIVE: u8 = 0;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    dialled(bytes);
    dials(bytes);
}

/// The end that is dialled hears a greeting.
fn dialled(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return };
    let Ok(length) = Hello::rest(head) else { return };
    let Some((said, messages)) = rest.split_at_checked(length) else { return };
    if let Ok(hello) = Hello::parse(head, said) {
        assert_eq!(hello.emit(), bytes[..HEAD + length]);
        envelopes(messages);
    }
}

/// The end that dials hears an answer.
fn dials(bytes: &[u8]) {
    let Some((head, mut rest)) = bytes.split_first_chunk::<ANSWER_HEAD>() else { return };
    let said = match parse_answer(head) {
        Ok(Ok(said)) => said,
        Ok(Err(refusal)) => return assert_eq!(refuse(refusal)[..6], head[..6]),
        Err(_) => return,
    };
    let mut places = Vec::new();
    for _ in 0..said.places {
        let Some((head, behind)) = rest.split_first_chunk::<PLACE_HEAD>() else { return };
        let Some((said, behind)) = behind.split_at_checked(place_rest(head)) else { return };
        let Ok(place) = parse_place(head, said) else { return };
        places.push(place);
        rest = behind;
    }
    assert_eq!(welcome(&places, said.term), bytes[..bytes.len() - rest.len()]);
    envelopes(rest);
}

/// Messages up to the first that is none, with signs of life between them.
fn envelopes(mut stream: &[u8]) {
    while let Some((&first, rest)) = stream.split_first() {
        if first == ALIVE {
            stream = rest;
            continue;
        }
        let (envelope, length) = match Envelope::parse(stream) {
            Ok(parsed) => parsed,
            Err(ParseError::Truncated) => return,
            Err(error) => return drop(error.to_string()),
        };
        assert!(length > 0 && length <= stream.len());
        let mut copy = Vec::new();
        envelope.emit(&mut copy).expect("what was read is written");
        assert_eq!(copy, stream[..length]);
        stream = &stream[length..];
    }
}
