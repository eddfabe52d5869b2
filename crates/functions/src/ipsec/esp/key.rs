//! Keys, which no output shows.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use weft_function::{ContextError, Fields};

/// Octets of salt behind a key (RFC 4106 §4).
const SALT: usize = 4;
/// Octets of the longest key with its salt.
const LONGEST: usize = 32 + SALT;
const EXPECTED: &str = "a key is 40 or 72 hexadecimal digits in quotes: 16 or 32 octets for \
                        AES-GCM, then 4 octets of salt";

/// A key of AES-GCM with its salt, as key exchange gives it out (RFC 4106 §8.1).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    octets: [u8; LONGEST],
    length: u8,
}

impl Key {
    fn new(octets: &[u8]) -> Option<Key> {
        if !matches!(octets.len(), 20 | LONGEST) {
            return None;
        }
        let mut key = Key { octets: [0; LONGEST], length: octets.len() as u8 };
        key.octets[..octets.len()].copy_from_slice(octets);
        Some(key)
    }

    /// From hexadecimal digits.
    pub fn parse(text: &str) -> Option<Key> {
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let mut octets = [0; LONGEST];
        let (pairs, odd) = text.as_bytes().as_chunks::<2>();
        for (place, [high, low]) in octets.iter_mut().zip(pairs) {
            *place = digit(*high)? << 4 | digit(*low)?;
        }
        if !odd.is_empty() { None } else { Key::new(octets.get(..pairs.len())?) }
    }

    /// The key alone.
    pub fn secret(&self) -> &[u8] {
        &self.octets[..usize::from(self.length) - SALT]
    }

    /// The salt.
    pub fn salt(&self) -> [u8; SALT] {
        let end = usize::from(self.length);
        self.octets[end - SALT..end].try_into().unwrap_or_default()
    }

    pub fn export(&self, out: &mut Vec<u8>) {
        out.push(self.length);
        out.extend_from_slice(&self.octets[..usize::from(self.length)]);
    }

    /// Reads what [`export`](Self::export) wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn import(fields: &mut Fields<'_>) -> Result<Key, ContextError> {
        let key = match fields.u8()? {
            20 => Key::new(&fields.array::<20>()?),
            36 => Key::new(&fields.array::<36>()?),
            _ => None,
        };
        key.ok_or(ContextError::Damaged)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.octets.fill(0);
        // Or the compiler would see that nothing reads them any more.
        std::hint::black_box(&mut self.octets);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl<'de> Deserialize<'de> for Key {
    /// Whatever is wrong with it, the message does not repeat it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        struct Digits;

        impl Visitor<'_> for Digits {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
                Key::parse(text).ok_or_else(|| E::custom(EXPECTED))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Key, E> {
                Err(E::custom(EXPECTED))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Key, E> {
                Err(E::custom(EXPECTED))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Key, E> {
                Err(E::custom(EXPECTED))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Key, E> {
                Err(E::custom(EXPECTED))
            }
        }

        deserializer.deserialize_any(Digits)
    }
}

impl JsonSchema for Key {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Key".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^([0-9a-fA-F]{40}|[0-9a-fA-F]{72})$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_both_lengths_and_their_salt() {
        for (octets, length) in [(20, 16), (36, 32)] {
            let text = "0123456789abcdefABCD".repeat(4)[..2 * octets].to_owned();
            let key = Key::parse(&text).expect("a key");
            assert_eq!(key.secret().len(), length);
            assert_eq!(key.secret()[..2], [0x01, 0x23]);
            let salt = u32::from_str_radix(&text[2 * length..], 16).expect("digits");
            assert_eq!(key.salt(), salt.to_be_bytes());
            let mut bytes = Vec::new();
            key.export(&mut bytes);
            assert_eq!(Key::import(&mut Fields::new(&bytes)), Ok(key));
        }
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_repeated() {
        let long = "ab".repeat(24);
        for wrong in
            ["\"abcdef01\"", &format!("\"{long}\""), "12345678901234567890", "1e39", "true"]
        {
            let error = serde_json::from_str::<Key>(wrong).expect_err(wrong).to_string();
            assert!(error.contains("40 or 72 hexadecimal digits"), "{error}");
            assert!(!error.contains(wrong.trim_matches('"')), "{error}");
        }
        assert!(Key::parse(&"g0".repeat(20)).is_none());
        assert!(Key::parse(&"ab".repeat(37)).is_none());
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", Key::parse(&"5a".repeat(20))), "Some(Key(..))");
    }
}
