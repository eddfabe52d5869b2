//! What is known of a packet's tags before it comes.

use crate::language::field::{Field, Variable};
use crate::language::vocabulary::{PortIndex, TAG_SLOTS};

/// What is known of one value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Known {
    /// It can be anything and must be asked of the packet.
    #[default]
    Unknown,
    /// It is always this.
    Value(u32),
}

/// Where packets of one kind enter, and what is known of their tags there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Entry {
    /// The port at which they come in.
    pub port: PortIndex,
    /// What the classifier always gives them, by tag slot.
    pub tags: [Known; TAG_SLOTS],
}

/// What is known at one point of a packet's way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Knowledge {
    pub tags: [Known; TAG_SLOTS],
    /// The port at which the packet came in.
    pub port: Known,
}

impl Knowledge {
    pub(crate) fn at_entry(entry: &Entry) -> Self {
        Self { tags: entry.tags, port: Known::Value(u32::from(entry.port.0)) }
    }

    /// The value of a variable, if it is known.
    pub(crate) fn of(&self, variable: Variable) -> Option<u32> {
        let known = match variable {
            Variable::Tag(slot) => self.tags[usize::from(slot)],
            Variable::Field(Field::Port) => self.port,
            Variable::Field(_) => Known::Unknown,
        };
        match known {
            Known::Value(value) => Some(value),
            Known::Unknown => None,
        }
    }

    pub(crate) fn learn(&mut self, variable: Variable, value: u32) {
        match variable {
            Variable::Tag(slot) => self.tags[usize::from(slot)] = Known::Value(value),
            Variable::Field(Field::Port) => self.port = Known::Value(value),
            Variable::Field(_) => {}
        }
    }
}
