//! A long document, read straight into a type. The tree of [`document`](crate::document)
//! takes hundreds of bytes for each value and holds two million; a table of a million
//! entries is read here, up to its first mistake.

use std::fmt::Display;

use saphyr_parser::{Event, Parser, ScanError, Span, StrInput};
use serde::de::value::{Error, MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::document::{Content, NESTING, Node, scalar};
use crate::mistake::{Mistake, Position};
use crate::syntax::{position, unreadable};
use crate::wording::Complaint;

/// The document of `text`. One with aliases is read by way of the tree, and is as large
/// as that can be.
///
/// # Errors
/// The first mistake, with its place.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Mistake> {
    let mut reader = Reader::new(text);
    match reader.document(|reader| T::deserialize(reader)) {
        Err(_) if reader.has_alias => {
            let mut mistakes = Vec::new();
            let root = Node::parse(text, &mut mistakes)?;
            match mistakes.into_iter().next() {
                Some(mistake) => Err(mistake),
                None => T::deserialize(&root).map_err(|error| reworded(root.at, &error)),
            }
        }
        read => read,
    }
}

/// Where the value at `path` stands (`softwires.3.psid`), or as much of the path as there
/// is; none for a text that cannot be read.
pub fn value_at(text: &str, path: &str) -> Option<Position> {
    let mut reader = Reader::new(text);
    let find = |reader: &mut Reader<'_>| {
        reader.find(path)?;
        Ok(reader.at)
    };
    // What follows is of no interest.
    reader.begin().and_then(|()| find(&mut reader)).ok()
}

/// What serde said of the value at a place.
fn reworded(at: Position, error: &dyn Display) -> Mistake {
    let complaint = Complaint::of(&error.to_string());
    let mut mistake = Mistake::at(at, complaint.message());
    complaint.hint(&mut mistake);
    mistake
}

/// Reads one event after the other.
struct Reader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    /// Where the value that was read last begins.
    at: Position,
    depth: usize,
    has_alias: bool,
    /// What was found wrong, told where serde's error has no place.
    mistake: Option<Mistake>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Reader<'t> {
        let parser = Parser::new_from_str(text);
        Reader { text, parser, at: Position::START, depth: 0, has_alias: false, mistake: None }
    }

    /// Reads the one document there is.
    fn document<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'t>) -> Result<T, Error>,
    ) -> Result<T, Mistake> {
        let read = self.begin().and_then(|()| read(self)).and_then(|value| {
            self.end()?;
            Ok(value)
        });
        read.map_err(|error| self.mistake.take().unwrap_or_else(|| reworded(self.at, &error)))
    }

    /// Up to the first value.
    fn begin(&mut self) -> Result<(), Error> {
        loop {
            match self.peek()? {
                Event::StreamStart | Event::DocumentStart(_) => self.skip_event()?,
                Event::StreamEnd => {
                    let message = "there is nothing in this file";
                    return Err(self.wrong(Mistake::at(Position::START, message)));
                }
                _ => return Ok(()),
            }
        }
    }

    /// Behind the last value.
    fn end(&mut self) -> Result<(), Error> {
        loop {
            match self.event()? {
                Event::DocumentStart(_) => {
                    let message = "a second document begins: a file has one";
                    return Err(self.wrong(Mistake::at(self.at, message)));
                }
                Event::StreamEnd => return Ok(()),
                _ => {}
            }
        }
    }

    /// Notes what is wrong. The error stands for it.
    fn wrong(&mut self, mistake: Mistake) -> Error {
        self.mistake.get_or_insert(mistake);
        de::Error::custom("a mistake that is noted")
    }

    /// Notes what serde found wrong, unless something was noted before it.
    fn noted<T>(&mut self, at: Position, read: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &read
            && self.mistake.is_none()
        {
            self.mistake = Some(match error.to_string().strip_prefix("duplicate field ") {
                // The key was just read.
                Some(key) => Mistake::at(self.at, format!("the key {key} is given twice")),
                None => reworded(at, error),
            });
        }
        read
    }

    fn peek(&mut self) -> Result<&Event<'t>, Error> {
        // Asked twice: the borrow of an event would last while an error is noted.
        match self.parser.peek() {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(self.unreadable(&error)),
            None => return Ok(&Event::StreamEnd),
        }
        match self.parser.peek() {
            Some(Ok((event, _))) => Ok(event),
            _ => Ok(&Event::StreamEnd),
        }
    }

    fn event(&mut self) -> Result<Event<'t>, Error> {
        match self.parser.next_event() {
            Some(Ok((event, Span { start, .. }))) => {
                self.at = position(&start);
                Ok(event)
            }
            Some(Err(error)) => Err(self.unreadable(&error)),
            None => Ok(Event::StreamEnd),
        }
    }

    #[cold]
    fn unreadable(&mut self, error: &ScanError) -> Error {
        self.wrong(unreadable(error, self.text))
    }

    fn skip_event(&mut self) -> Result<(), Error> {
        self.event().map(drop)
    }

    /// The next event, which begins a value.
    fn value(&mut self) -> Result<Event<'t>, Error> {
        match self.event()? {
            Event::Alias(_) => {
                self.has_alias = true;
                Err(self.wrong(Mistake::at(self.at, "an alias")))
            }
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                let mut mistake = Mistake::at(self.at, "YAML tags (`!`) mean nothing here");
                mistake.hint("put text in quotes to keep it text");
                Err(self.wrong(mistake))
            }
            event => Ok(event),
        }
    }

    /// Goes into a list or a mapping, and out of it behind its last item.
    fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'t>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let at = self.at;
        self.depth += 1;
        if self.depth > NESTING {
            let message = format!("this is nested more than {NESTING} deep");
            return Err(self.wrong(Mistake::at(at, message)));
        }
        let read = read(self);
        let read = self.noted(at, read)?;
        self.depth -= 1;
        match self.event()? {
            Event::SequenceEnd | Event::MappingEnd => Ok(read),
            _ => Err(self.wrong(Mistake::at(self.at, "there is more than is expected"))),
        }
    }

    /// Goes on to the value at `path`, as far as there is one.
    fn find(&mut self, path: &str) -> Result<(), Error> {
        let mut rest = path;
        while !rest.is_empty() {
            let (wanted, behind) = rest.split_once('.').unwrap_or((rest, ""));
            let event = self.value()?;
            let at = self.at;
            let is_there = match event {
                Event::SequenceStart(..) => self.find_item(wanted)?,
                Event::MappingStart(..) => self.find_key(wanted)?,
                _ => false,
            };
            if !is_there {
                self.at = at;
                return Ok(());
            }
            rest = behind;
        }
        self.value().map(drop)
    }

    fn find_item(&mut self, wanted: &str) -> Result<bool, Error> {
        let Ok(number) = wanted.parse::<usize>() else { return Ok(false) };
        for _ in 0..number {
            if let Event::SequenceEnd = self.peek()? {
                return Ok(false);
            }
            self.skip()?;
        }
        Ok(!matches!(self.peek()?, Event::SequenceEnd))
    }

    fn find_key(&mut self, wanted: &str) -> Result<bool, Error> {
        loop {
            match self.event()? {
                Event::Scalar(text, ..) if text == wanted => return Ok(true),
                Event::Scalar(..) => self.skip()?,
                _ => return Ok(false),
            }
        }
    }

    /// Passes over one value.
    fn skip(&mut self) -> Result<(), Error> {
        let mut depth = 0_usize;
        loop {
            match self.event()? {
                Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
                Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
                Event::StreamEnd => return Ok(()),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Whether nothing stands where a value is expected; then it is passed over.
    fn null(&mut self) -> Result<bool, Error> {
        let is_null = match self.peek()? {
            Event::Scalar(text, style, _, None) => {
                matches!(scalar(text, *style), Content::Null)
            }
            _ => false,
        };
        if is_null {
            self.skip_event()?;
        }
        Ok(is_null)
    }
}

/// The items of a list.
struct Items<'r, 't>(&'r mut Reader<'t>);

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        match self.0.peek()? {
            Event::SequenceEnd => Ok(None),
            _ => seed.deserialize(&mut *self.0).map(Some),
        }
    }
}

/// The entries of a mapping.
struct Entries<'r, 't>(&'r mut Reader<'t>);

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        match self.0.peek()? {
            Event::MappingEnd => Ok(None),
            Event::Scalar(..) => match self.0.event()? {
                Event::Scalar(text, ..) => {
                    let key = seed.deserialize(StrDeserializer::new(&text));
                    let at = self.0.at;
                    self.0.noted(at, key).map(Some)
                }
                _ => Ok(None),
            },
            _ => {
                self.0.skip_event()?;
                Err(self.0.wrong(Mistake::at(self.0.at, "a key is a word")))
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(&mut *self.0)
    }
}

impl<'de> de::Deserializer<'de> for &mut Reader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value()? {
            Event::Scalar(text, style, ..) => {
                let at = self.at;
                let read = match scalar(&text, style) {
                    Content::Bool(value) => visitor.visit_bool(value),
                    Content::Unsigned(number) => visitor.visit_u64(number),
                    Content::Signed(number) => visitor.visit_i64(number),
                    Content::Float(number) => visitor.visit_f64(number),
                    Content::Text(text, _) => visitor.visit_string(text),
                    _ => visitor.visit_unit(),
                };
                self.noted(at, read)
            }
            Event::SequenceStart(..) => self.nested(|reader| visitor.visit_seq(Items(reader))),
            Event::MappingStart(..) => self.nested(|reader| visitor.visit_map(Entries(reader))),
            _ => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.null()? {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.null()? {
            // A key with nothing behind it is a list with nothing in it.
            true => visitor
                .visit_seq(de::value::SeqDeserializer::<_, Error>::new(std::iter::empty::<u8>())),
            false => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.null()? {
            true => {
                let nothing = std::iter::empty::<(&str, u8)>();
                let read = visitor.visit_map(de::value::MapDeserializer::new(nothing));
                self.noted(self.at, read)
            }
            false => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.peek()? {
            // Serde would take a list for the fields in their order.
            Event::SequenceStart(..) => {
                self.skip_event()?;
                let read = Err(de::Error::invalid_type(Unexpected::Seq, &"a map"));
                self.noted(self.at, read)
            }
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let at = self.at;
        let read = visitor.visit_newtype_struct(&mut *self);
        self.noted(at, read)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value()? {
            Event::Scalar(text, ..) => {
                let read = visitor.visit_enum(StrDeserializer::new(&text));
                self.noted(self.at, read)
            }
            // A word with a value: `burst: 32`.
            Event::MappingStart(..) => self
                .nested(|reader| visitor.visit_enum(MapAccessDeserializer::new(Entries(reader)))),
            _ => {
                let read = Err(de::Error::invalid_type(Unexpected::Seq, &"a string"));
                self.noted(self.at, read)
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests;
