//! The names that a rule text may use: ports, functions and tags of one node.

use std::collections::HashSet;

use crate::language::field::Field;
use crate::language::lex::is_word;

/// Number of tags that a packet can carry inside a node.
pub const TAG_SLOTS: usize = 8;

/// Name of the tag that says which chain a packet is in.
pub const CHAIN_TAG: &str = "chain";

/// Value of the tag `chain` of a packet that is in no chain.
///
/// `chain == NAME` is false for it and `chain != NAME` is true, whatever the name.
pub const NO_CHAIN: u32 = u32::MAX;

/// The built-in target that ends a packet's way.
pub(crate) const DROP: &str = "drop";

/// Position of a port in [`Vocabulary::ports`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortIndex(pub u16);

/// Position of a function instance in [`Vocabulary::functions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FunctionIndex(pub u16);

/// A place that has rules of its own: where a packet is before it takes a hop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// The packet came in at this port.
    Port(PortIndex),
    /// The packet was processed by this function.
    Function(FunctionIndex),
}

/// A function instance as the rules see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionPlace {
    /// Name of the instance, unique among ports and functions.
    pub name: String,
    /// Slots of the tags that the function may write. What was known of them before is not
    /// known after a visit.
    pub writes: Vec<u8>,
}

/// What the values of a tag are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TagKind {
    /// One of these names; the value in a packet is the position in this list.
    Named(Vec<String>),
    /// Any 32-bit number.
    Number,
}

/// A tag that packets carry; its slot is its position in [`Vocabulary::tags`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TagSpec {
    /// Name, as used in conditions.
    pub name: String,
    /// Its values.
    pub kind: TagKind,
}

/// Why names cannot be used together in one rule text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VocabularyError {
    /// A name that cannot be written in the language, or that means something else there.
    #[error("`{0}` cannot be used as a name in rules")]
    BadName(String),
    /// Two ports, functions, tags or values of one tag with one name.
    #[error("`{0}` is defined twice")]
    Twice(String),
    /// More tags than a packet has slots for.
    #[error("{0} tags are defined, a packet carries at most {TAG_SLOTS}")]
    TooManyTags(usize),
    /// More than 65,535 ports or functions.
    #[error("more than {} ports or functions are defined", u16::MAX)]
    TooManyPlaces,
    /// A function writes a slot that no tag has.
    #[error("`{function}` writes tag slot {slot}, which no tag has")]
    NoSuchSlot {
        /// Name of the function.
        function: String,
        /// The slot.
        slot: u8,
    },
}

/// All names that a rule text may use, checked once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vocabulary {
    ports: Vec<String>,
    functions: Vec<FunctionPlace>,
    tags: Vec<TagSpec>,
}

impl Vocabulary {
    /// Puts the names of a node together.
    ///
    /// A text that declares chains needs a tag named [`CHAIN_TAG`] of kind
    /// [`TagKind::Named`] whose values are the chains' names; `RuleSet::chains` lists them.
    ///
    /// # Errors
    /// Names that are not unique or not writable, more than [`TAG_SLOTS`] tags, a function
    /// that writes a tag that does not exist.
    pub fn new(
        ports: Vec<String>,
        functions: Vec<FunctionPlace>,
        tags: Vec<TagSpec>,
    ) -> Result<Self, VocabularyError> {
        if tags.len() > TAG_SLOTS {
            return Err(VocabularyError::TooManyTags(tags.len()));
        }
        if ports.len() > usize::from(u16::MAX) || functions.len() > usize::from(u16::MAX) {
            return Err(VocabularyError::TooManyPlaces);
        }
        let places = ports.iter().chain(functions.iter().map(|function| &function.name));
        distinct_names(places, |name| name != DROP)?;
        distinct_names(tags.iter().map(|tag| &tag.name), |name| {
            name != "true" && Field::from_name(name).is_none()
        })?;
        for tag in &tags {
            if let TagKind::Named(values) = &tag.kind {
                distinct_names(values, |_| true)?;
            }
        }
        for function in &functions {
            if let Some(&slot) = function.writes.iter().find(|&&s| usize::from(s) >= tags.len()) {
                return Err(VocabularyError::NoSuchSlot { function: function.name.clone(), slot });
            }
        }
        Ok(Self { ports, functions, tags })
    }

    /// Names of the ports, by [`PortIndex`].
    pub fn ports(&self) -> &[String] {
        &self.ports
    }

    /// The function instances, by [`FunctionIndex`].
    pub fn functions(&self) -> &[FunctionPlace] {
        &self.functions
    }

    /// The tags, by slot.
    pub fn tags(&self) -> &[TagSpec] {
        &self.tags
    }

    /// The port of this name.
    pub fn port(&self, name: &str) -> Option<PortIndex> {
        let index = self.ports.iter().position(|port| port == name)?;
        Some(PortIndex(index as u16))
    }

    /// The function instance of this name.
    pub fn function(&self, name: &str) -> Option<FunctionIndex> {
        let index = self.functions.iter().position(|function| function.name == name)?;
        Some(FunctionIndex(index as u16))
    }

    /// The slot of the tag of this name.
    pub fn tag(&self, name: &str) -> Option<u8> {
        let slot = self.tags.iter().position(|tag| tag.name == name)?;
        Some(slot as u8)
    }

    /// The value that `name` stands for in the named tag at `slot`.
    pub fn tag_value(&self, slot: u8, name: &str) -> Option<u32> {
        let TagKind::Named(names) = &self.tags.get(usize::from(slot))?.kind else { return None };
        names.iter().position(|value| value == name).map(|value| value as u32)
    }

    /// The name of a value of the named tag at `slot`.
    pub fn tag_value_name(&self, slot: u8, value: u32) -> Option<&str> {
        let TagKind::Named(names) = &self.tags.get(usize::from(slot))?.kind else { return None };
        names.get(value as usize).map(String::as_str)
    }

    /// The slot of the tag [`CHAIN_TAG`].
    pub fn chain_slot(&self) -> Option<u8> {
        self.tag(CHAIN_TAG)
    }

    /// All places: ports, then functions.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let ports = (0..self.ports.len()).map(|index| Place::Port(PortIndex(index as u16)));
        let functions = 0..self.functions.len();
        ports.chain(functions.map(|index| Place::Function(FunctionIndex(index as u16))))
    }

    /// The name of a port; of a port that does not exist, `?`.
    pub(crate) fn port_name(&self, port: PortIndex) -> &str {
        self.ports.get(usize::from(port.0)).map_or("?", String::as_str)
    }

    /// The name of a function; of one that does not exist, `?`.
    pub(crate) fn function_name(&self, function: FunctionIndex) -> &str {
        self.functions.get(usize::from(function.0)).map_or("?", |place| place.name.as_str())
    }

    /// The name of a place.
    pub(crate) fn place_name(&self, place: Place) -> &str {
        match place {
            Place::Port(port) => self.port_name(port),
            Place::Function(function) => self.function_name(function),
        }
    }
}

/// Refuses names that occur twice, cannot be written, or are not `free` to use.
fn distinct_names<'n>(
    names: impl IntoIterator<Item = &'n String>,
    free: impl Fn(&str) -> bool,
) -> Result<(), VocabularyError> {
    let mut seen = HashSet::new();
    for name in names {
        if !is_word(name) || !free(name) {
            return Err(VocabularyError::BadName(name.clone()));
        }
        if !seen.insert(name) {
            return Err(VocabularyError::Twice(name.clone()));
        }
    }
    Ok(())
}
