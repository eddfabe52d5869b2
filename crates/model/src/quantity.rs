//! Quantities as people write them: `10 Gbit/s`, `2 GHz`, `14.88 Mpps`, `64 B`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Text that is no quantity of the kind that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}; write a number from 0 with one of the units {units}")]
pub struct QuantityError {
    text: String,
    what: &'static str,
    units: String,
}

type Units = &'static [(&'static str, f64)];

fn parse(text: &str, what: &'static str, units: Units) -> Result<f64, QuantityError> {
    let error = || QuantityError {
        text: text.to_owned(),
        what,
        units: units.iter().rev().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", "),
    };
    let trimmed = text.trim();
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let split = trimmed.find(|c| !is_digit(c)).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    let factor = match unit {
        "" => 1.0,
        unit => units.iter().find(|(known, _)| *known == unit).ok_or_else(error)?.1,
    };
    let value = number.parse::<f64>().map_err(|_| error())? * factor;
    if value.is_finite() { Ok(value) } else { Err(error()) }
}

/// Writes a value with the largest unit that leaves at least 1 in front.
fn display(value: f64, units: Units, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut own = units.iter().filter(|(unit, _)| !unit.ends_with("B/s"));
    let fitting = own.clone().find(|(_, factor)| value >= *factor).or_else(|| own.next_back());
    let &(unit, factor) = fitting.unwrap_or(&("", 1.0));
    let scaled = value / factor;
    match f.precision() {
        Some(precision) => write!(f, "{scaled:.precision$} {unit}"),
        None => write!(f, "{scaled} {unit}"),
    }
}

macro_rules! quantity {
    ($(#[$meta:meta])* $name:ident, $what:literal, $example:literal, $units:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(pub f64);

        impl $name {
            const UNITS: Units = $units;
        }

        impl FromStr for $name {
            type Err = QuantityError;

            fn from_str(text: &str) -> Result<Self, QuantityError> {
                parse(text, $what, Self::UNITS).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                display(self.0, Self::UNITS, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Words;

                impl de::Visitor<'_> for Words {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!($what, ", such as ", $example))
                    }

                    fn visit_u64<E: de::Error>(self, value: u64) -> Result<$name, E> {
                        Ok($name(value as f64))
                    }

                    fn visit_f64<E: de::Error>(self, value: f64) -> Result<$name, E> {
                        let unexpected = de::Unexpected::Float(value);
                        let is_right = value.is_finite() && value >= 0.0;
                        is_right.then_some($name(value)).ok_or_else(|| {
                            E::invalid_value(unexpected, &self)
                        })
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_any(Words)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "oneOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
                    "examples": [$example],
                })
            }
        }
    };
}

quantity!(
    /// Bits per second.
    BitRate, "a bit rate", "10 Gbit/s",
    &[
        ("Tbit/s", 1e12), ("Gbit/s", 1e9), ("GB/s", 8e9), ("Mbit/s", 1e6), ("MB/s", 8e6),
        ("kbit/s", 1e3), ("kB/s", 8e3), ("bit/s", 1.0), ("B/s", 8.0),
    ]
);
quantity!(
    /// Cycles per second.
    Frequency, "a frequency", "2 GHz",
    &[("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)]
);
quantity!(
    /// Packets per second.
    PacketRate, "a packet rate", "14.88 Mpps",
    &[("Gpps", 1e9), ("Mpps", 1e6), ("kpps", 1e3), ("pps", 1.0)]
);
quantity!(
    /// Bytes.
    Bytes, "a number of bytes", "64 B",
    &[("KiB", 1024.0), ("kB", 1e3), ("B", 1.0)]
);
quantity!(
    /// A share of a whole, from 0.
    Share, "a share", "20 %",
    &[("%", 0.01)]
);

impl Bytes {
    /// The same in bits.
    pub fn bits(self) -> f64 {
        self.0 * 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_people_write_them() {
        assert_eq!("10 Gbit/s".parse(), Ok(BitRate(1e10)));
        assert_eq!("4GB/s".parse(), Ok(BitRate(3.2e10)));
        assert_eq!("2.0 GHz".parse(), Ok(Frequency(2e9)));
        assert_eq!("14.88 Mpps".parse(), Ok(PacketRate(1.488e7)));
        assert_eq!("64".parse(), Ok(Bytes(64.0)));
        assert_eq!("20 %".parse(), Ok(Share(0.2)));
        assert_eq!(serde_json::from_str::<Share>("0.2").unwrap(), Share(0.2));
        assert_eq!(serde_json::from_str::<BitRate>("\"8 kbit/s\"").unwrap(), BitRate(8e3));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_the_units() {
        for text in ["", "fast", "3 parsecs", "-1 GHz", "1..2 GHz", "nan GHz"] {
            let error = text.parse::<Frequency>().unwrap_err().to_string();
            assert!(error.contains("a frequency") && error.contains("kHz"), "{error}");
        }
        assert!(serde_json::from_str::<BitRate>("-3").is_err());
        assert!(serde_json::from_str::<BitRate>("-3.5").is_err());
    }

    #[test]
    fn they_are_shown_in_the_largest_unit_that_fits() {
        assert_eq!(BitRate(3.2e10).to_string(), "32 Gbit/s");
        assert_eq!(format!("{:.2}", PacketRate(14_880_952.0)), "14.88 Mpps");
        assert_eq!(BitRate(0.0).to_string(), "0 bit/s");
        assert_eq!(Bytes(64.0).to_string(), "64 B");
    }
}
