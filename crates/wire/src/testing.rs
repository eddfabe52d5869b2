//! What the tests of all protocols share.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Bytes from their hexadecimal digits; blanks do not count.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Bytes that no parser may panic on: noise, and packets with some octets
/// changed and their end cut off, which come further than noise does.
pub fn hostile(packet: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![1 => vec(any::<u8>(), 0..160), 3 => damaged(packet)]
}

fn damaged(packet: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<Index>(), any::<u8>()), 0..4);
    let length = prop_oneof![Just(packet.len()), 0..=packet.len()];
    (changes, length).prop_map(move |(changes, length)| {
        let mut bytes = packet.clone();
        for (place, octet) in changes {
            *place.get_mut(&mut bytes) = octet;
        }
        bytes.truncate(length);
        bytes
    })
}

/// Protocol octets, with those of extension headers more often than by chance.
pub fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(vec![0, 6, 17, 43, 44, 51, 58, 59, 60])]
}

/// Words for checksums, with both zeros of ones-complement more often than by
/// chance.
pub fn word() -> impl Strategy<Value = u16> {
    prop_oneof![any::<u16>(), Just(0), Just(0xffff)]
}
