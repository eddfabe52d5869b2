//! Serde reads the types of a file from a located document.

use serde::de::value::{
    Error, MapAccessDeserializer, MapDeserializer, SeqDeserializer, StrDeserializer,
};
use serde::de::{self, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use crate::document::{Content, Node};

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

impl<'de> IntoDeserializer<'de, Error> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
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
            Content::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            Content::Map(entries) => {
                let entries = entries.iter().map(|(key, node)| (key.text.as_str(), node));
                visitor.visit_map(MapDeserializer::new(entries))
            }
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
            Content::Null => visitor.visit_seq(SeqDeserializer::new(std::iter::empty::<&Node>())),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content {
            Content::Null => {
                let nothing = std::iter::empty::<(&str, &Node)>();
                visitor.visit_map(MapDeserializer::new(nothing))
            }
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
            Content::Text(text, _) => visitor.visit_enum(StrDeserializer::new(text)),
            // A word with a value: `burst: 32`.
            Content::Map(entries) if entries.len() == 1 => {
                let entries = entries.iter().map(|(key, node)| (key.text.as_str(), node));
                visitor.visit_enum(MapAccessDeserializer::new(MapDeserializer::new(entries)))
            }
            _ => Err(de::Error::invalid_type(self.unexpected(), &"a string")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct tuple tuple_struct identifier ignored_any
    }
}
