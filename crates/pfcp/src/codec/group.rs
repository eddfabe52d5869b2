//! Information elements, and groups of them (§8.1.1).

use super::{Defect, Error};

/// A value of an information element.
pub trait Value<'a>: Sized {
    /// Reads the octets of an element, whose type is for the error.
    ///
    /// # Errors
    /// The element is too short for its fields, or has a value that the standard forbids.
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error>;

    /// Appends the octets of the element.
    fn emit(&self, out: &mut Vec<u8>);

    /// Octets that are a value of the element.
    #[cfg(test)]
    fn random(element: u16, draw: &mut super::tests::strategy::Draw) -> Vec<u8>
    where
        Self: Default,
    {
        for _ in 0..200 {
            let octets: &'static [u8] = Box::leak(draw.octets().into_boxed_slice());
            if Self::parse(element, octets).is_ok() {
                return octets.to_vec();
            }
        }
        let mut octets = Vec::new();
        Self::default().emit(&mut octets);
        octets
    }
}

/// The information elements of a message or a group: type and octets.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The elements in these octets.
    #[must_use]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<(u16, &'a [u8]), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((head, rest)) = self.rest.split_first_chunk::<4>() else {
            self.rest = &[];
            return Some(Err(Error::message(Defect::Length)));
        };
        let element = u16::from_be_bytes([head[0], head[1]]);
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let Some((octets, rest)) = rest.split_at_checked(length) else {
            self.rest = &[];
            return Some(Err(Error::new(Defect::Length, element)));
        };
        self.rest = rest;
        Some(Ok((element, octets)))
    }
}

/// Appends an element.
pub(crate) fn put<'a>(element: u16, value: &impl Value<'a>, out: &mut Vec<u8>) {
    out.extend_from_slice(&element.to_be_bytes());
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    value.emit(out);
    // As for a message: what is longer than a length field does not fit a datagram either.
    let length = u16::try_from(out.len() - at - 2).unwrap_or(u16::MAX);
    out[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

/// What stands in a group, by how often it may: `must` once, `may` at most once, `many`.
macro_rules! field {
    (type must $type:ty) => { $type };
    (type may $type:ty) => { Option<$type> };
    (type many $type:ty) => { Vec<$type> };
    (slot must) => { None };
    (slot may) => { None };
    (slot many) => { Vec::new() };
    (read must $slot:ident $element:path, $octets:ident) => {
        $crate::codec::group::field!(read may $slot $element, $octets)
    };
    (read may $slot:ident $element:path, $octets:ident) => {
        if $slot.is_none() { $slot = Some($crate::codec::Value::parse($element, $octets)?); }
    };
    (read many $slot:ident $element:path, $octets:ident) => {
        $slot.push($crate::codec::Value::parse($element, $octets)?)
    };
    (take must $slot:ident $element:path) => {
        $slot.ok_or($crate::codec::Error::new($crate::codec::Defect::Missing, $element))?
    };
    (take may $slot:ident $element:path) => { $slot };
    (take many $slot:ident $element:path) => { $slot };
    (count must $draw:ident) => { 1 };
    (count may $draw:ident) => { $draw.number() % 2 };
    (count many $draw:ident) => { $draw.number() % 4 };
    (put must $value:expr, $element:path, $out:ident) => {
        $crate::codec::group::put($element, &$value, $out)
    };
    (put may $value:expr, $element:path, $out:ident) => {
        if let Some(value) = &$value { $crate::codec::group::put($element, value, $out); }
    };
    (put many $value:expr, $element:path, $out:ident) => {
        for value in &$value { $crate::codec::group::put($element, value, $out); }
    };
}
pub(super) use field;

/// Declares a group of information elements: a struct, and how it is read and written.
///
/// `refuse` lists elements that the standard has in this place and that are not read.
macro_rules! group {
    ($(#[$doc:meta])* $name:ident<'a> { $($fields:tt)* } $(refuse $($refused:path),+)?) => {
        $crate::codec::group::group!(@ [$(#[$doc])*] $name [<'a>] { $($fields)* } [$($($refused),+)?]);
    };
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* } $(refuse $($refused:path),+)?) => {
        $crate::codec::group::group!(@ [$(#[$doc])*] $name [] { $($fields)* } [$($($refused),+)?]);
    };
    (@ [$(#[$doc:meta])*] $name:ident [$($life:tt)*] {
        $($(#[$about:meta])* $field:ident: $kind:ident $type:ty = $element:path,)*
    } [$($refused:path),*]) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name $($life)* {
            $($(#[$about])* pub $field: $crate::codec::group::field!(type $kind $type),)*
            /// The first element that the standard defines here and that is not read.
            pub refused: Option<u16>,
        }

        impl<'a> $crate::codec::Value<'a> for $name $($life)* {
            fn parse(_: u16, octets: &'a [u8]) -> Result<Self, $crate::codec::Error> {
                $(let mut $field = $crate::codec::group::field!(slot $kind);)*
                let mut refused = None;
                for element in $crate::codec::Elements::new(octets) {
                    let (number, _octets) = element?;
                    match number {
                        $($element => { $crate::codec::group::field!(read $kind $field $element, _octets); })*
                        $($refused => refused = refused.or(Some(number)),)*
                        _ => {}
                    }
                }
                let _ = &mut refused;
                Ok(Self { $($field: $crate::codec::group::field!(take $kind $field $element),)* refused })
            }

            fn emit(&self, out: &mut Vec<u8>) {
                let _ = &out;
                $($crate::codec::group::field!(put $kind self.$field, $element, out);)*
            }

            #[cfg(test)]
            fn random(_: u16, draw: &mut $crate::codec::tests::strategy::Draw) -> Vec<u8> {
                let mut octets = Vec::new();
                let _ = (&mut octets, &draw);
                $(for _ in 0..$crate::codec::group::field!(count $kind draw) {
                    let value = <$type as $crate::codec::Value>::random($element, draw);
                    $crate::codec::group::put($element, &$crate::codec::element::Octets(&value), &mut octets);
                })*
                octets
            }
        }
    };
}
pub(super) use group;
