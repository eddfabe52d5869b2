//! Names and other texts.

use std::fmt;

use crate::codec::{Error, Value};

/// A text as it was sent.
///
/// Names (network instance, APN/DNN, FQDN) come as labels with a length each
/// (TS 23.003 §9.1) or as plain text: deployed control planes send both, also where the
/// standard has one. [`Text::name`] reads either.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Text<'a>(pub &'a [u8]);

impl<'a> Text<'a> {
    /// The characters of a name; a dot between labels.
    pub fn name(self) -> impl Iterator<Item = char> + 'a {
        let labels = self.is_labels();
        let mut next_length = 0;
        self.0.iter().enumerate().filter_map(move |(at, &octet)| {
            if labels && at == next_length {
                next_length += usize::from(octet) + 1;
                return (at > 0).then_some('.');
            }
            Some(char::from(octet))
        })
    }

    /// Whether these octets are labels with their lengths: none is empty, the last ends with
    /// the octets, and each length is what it must be.
    fn is_labels(self) -> bool {
        let mut rest = self.0;
        while let Some((&length, behind)) = rest.split_first() {
            // A label has at most 63 octets (RFC 1035 §2.3.4); no letter has such a number.
            if length == 0 || length > 63 || behind.len() < usize::from(length) {
                return false;
            }
            rest = &behind[usize::from(length)..];
        }
        !self.0.is_empty()
    }

    /// Whether the name is this one. Names differ in no case of letters (RFC 1035 §2.3.3).
    #[must_use]
    pub fn is(self, name: &str) -> bool {
        self.name()
            .map(|letter| letter.to_ascii_lowercase())
            .eq(name.chars().map(|letter| letter.to_ascii_lowercase()))
    }

    /// The octets of a name as labels.
    #[must_use]
    pub fn labels_of(name: &str) -> Vec<u8> {
        let mut octets = Vec::with_capacity(name.len() + 1);
        for label in name.split('.').filter(|label| !label.is_empty()) {
            let label = &label.as_bytes()[..label.len().min(63)];
            octets.push(label.len() as u8);
            octets.extend_from_slice(label);
        }
        octets
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().try_for_each(|letter| write!(f, "{}", letter.escape_debug()))
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl<'a> Value<'a> for Text<'a> {
    fn parse(_: u16, octets: &'a [u8]) -> Result<Self, Error> {
        Ok(Self(octets))
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

/// An element of an update that is there without octets to take back what was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Change<T> {
    /// What was set holds no longer.
    #[default]
    Clear,
    /// The new value.
    Set(T),
}

impl<T> Change<T> {
    /// The new value, or nothing.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }
}

impl<'a, T: Value<'a>> Value<'a> for Change<T> {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        if octets.is_empty() { Ok(Self::Clear) } else { T::parse(element, octets).map(Self::Set) }
    }
    fn emit(&self, out: &mut Vec<u8>) {
        if let Self::Set(value) = self {
            value.emit(out);
        }
    }
}
