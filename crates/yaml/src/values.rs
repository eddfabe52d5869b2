//! Values that are written as one word: addresses, prefixes, names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip(pub IpAddr);

/// An IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4(pub Ipv4Addr);

/// An address and the length of a prefix of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet(pub IpAddr, pub u8);

/// What an IPv6 user has: a /64 prefix or an address, which is a /128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6(pub Ipv6Addr, pub u8);

impl Mac {
    fn parse(text: &str) -> Option<Mac> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(Mac(bytes))
    }
}

impl Ip {
    /// Reads an address.
    pub fn parse(text: &str) -> Option<Ip> {
        text.parse().ok().map(Ip)
    }
}

impl Ipv4 {
    fn parse(text: &str) -> Option<Ipv4> {
        text.parse().ok().map(Ipv4)
    }
}

impl Subnet {
    fn parse(text: &str) -> Option<Subnet> {
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        Some(Subnet(address, length.parse().ok().filter(|length| *length <= most)?))
    }

    /// Whether `address` lies in the prefix.
    pub fn contains(self, address: IpAddr) -> bool {
        let Subnet(prefix, length) = self;
        match (prefix, address) {
            (IpAddr::V4(prefix), IpAddr::V4(address)) => {
                let differ = prefix.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= u32::from(length)
            }
            (IpAddr::V6(prefix), IpAddr::V6(address)) => {
                let differ = prefix.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= u32::from(length)
            }
            _ => false,
        }
    }

    /// The first address of the prefix.
    pub fn first(self) -> IpAddr {
        match self {
            Subnet(IpAddr::V4(address), length) => {
                let host = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & !host).into()
            }
            Subnet(IpAddr::V6(address), length) => {
                let host = u128::MAX.checked_shr(u32::from(length)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & !host).into()
            }
        }
    }
}

impl Ipv6 {
    fn parse(text: &str) -> Option<Ipv6> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, length.parse().ok()?),
            None => (text, 128),
        };
        matches!(length, 64 | 128).then_some(Ipv6(address.parse().ok()?, length))
    }
}

/// Makes a type readable from a text that its `parse` takes.
macro_rules! written {
    ($name:ident, $what:literal, $example:literal, $pattern:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let wrong = concat!(" is not ", $what, ", such as ", $example);
                $name::parse(&text).ok_or_else(|| de::Error::custom(format!("`{text}`{wrong}")))
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
                json_schema!({ "type": "string", "pattern": $pattern, "examples": [$example] })
            }
        }
    };
}

written!(Mac, "a MAC address", "02:00:00:00:00:01", "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$");
written!(Ip, "an IP address", "10.1.0.254", "^[0-9A-Fa-f.:]+$");
written!(Ipv4, "an IPv4 address", "10.0.0.1", "^[0-9.]+$");
written!(Subnet, "an address with a prefix length", "10.1.0.1/24", "^[0-9A-Fa-f.:]+/[0-9]+$");
written!(Ipv6, "a /64 prefix or an IPv6 address", "2001:db8::/64", "^[0-9A-Fa-f.:]+(/64|/128)?$");

/// A name or a number.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged, inline)]
pub enum NameOrNumber {
    /// A name.
    Name(String),
    /// A number.
    Number(u32),
}

impl fmt::Display for NameOrNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameOrNumber::Name(name) => f.write_str(name),
            NameOrNumber::Number(number) => number.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for NameOrNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = NameOrNumber;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a name or a whole number from 0 to {}", u32::MAX)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<NameOrNumber, E> {
                let fits = u32::try_from(number);
                let wrong = |_| E::invalid_value(de::Unexpected::Unsigned(number), &self);
                fits.map(NameOrNumber::Number).map_err(wrong)
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<NameOrNumber, E> {
                Ok(NameOrNumber::Name(name.to_owned()))
            }
        }

        deserializer.deserialize_any(Words)
    }
}

/// A mapping in the order in which it is written.
#[derive(Clone, Debug)]
pub struct Entries<T>(pub Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

impl<T> Entries<T> {
    /// The keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder(std::marker::PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Entries_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let entry = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": entry })
    }
}
