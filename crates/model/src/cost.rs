//! What things cost per packet, by the size of its frame.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, SeqAccess, Visitor, value};
use serde::{Deserialize, Deserializer, Serialize};

use crate::quantity::Bytes;

/// A cost per packet, in cycles, as it depends on the size of the frame.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cost {
    /// The same for every size.
    Fixed(f64),
    /// A part for the packet and a part for each byte of its frame.
    Linear(Linear),
    /// Measured at some sizes, ascending; linear between them and constant beyond.
    Table(Vec<At>),
}

/// A part for the packet and a part for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Linear {
    /// Cycles for each packet.
    pub cycles: f64,
    /// Cycles for each byte of its frame.
    #[serde(default)]
    pub per_byte: f64,
}

/// What was measured at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// Bytes of the frame with its checksum.
    pub size: Bytes,
    /// Cycles for each packet.
    pub cycles: f64,
}

impl Cost {
    /// Nothing.
    pub const NONE: Cost = Cost::Fixed(0.0);

    /// Cycles for a packet whose frame has so many bytes with its checksum.
    pub fn at(&self, size: f64) -> f64 {
        match self {
            Cost::Fixed(cycles) => *cycles,
            Cost::Linear(Linear { cycles, per_byte }) => cycles + per_byte * size,
            Cost::Table(table) => between(table, size),
        }
    }

    /// What is wrong with it, if anything.
    pub fn mistake(&self) -> Option<&'static str> {
        let is_right = |number: f64| number.is_finite() && number >= 0.0;
        match self {
            Cost::Fixed(cycles) if !is_right(*cycles) => Some("a cost is a number from 0"),
            Cost::Linear(Linear { cycles, per_byte }) if !is_right(*cycles + *per_byte) => {
                Some("a cost is a number from 0")
            }
            Cost::Linear(Linear { cycles, per_byte }) if *cycles < 0.0 || *per_byte < 0.0 => {
                Some("a cost is a number from 0")
            }
            Cost::Table(table) if table.is_empty() => Some("a table of costs has at least one row"),
            Cost::Table(table) if !table.iter().all(|row| is_right(row.cycles)) => {
                Some("a cost is a number from 0")
            }
            Cost::Table(table) if table.windows(2).any(|pair| pair[0].size.0 >= pair[1].size.0) => {
                Some("the sizes of a table of costs ascend")
            }
            _ => None,
        }
    }
}

impl Default for Cost {
    fn default() -> Cost {
        Cost::NONE
    }
}

fn between(table: &[At], size: f64) -> f64 {
    let above = table.partition_point(|row| row.size.0 < size);
    match (above.checked_sub(1).and_then(|below| table.get(below)), table.get(above)) {
        (Some(low), Some(high)) => {
            let part = (size - low.size.0) / (high.size.0 - low.size.0);
            low.cycles + part * (high.cycles - low.cycles)
        }
        (Some(only), None) | (None, Some(only)) => only.cycles,
        (None, None) => 0.0,
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Cost;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "a number of cycles, a mapping with `cycles` and `perByte`, or a list of \
                     `size` and `cycles`",
                )
            }

            fn visit_u64<E: de::Error>(self, cycles: u64) -> Result<Cost, E> {
                Ok(Cost::Fixed(cycles as f64))
            }

            fn visit_i64<E: de::Error>(self, cycles: i64) -> Result<Cost, E> {
                Ok(Cost::Fixed(cycles as f64))
            }

            fn visit_f64<E: de::Error>(self, cycles: f64) -> Result<Cost, E> {
                Ok(Cost::Fixed(cycles))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cost, A::Error> {
                Linear::deserialize(value::MapAccessDeserializer::new(map)).map(Cost::Linear)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Cost, A::Error> {
                Vec::deserialize(value::SeqAccessDeserializer::new(list)).map(Cost::Table)
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for Cost {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cost".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (linear, row) = (generator.subschema_for::<Linear>(), generator.subschema_for::<At>());
        json_schema!({
            "description": "Cycles per packet: a number, a number with a part for each byte, or a \
                            table by size",
            "oneOf": [
                {"type": "number", "minimum": 0},
                linear,
                {"type": "array", "minItems": 1, "items": row},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_linear_between_its_rows_and_constant_beyond() {
        let row = |size: f64, cycles: f64| At { size: Bytes(size), cycles };
        let table = Cost::Table(vec![row(64.0, 10.0), row(128.0, 20.0), row(256.0, 10.0)]);
        for (size, cycles) in
            [(60.0, 10.0), (64.0, 10.0), (96.0, 15.0), (128.0, 20.0), (192.0, 15.0), (1e4, 10.0)]
        {
            assert_eq!(table.at(size), cycles, "{size}");
        }
    }

    #[test]
    fn all_forms_are_read() {
        let read = |text| serde_json::from_str::<Cost>(text);
        assert_eq!(read("35").unwrap().at(64.0), 35.0);
        assert_eq!(read(r#"{"cycles": 10, "perByte": 0.5}"#).unwrap().at(64.0), 42.0);
        let table = read(r#"[{"size": 64, "cycles": 1}, {"size": "1518 B", "cycles": 2}]"#);
        assert_eq!(table.unwrap().at(1518.0), 2.0);
        assert!(read("\"much\"").unwrap_err().to_string().contains("a number of cycles"));
    }

    #[test]
    fn what_is_no_cost_is_told() {
        let mistake = |text| serde_json::from_str::<Cost>(text).unwrap().mistake();
        assert_eq!(mistake("0"), None);
        assert!(mistake("-1").is_some() && mistake("[]").is_some());
        assert!(mistake(r#"{"cycles": 10, "perByte": -0.5}"#).is_some());
        let falling = r#"[{"size": 64, "cycles": 1}, {"size": 64, "cycles": 2}]"#;
        assert!(mistake(falling).unwrap().contains("ascend"));
    }
}
