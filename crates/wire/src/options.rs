//! Options of IPv4 (RFC 791 §3.1) and TCP (RFC 9293 §3.2), which share their
//! shape: kind, length, data, with two kinds of one octet each.

use std::fmt;

use crate::Error;

/// End of the option list; one octet.
pub const END: u8 = 0;
/// Padding between options; one octet.
pub const NO_OPERATION: u8 = 1;
/// Octets of options that a header has room for.
pub const MAX_LENGTH: usize = 40;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// What it is.
    pub kind: u8,
    /// What follows kind and length.
    pub data: &'a [u8],
}

/// The options in the octets between a header's fixed part and its end, without
/// padding. After [`Error::BadOption`] the walk is over.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    rest: &'a [u8],
}

/// Starts at the first option.
#[inline]
pub const fn walk(options: &[u8]) -> Walk<'_> {
    Walk { rest: options }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Item<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while let [NO_OPERATION, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let options = std::mem::take(&mut self.rest);
        let (&kind, behind) = options.split_first()?;
        if kind == END {
            return None;
        }
        let length = behind.first().map_or(0, |&length| usize::from(length));
        let Some(data) = options.get(2..length) else {
            return Some(Err(Error::BadOption));
        };
        self.rest = &options[length..];
        Some(Ok(Item { kind, data }))
    }
}

/// The options of one header as an owned value, padded to a multiple of 4 octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    octets: [u8; MAX_LENGTH],
    length: u8,
}

impl Options {
    /// No options.
    pub const NONE: Self = Self { octets: [0; MAX_LENGTH], length: 0 };

    /// Options from their octets, padded with [`END`]; `None` above
    /// [`MAX_LENGTH`] octets. What they say is not looked at.
    #[inline]
    pub fn new(octets: &[u8]) -> Option<Self> {
        let mut options = Self::NONE;
        options.octets.get_mut(..octets.len())?.copy_from_slice(octets);
        options.length = octets.len().next_multiple_of(4) as u8;
        Some(options)
    }

    /// The octets with padding: 0 to 40, a multiple of 4.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

impl Default for Options {
    #[inline]
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(walk(self.as_bytes())).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::hex;

    #[test]
    fn options_of_a_syn() {
        let bytes = hex("020405b4 0402 080a0000000100000000 01 030307");
        let kinds: Vec<_> = walk(&bytes).map(|item| item.map(|item| item.kind)).collect();
        assert_eq!(kinds, [Ok(2), Ok(4), Ok(8), Ok(3)]);
        assert_eq!(walk(&bytes).next(), Some(Ok(Item { kind: 2, data: &[0x05, 0xb4] })));
    }

    #[test]
    fn nothing_is_read_behind_the_end() {
        assert_eq!(walk(&[1, 1, 0, 7, 0]).next(), None);
        assert_eq!(walk(&[]).next(), None);
    }

    #[test]
    fn bad_lengths_end_the_walk() {
        for bytes in [&[7, 0, 1, 1][..], &[7, 1, 1, 1], &[7], &[7, 5, 0, 0]] {
            let items: Vec<_> = walk(bytes).collect();
            assert_eq!(items, [Err(Error::BadOption)], "{bytes:?}");
        }
    }

    #[test]
    fn options_are_padded() {
        assert_eq!(Options::new(&[2, 3, 9]).unwrap().as_bytes(), [2, 3, 9, 0]);
        assert_eq!(Options::new(&[1; 40]).unwrap().as_bytes(), [1; 40]);
        assert_eq!(Options::new(&[1; 41]), None);
        assert_eq!(Options::new(&[]), Some(Options::NONE));
    }

    proptest! {
        #[test]
        fn the_walk_ends_within_the_bytes(bytes in vec(0..12_u8, 0..50)) {
            let data: usize = walk(&bytes).flatten().map(|item| item.data.len() + 2).sum();
            prop_assert!(data <= bytes.len());
        }
    }
}
