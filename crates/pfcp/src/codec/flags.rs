//! Information elements that are flags.

/// Declares flags over up to 8 octets. Bit `b` of the `k`th octet of the element, both counted
/// from 0 and the least significant bit first, is bit `8 * k + b` of the number.
///
/// `written` octets are written at least; octets beyond the number's are not read.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident($number:ty) written $least:literal {
        $($(#[$about:meta])* $flag:ident = $bit:literal,)+
    })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $number);

        impl $name {
            $($(#[$about])* pub const $flag: Self = Self(1 << $bit);)+

            /// Whether all of these flags are set.
            #[must_use]
            pub const fn has(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Whether one of these flags is set.
            #[must_use]
            pub const fn any(self, flags: Self) -> bool {
                self.0 & flags.0 != 0
            }

            /// These flags and those.
            #[must_use]
            pub const fn with(self, flags: Self) -> Self {
                Self(self.0 | flags.0)
            }

            /// These flags without those.
            #[must_use]
            pub const fn without(self, flags: Self) -> Self {
                Self(self.0 & !flags.0)
            }

            /// Whether no flag is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The names of the flags that are set.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                const ALL: &[(&str, $name)] = &[$((stringify!($flag), $name::$flag),)+];
                ALL.iter().filter(move |(_, flag)| self.has(*flag)).map(|(name, _)| *name)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_set().entries(self.names()).finish()
            }
        }

        impl<'a> $crate::codec::Value<'a> for $name {
            fn parse(element: u16, octets: &'a [u8]) -> Result<Self, $crate::codec::Error> {
                if octets.is_empty() {
                    return Err($crate::codec::Error::new($crate::codec::Defect::Length, element));
                }
                let mut value = [0; size_of::<$number>()];
                for (to, from) in value.iter_mut().zip(octets) {
                    *to = *from;
                }
                Ok(Self(<$number>::from_le_bytes(value)))
            }

            fn emit(&self, out: &mut Vec<u8>) {
                let octets = self.0.to_le_bytes();
                let used = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
                out.extend_from_slice(&octets[..used.max($least)]);
            }
        }
    )+ };
}
pub(super) use flags;
