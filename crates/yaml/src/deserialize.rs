//! Serde reads the types of a file from a located document. An error says at which path it came
//! up: what reads a type is compiled once, as it would not be if another deserializer kept the
//! path.

use std::fmt::{self, Display};
use std::slice::Iter;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use crate::document::{Content, Key, Node};

/// What serde found wrong with a value.
#[derive(Debug)]
pub struct Error(Box<Found>);

#[derive(Debug)]
struct Found {
    message: String,
    /// The keys, indices and variants that lead to the value, the last one first.
    segments: Vec<String>,
}

impl Error {
    /// The same error, of a value that stands in another under `segment`.
    fn below(mut self, segment: impl Display) -> Error {
        self.0.segments.push(segment.to_string());
        self
    }

    /// The path from the root of the document, such as `ports.access.gateways.0`.
    pub(crate) fn path(&self) -> String {
        let segments: Vec<_> = self.0.segments.iter().rev().map(String::as_str).collect();
        segments.join(".")
    }
}

impl Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: Display>(message: T) -> Error {
        Error(Box::new(Found { message: message.to_string(), segments: Vec::new() }))
    }
}

/// The items of a list.
struct Items<'n> {
    rest: Iter<'n, Node>,
    index: usize,
}

impl<'n> Items<'n> {
    fn of(items: &'n [Node]) -> Items<'n> {
        Items { rest: items.iter(), index: 0 }
    }
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some(item) = self.rest.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        seed.deserialize(item).map(Some).map_err(|error| error.below(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The entries of a mapping.
struct Entries<'n> {
    rest: Iter<'n, (Key, Node)>,
    /// That whose key was read last.
    entry: Option<&'n (Key, Node)>,
}

impl<'n> Entries<'n> {
    fn of(entries: &'n [(Key, Node)]) -> Entries<'n> {
        Entries { rest: entries.iter(), entry: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.entry = self.rest.next();
        let Some((key, _)) = self.entry else { return Ok(None) };
        let read = seed.deserialize(StrDeserializer::new(&key.text));
        read.map(Some).map_err(|error: Error| error.below(&key.text))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some((key, value)) = self.entry.take() else {
            return Err(de::Error::custom("a value without a key"));
        };
        seed.deserialize(value).map_err(|error| error.below(&key.text))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// A word that may have a value.
struct Variant<'n> {
    name: &'n str,
    value: Option<&'n Node>,
}

impl<'de> Variant<'de> {
    /// What `read` makes of the value, which a word of this `form` has to have.
    fn read<T>(
        self,
        form: &str,
        read: impl FnOnce(&'de Node) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let missing = || de::Error::invalid_type(Unexpected::UnitVariant, &form);
        self.value.ok_or_else(missing).and_then(read).map_err(|error| error.below(self.name))
    }
}

impl<'de> de::EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        seed.deserialize(StrDeserializer::new(self.name)).map(|variant| (variant, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        let value = self.value.map_or(Ok(()), de::Deserialize::deserialize);
        value.map_err(|error: Error| error.below(self.name))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        self.read("newtype variant", |value| seed.deserialize(value))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.read("tuple variant", |value| de::Deserializer::deserialize_tuple(value, len, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.read("struct variant", |value| de::Deserializer::deserialize_map(value, visitor))
    }
}

impl Node {
    fn unexpected(&self) -> Unexpected<'_> {
        match &self.content {
            Content::Null => Unexpected::Unit,
            Content::Bool(value) => Unexpected::Bool(*value),
            Content::Unsigned(number) => Unexpected::Unsigned(*number),
            Content::Signed(number) => Unexpected::Signed(*number),
            Content::Float(number) => Unexpected::Float(*number),
            Content::Text(text, _) => Unexpected::Str(text),
            Content::List(_) => Unexpected::Seq,
            Content::Map(_) => Unexpected::Map,
        }
    }
}

impl<'de> de::Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.content {
            Content::Null => visitor.visit_unit(),
            Content::Bool(value) => visitor.visit_bool(*value),
            Content::Unsigned(number) => visitor.visit_u64(*number),
            Content::Signed(number) => visitor.visit_i64(*number),
            Content::Float(number) => visitor.visit_f64(*number),
            Content::Text(text, _) => visitor.visit_borrowed_str(text),
            Content::List(items) => visitor.visit_seq(Items::of(items)),
            Content::Map(entries) => visitor.visit_map(Entries::of(entries)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content {
            Content::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content {
            // A key with nothing behind it is a list with nothing in it.
            Content::Null => visitor.visit_seq(Items::of(&[])),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content {
            Content::Null => visitor.visit_map(Entries::of(&[])),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.content {
            // Serde would take a list for the fields in their order.
            Content::List(_) => Err(de::Error::invalid_type(self.unexpected(), &"a map")),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.content {
            Content::Text(text, _) => visitor.visit_enum(Variant { name: text, value: None }),
            // A word with a value: `burst: 32`.
            Content::Map(entries) if entries.len() == 1 => {
                let (key, value) = &entries[0];
                visitor.visit_enum(Variant { name: &key.text, value: Some(value) })
            }
            _ => Err(de::Error::invalid_type(self.unexpected(), &"a string")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "what is read is not looked at, but what is wrong with it")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_path_to_error::Segment;

    use super::Node;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        Off,
        Burst(u8),
        Both(u8, bool),
        Shaped { rate: u16 },
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u8),
        Named { name: String },
    }

    #[derive(Debug, Deserialize)]
    struct Id(u32);

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Meter {
        id: Id,
        #[serde(default)]
        modes: Vec<Mode>,
        nested: Option<Box<Meter>>,
        #[serde(default)]
        named: BTreeMap<String, (u8, bool)>,
        either: Option<Either>,
    }

    /// The message of an error of reading a [`Meter`] and its path: as the reader has it, and as
    /// a deserializer has it that watches another.
    fn both(text: &str) -> [Option<(String, String)>; 2] {
        let root = Node::parse(text, &mut Vec::new()).expect(text);
        let own = Meter::deserialize(&root).err();
        let watched = serde_path_to_error::deserialize::<_, Meter>(&root).err();
        let dotted = watched.map(|error| {
            let segments = error.path().iter().map(|segment| match segment {
                Segment::Seq { index } => index.to_string(),
                Segment::Map { key } | Segment::Enum { variant: key } => key.clone(),
                Segment::Unknown => "?".into(),
            });
            (segments.collect::<Vec<_>>().join("."), error.inner().to_string())
        });
        [own.map(|error| (error.path(), error.to_string())), dotted]
    }

    #[test]
    fn an_error_has_the_path_of_its_value() {
        let wrong = [
            ("{id: x}", "id"),
            ("{}", ""),
            ("{id: 1, modes: {}}", "modes"),
            ("{id: 1, modes: [off, {burst: 300}]}", "modes.1.burst"),
            ("{id: 1, modes: [burst]}", "modes.0.burst"),
            ("{id: 1, modes: [on]}", "modes.0"),
            ("{id: 1, modes: [{off: 1}]}", "modes.0.off"),
            ("{id: 1, modes: [{both: [1, 2]}]}", "modes.0.both.1"),
            ("{id: 1, modes: [{shaped: {rate: x}}]}", "modes.0.shaped.rate"),
            ("{id: 1, nested: {id: 2, ids: 3}}", "nested.ids"),
            ("{id: 1, nested: {nested: {id: 2}}}", "nested"),
            ("{id: 1, named: {a: [1, true], b: [1, 2]}}", "named.b.1"),
            ("{id: 1, named: {a: [1]}}", "named.a"),
            ("{id: 1, either: {nam: x}}", "either"),
        ];
        for (text, path) in wrong {
            let [own, watched] = both(text);
            assert_eq!(own, watched, "{text}");
            assert_eq!(own.expect(text).0, path, "{text}");
        }
    }

    const WORDS: &[&str] =
        &["1", "300", "true", "~", "off", "burst", "[1, true]", "{rate: 7}", "-1", "0.5"];
    const KEYS: &[&str] = &["id", "modes", "nested", "named", "either", "burst", "both", "shaped"];

    /// A value as YAML: what a [`Meter`] has, and what is wrong in it.
    fn value() -> impl Strategy<Value = String> {
        prop::sample::select(WORDS).prop_map(String::from).prop_recursive(4, 24, 4, |inner| {
            let entry = (prop::sample::select(KEYS), inner.clone());
            let entry = entry.prop_map(|(key, value)| format!("{key}: {value}"));
            let list = |items: Vec<String>| format!("[{}]", items.join(", "));
            let mapping = |entries: Vec<String>| format!("{{{}}}", entries.join(", "));
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(list),
                prop::collection::vec(entry, 0..4).prop_map(mapping),
            ]
        })
    }

    proptest! {
        #[test]
        fn paths_are_those_that_a_watching_deserializer_finds(
            modes in value(), nested in value(), named in value(), either in value(),
        ) {
            let text = format!(
                "{{id: 1, modes: [off, {modes}], nested: {nested}, named: {named}, either: {either}}}"
            );
            let [own, watched] = both(&text);
            prop_assert_eq!(own, watched, "{}", text);
        }
    }
}
