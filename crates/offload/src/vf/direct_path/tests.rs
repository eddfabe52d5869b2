//! Frames on their way over several functions.

use proptest::prelude::*;

use super::*;
use crate::frame::FrameKind;

const NODE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TAGS: usize = 5;

fn mac(function: u16) -> [u8; 6] {
    [2, 0, 0, 0, 1, function as u8]
}

fn line(function: u16) -> Line {
    let peers: Peers = [3, 4, 5, 6].map(|number| (number, mac(number))).into();
    let ends = Ends { node: NODE, function: mac(function), mtu: 1500 };
    Line::new(function, TAGS, (ends, peers), 6)
}

fn record(what: FrameKind) -> Record {
    let metadata = PacketMetadata { tags: [1, 2, 3, 4, 5, 0, 0, 0], user: 9, ..Default::default() };
    Record { ticket: 0x0102_0304, what, reason: 2, now: 77, order: 7, metadata }
}

/// On to functions 4 and 6, with orders 40 and 60.
fn onward() -> NextHops {
    let mut onward = NextHops::NOWHERE;
    for (function, order) in [(4, 40), (6, 60)] {
        assert!(onward.push(NextHop { function, order }));
    }
    onward
}

/// A frame in front of a packet of 60 octets.
fn frame(line: &Line, onward: &NextHops) -> Vec<u8> {
    let mut bytes = vec![0xaa; line.header_length(onward.hops().len()) + 60];
    line.write(&record(FrameKind::Packet), onward, &mut bytes);
    bytes
}

/// What a function makes of a frame that comes to it.
fn take(line: &Line, bytes: &[u8]) -> Option<(Head, DirectPath, usize)> {
    line.take_in(bytes, &mut PacketMetadata::default())
}

/// What the node makes of a frame that comes back to it.
fn back(line: &Line, bytes: &[u8]) -> Option<(Head, DirectPath, usize)> {
    line.take_back(bytes, &mut PacketMetadata::default())
}

/// The frame by which a function sends on what came to it, as `what`.
fn on(line: &Line, trail: &DirectPath, what: FrameKind) -> Vec<u8> {
    let mut bytes = vec![0xbb; line.header_length(trail.onward.hops().len()) + 60];
    line.write_on(&record(what), trail, what == FrameKind::Packet, &mut bytes);
    bytes
}

#[test]
fn a_packet_goes_from_function_to_function_and_back_from_the_last() {
    let [node, second, third] = [3, 4, 6].map(line);
    let mut bytes = frame(&node, &onward());
    assert_eq!((&bytes[..6], &bytes[6..12]), (&mac(3)[..], &NODE[..]));
    for (at, here, next, order) in
        [(0, &node, mac(4), 7), (1, &second, mac(6), 40), (2, &third, NODE, 60)]
    {
        let (head, mut trail, length) = take(here, &bytes).unwrap();
        assert_eq!(bytes.len() - length, 60);
        assert_eq!((head.ticket, trail.before, trail.first), (0x0102_0304, at, 3));
        assert_eq!(trail.order(&head), order);
        trail.note_length(100 + usize::from(at));
        bytes = on(here, &trail, FrameKind::Packet);
        assert_eq!((&bytes[..6], &bytes[6..12]), (&next[..], &here.ends.function[..]));
        let header = nsh::Packet::new_checked(&bytes[ETHERNET..]).unwrap();
        assert_eq!((header.path().value(), header.index()), (PATHS + 3, 254 - at));
        assert_eq!(header.payload().len(), 60);
    }
    let (_, trail, _) = back(&node, &bytes).unwrap();
    let past = Past { count: 2, functions: [4, 6, 0], lengths: [101, 102, 0] };
    assert_eq!((trail.past(), trail.past().last()), (past, Some(6)));
    assert!(trail.onward.is_way_of(&onward()));
    assert_eq!(worker_of(&bytes), 6);
}

#[test]
fn what_is_dropped_goes_back_from_where_it_was() {
    let [node, second] = [3, 4].map(line);
    let (_, trail, _) = take(&node, &frame(&node, &onward())).unwrap();
    let bytes = on(&node, &trail, FrameKind::Packet);
    let (_, trail, _) = take(&second, &bytes).unwrap();
    let bytes = on(&second, &trail, FrameKind::Dropped);
    assert_eq!(bytes[..6], NODE);
    let (head, trail, _) = back(&node, &bytes).unwrap();
    assert_eq!((head.what, head.reason, trail.before), (FrameKind::Dropped, 2, 1));
}

#[test]
fn what_comes_from_elsewhere_is_none() {
    let [node, second, other] = [3, 4, 5].map(line);
    let first = frame(&node, &onward());
    assert!(back(&node, &first).is_none(), "it has not been there");
    assert!(take(&second, &first).is_none(), "it is for another");
    let (_, trail, _) = take(&node, &first).unwrap();
    let passed = on(&node, &trail, FrameKind::Packet);
    for (at, what) in [
        (11, "from another"),
        (5, "to another"),
        (PATH + 2, "on another path"),
        (INDEX, "at another place of its way"),
        (CONTEXT_LENGTH, "with another way"),
    ] {
        let mut bytes = passed.clone();
        bytes[at] ^= 1;
        assert!(take(&second, &bytes).is_none(), "{what}");
    }
    let mut forged = passed.clone();
    forged[..6].copy_from_slice(&mac(5));
    assert!(take(&other, &forged).is_none(), "it is not on the way");
    let mut bytes = passed;
    bytes[ETHERNET + 1] ^= 0x40;
    assert!(take(&second, &bytes).is_some(), "the time to live may be another");
}

#[test]
fn a_way_of_one_function_has_no_entries() {
    let node = line(3);
    let bytes = frame(&node, &NextHops::NOWHERE);
    let (_, trail, length) = take(&node, &bytes).unwrap();
    assert_eq!((trail.onward.hops().len(), bytes.len() - length), (0, 60));
    let (_, trail, _) = back(&node, &on(&node, &trail, FrameKind::Packet)).unwrap();
    assert_eq!(trail.past(), Past::default());
}

proptest! {
    #[test]
    fn nothing_that_comes_breaks_the_reader(
        at in 0..200_usize, value: u8, length in 0..200_usize,
    ) {
        let (node, second) = (line(3), line(4));
        let mut bytes = frame(&node, &onward());
        bytes.resize(200, 0);
        bytes[at] = value;
        bytes.truncate(length);
        let read = [take(&node, &bytes), take(&second, &bytes), back(&node, &bytes)];
        for (_, _, header) in read.into_iter().flatten() {
            prop_assert!(header <= length);
        }
    }
}
