//! Values that configurations give as text: MAC addresses, protocols, ranges of
//! ports.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use weft_wire::{Protocol, TextError};

/// Reads a value that may be left out from its text.
pub(crate) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
}

/// A number, or text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or text")]
pub(crate) enum NumberOrText {
    Number(u16),
    Text(String),
}

/// An IP protocol: its name (`tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, `esp`, ...)
/// or its number, 0 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct ProtocolName(pub Protocol);

impl TryFrom<NumberOrText> for ProtocolName {
    type Error = TextError;

    fn try_from(value: NumberOrText) -> Result<ProtocolName, TextError> {
        let text = match value {
            NumberOrText::Number(number) => number.to_string(),
            NumberOrText::Text(text) => text,
        };
        text.parse().map(ProtocolName)
    }
}

impl JsonSchema for ProtocolName {
    fn schema_name() -> Cow<'static, str> {
        "Protocol".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An IP protocol, by name or number.",
            "anyOf": [{ "type": "integer", "minimum": 0, "maximum": 255 }, { "type": "string" }],
            "examples": ["udp", 47]
        })
    }
}

/// Ports of a transport protocol: one (`80`), or all from one to another
/// (`"1024-65535"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest, not below the lowest.
    pub last: u16,
}

impl JsonSchema for PortRange {
    fn schema_name() -> Cow<'static, str> {
        "PortRange".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "One port, or all from one to another.",
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 65535 },
                { "type": "string", "pattern": "^[0-9]+( *- *[0-9]+)?$" }
            ],
            "examples": [80, "1024-65535"]
        })
    }
}

impl PortRange {
    /// Every port.
    pub const ALL: PortRange = PortRange { first: 0, last: u16::MAX };

    /// Whether the port is among them.
    #[inline]
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// Text that is no range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a range of ports; write 80 or 1024-65535, the lower one first")]
pub struct PortRangeError(String);

impl TryFrom<NumberOrText> for PortRange {
    type Error = PortRangeError;

    fn try_from(value: NumberOrText) -> Result<PortRange, PortRangeError> {
        match value {
            NumberOrText::Number(port) => Ok(PortRange { first: port, last: port }),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<PortRange, PortRangeError> {
        let error = || PortRangeError(text.to_owned());
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse().map_err(|_| error());
        let (first, last) = (port(first)?, port(last)?);
        if first <= last { Ok(PortRange { first, last }) } else { Err(error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_protocols_are_numbers_or_text() {
        let ports = |json: &str| serde_json::from_str::<PortRange>(json);
        assert_eq!(ports("80").unwrap(), PortRange { first: 80, last: 80 });
        assert_eq!(ports("\"80\"").unwrap(), PortRange { first: 80, last: 80 });
        assert_eq!(ports("\"0 - 65535\"").unwrap(), PortRange { first: 0, last: 65535 });
        for wrong in ["65536", "-1", "\"2-1\"", "\"1-\"", "\"a-b\"", "\"1-2-3\"", "[]", "1.5"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
        let protocol = |json: &str| serde_json::from_str::<ProtocolName>(json);
        assert_eq!(protocol("\"TCP\"").unwrap().0, Protocol::TCP);
        assert_eq!(protocol("17").unwrap().0, Protocol::UDP);
        assert!(protocol("256").is_err() && protocol("\"tpc\"").is_err());
    }
}
