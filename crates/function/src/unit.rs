//! Quantities as people write them: `20 Mbit/s`, `64 KiB`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A bit rate, in bits per second. Written as a number, or as text with a unit:
/// `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s` (powers of 1000).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

/// A number of bytes. Written as a number, or as text with a unit: `B`, `kB`,
/// `MB`, `GB` (powers of 1000), `KiB`, `MiB`, `GiB` (powers of 1024).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

const RATES: &[(&str, u64)] =
    &[("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)];
const SIZES: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Text that is no quantity of the kind that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// It is none at all.
    #[error("\"{text}\" is not a {what}; write a number with one of the units {units}")]
    Other {
        /// The text.
        text: String,
        /// What is wanted.
        what: &'static str,
        /// The units there are.
        units: String,
    },
    /// It does not fit into 64 bits.
    #[error("\"{text}\" is too large; the largest {what} is {most}")]
    TooLarge {
        /// The text.
        text: String,
        /// What is wanted.
        what: &'static str,
        /// The largest of it.
        most: String,
    },
}

fn parse(text: &str, what: &'static str, units: &[(&str, u64)]) -> Result<u64, UnitError> {
    let error = || UnitError::Other {
        text: text.to_owned(),
        what,
        units: units.iter().rev().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", "),
    };
    let too_large = || UnitError::TooLarge {
        text: text.to_owned(),
        what,
        most: units
            .first()
            .map_or_else(String::new, |(unit, factor)| format!("{} {unit}", u64::MAX / factor)),
    };
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let factor = match unit {
        "" => 1,
        unit => units.iter().find(|(known, _)| *known == unit).ok_or_else(error)?.1,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(too_large);
    }
    let value = number.parse::<f64>().map_err(|_| error())? * factor as f64;
    match value < u64::MAX as f64 {
        true => Ok(value.round() as u64),
        false => Err(too_large()),
    }
}

#[inline]
fn display(value: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fits = units.iter().find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    let (unit, factor) = fits.unwrap_or(&units[units.len() - 1]);
    write!(f, "{} {unit}", value / factor)
}

macro_rules! quantity {
    ($name:ident, $what:literal, $units:ident, $example:literal) => {
        impl FromStr for $name {
            type Err = UnitError;

            #[inline]
            fn from_str(text: &str) -> Result<Self, UnitError> {
                parse(text, $what, $units).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                display(self.0, $units, f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Visitor::<$name>(std::marker::PhantomData))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl From<u64> for $name {
            #[inline]
            fn from(value: u64) -> Self {
                $name(value)
            }
        }

        impl JsonSchema for $name {
            #[inline]
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            #[inline]
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": concat!("A ", $what, ", as a number or with a unit, such as ", $example),
                    "oneOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]
                })
            }
        }
    };
}

quantity!(Rate, "bit rate", RATES, "20 Mbit/s");
quantity!(ByteSize, "number of bytes", SIZES, "64 KiB");

struct Visitor<T>(std::marker::PhantomData<T>);

impl<T> serde::de::Visitor<'_> for Visitor<T>
where
    T: From<u64> + FromStr<Err = UnitError>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a number with a unit")
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<T, E> {
        Ok(T::from(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<T, E> {
        u64::try_from(value).map(T::from).map_err(|_| E::custom("must not be negative"))
    }

    /// YAML reads whole numbers beyond 64 bits as this.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<T, E> {
        match value.fract() == 0.0 {
            true => value.to_string().parse().map_err(E::custom),
            false => Err(E::invalid_type(serde::de::Unexpected::Float(value), &self)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes_are_read_as_people_write_them() {
        assert_eq!("20 Mbit/s".parse(), Ok(Rate(20_000_000)));
        assert_eq!("1.5Gbit/s".parse(), Ok(Rate(1_500_000_000)));
        assert_eq!("64 KiB".parse(), Ok(ByteSize(65_536)));
        assert_eq!(serde_json::from_str::<ByteSize>("1500").unwrap(), ByteSize(1500));
        assert_eq!(serde_json::from_str::<Rate>("\"8 kbit/s\"").unwrap(), Rate(8000));
        assert_eq!(Rate(20_000_000).to_string(), "20 Mbit/s");
        assert_eq!(ByteSize(65_536).to_string(), "64 KiB");
        assert_eq!(ByteSize(1500).to_string(), "1500 B");
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_the_units() {
        for text in ["", "fast", "3 parsecs", "-1 B", "1..2 B", "nan B"] {
            let error = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.contains("number of bytes") && error.contains("KiB"), "{error}");
        }
        assert!(serde_json::from_str::<Rate>("-3").is_err());
    }

    #[test]
    fn a_number_that_is_too_large_is_told_apart_from_what_is_none() {
        let most = "too large; the largest bit rate is 18446744073 Gbit/s";
        for text in
            ["99999999999 Gbit/s", "99999999999999999999 bit/s", "1.5e0", "99999999999.5 Gbit/s"]
        {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert_eq!(error.contains(most), text != "1.5e0", "{error}");
        }
        let error = serde_json::from_str::<Rate>("99999999999999999999").unwrap_err().to_string();
        assert!(error.contains(most), "{error}");
        assert_eq!("18446744073 Gbit/s".parse(), Ok(Rate(18_446_744_073_000_000_000)));
        assert_eq!(serde_json::from_str::<Rate>("1e6").unwrap(), Rate(1_000_000));
    }
}
