//! Tags: named values that travel with a packet.
//!
//! The classifier sets the first ones; functions may read and write tags that
//! they declare; rules read them all. A tag is a `u32` in one of
//! [`TAG_SLOTS`] slots of the packet's metadata. Three slots are the same in
//! every node; the others are given out as a node is configured.

use crate::metadata::{PacketMetadata, TAG_SLOTS};
use std::fmt;

/// A tag as it is declared, before it has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Name, as rules write it.
    pub name: &'static str,
    /// What values it has.
    pub values: Values,
}

/// The values of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these names; the tag holds its index. A packet without the tag has
    /// the first.
    Named(&'static [&'static str]),
    /// Any number; 0 for a packet without the tag.
    Number,
}

/// Which way a packet goes: [`Direction::Uplink`] from the user.
pub const DIRECTION: Tag =
    Tag { name: "direction", values: Values::Named(&["uplink", "downlink"]) };
/// The chain a packet takes. Its values are the chains of the configuration,
/// numbered from 0; `u32::MAX` is none.
pub const CHAIN: Tag = Tag { name: "chain", values: Values::Number };
/// The network instance (TS 29.244 §5.6) of the port the packet came in at;
/// numbered as in the configuration.
pub const NETWORK: Tag = Tag { name: "network", values: Values::Number };
/// The colour a meter gave the packet (RFC 2697, RFC 2698).
pub const COLOUR: Tag = Tag { name: "colour", values: Values::Named(&["green", "yellow", "red"]) };

/// Place of a tag in the metadata of every packet of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TagSlot(u8);

impl TagSlot {
    /// Slot of [`DIRECTION`].
    pub const DIRECTION: TagSlot = TagSlot(0);
    /// Slot of [`CHAIN`].
    pub const CHAIN: TagSlot = TagSlot(1);
    /// Slot of [`NETWORK`].
    pub const NETWORK: TagSlot = TagSlot(2);

    /// Index into [`PacketMetadata::tags`].
    #[inline(always)]
    pub fn index(self) -> usize {
        // A slot is below TAG_SLOTS, a power of two; the mask tells the compiler.
        usize::from(self.0) & (TAG_SLOTS - 1)
    }

    /// Value of the tag on a packet.
    #[inline(always)]
    pub fn get(self, metadata: &PacketMetadata) -> u32 {
        metadata.tags[self.index()]
    }

    /// Sets the value of the tag on a packet.
    #[inline(always)]
    pub fn set(self, metadata: &mut PacketMetadata, value: u32) {
        metadata.tags[self.index()] = value;
    }
}

/// Values of [`DIRECTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Direction {
    /// From the user to the network.
    Uplink = 0,
    /// From the network to the user.
    Downlink = 1,
}

/// Values of [`COLOUR`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Colour {
    /// Within the committed rate.
    Green = 0,
    /// Above the committed rate, within the excess burst or the peak rate.
    Yellow = 1,
    /// Above both.
    Red = 2,
}

impl Colour {
    /// The colour that a tag value stands for; values beyond the list are red.
    #[inline]
    pub fn from_tag(value: u32) -> Colour {
        match value {
            0 => Colour::Green,
            1 => Colour::Yellow,
            _ => Colour::Red,
        }
    }
}

/// The slots of `tags` among those of a node, one bit for each.
#[inline]
pub fn tags_written(tags: &[Tag], table: &TagTable) -> u8 {
    let slots = tags.iter().filter_map(|tag| table.slot(tag.name));
    slots.fold(0, |all, slot| all | 1 << slot.index())
}

/// The tags of one node and their slots.
#[derive(Clone, Debug)]
pub struct TagTable {
    names: Vec<(String, TagValues)>,
}

/// The values of a tag of a [`TagTable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagValues {
    /// One of these names.
    Named(Vec<String>),
    /// Any number.
    Number,
}

impl Default for TagTable {
    #[inline]
    fn default() -> Self {
        let mut table = TagTable { names: Vec::new() };
        for tag in [DIRECTION, CHAIN, NETWORK] {
            table.names.push((tag.name.to_owned(), tag.values.into()));
        }
        table
    }
}

impl From<Values> for TagValues {
    #[inline]
    fn from(values: Values) -> Self {
        match values {
            Values::Named(names) => {
                TagValues::Named(names.iter().map(|&name| name.to_owned()).collect())
            }
            Values::Number => TagValues::Number,
        }
    }
}

/// No slot is left for a tag, or its name stands for other values already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// All slots are taken.
    #[error("tag {0} is one too many: a packet carries {TAG_SLOTS} tags")]
    Full(String),
    /// The same name with other values.
    #[error("tag {0} is declared twice, with different values")]
    Conflict(String),
}

impl TagTable {
    /// The slot of a declared tag; gives it one if it has none.
    ///
    /// # Errors
    /// [`TagError`] when there is no slot left or the name is taken for
    /// something else.
    #[inline]
    pub fn declare(&mut self, name: &str, values: TagValues) -> Result<TagSlot, TagError> {
        if let Some(slot) = self.slot(name) {
            let known = &self.names[slot.index()].1;
            return match *known == values {
                true => Ok(slot),
                false => Err(TagError::Conflict(name.to_owned())),
            };
        }
        if self.names.len() == TAG_SLOTS {
            return Err(TagError::Full(name.to_owned()));
        }
        self.names.push((name.to_owned(), values));
        Ok(TagSlot(self.names.len() as u8 - 1))
    }

    /// Names the values of a tag whose values the configuration decides, as for
    /// [`CHAIN`] and [`NETWORK`].
    #[inline]
    pub fn name_values(&mut self, slot: TagSlot, names: Vec<String>) {
        if let Some(tag) = self.names.get_mut(slot.index()) {
            tag.1 = TagValues::Named(names);
        }
    }

    /// The slot of the tag `name`, if there is such a tag.
    #[inline]
    pub fn slot(&self, name: &str) -> Option<TagSlot> {
        self.names.iter().position(|(known, _)| known == name).map(|at| TagSlot(at as u8))
    }

    /// All tags with their values, in the order of their slots.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TagValues)> {
        self.names.iter().map(|(name, values)| (name.as_str(), values))
    }

    /// The name of a value, or the number where it has none.
    #[inline]
    pub fn display(&self, slot: TagSlot, value: u32) -> impl fmt::Display {
        match self.names.get(slot.index()) {
            Some((_, TagValues::Named(names))) => {
                names.get(value as usize).cloned().unwrap_or_else(|| value.to_string())
            }
            _ => value.to_string(),
        }
    }
}
