//! The vocabulary of an access gateway, and packets for it.

pub mod random;

use std::collections::HashMap;
use std::net::IpAddr;

use weft_rules::*;

/// Slots of the tags of [`vocabulary`].
pub const CHAIN: u8 = 0;
pub const DIRECTION: u8 = 1;
pub const COLOUR: u8 = 2;
pub const WEIGHT: u8 = 3;

/// Rules that use most of the language.
pub const GATEWAY: &str = "\
chain full  = count -> police -> rewrite
chain voice = count -> forward
from access when chain == full                     -> full
from access when direction == uplink && dscp in {ef, af41..af43} -> voice
from full  when colour == red                      -> drop
from full                                          -> internet
from voice                                         -> internet
from internet when destination in 10.0.0.0/8 && !(protocol == tcp && destination-port == 22) -> access
";

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn named(name: &str, values: Vec<String>) -> TagSpec {
    TagSpec { name: name.to_owned(), kind: TagKind::Named(values) }
}

/// Ports, functions and tags of a gateway, with the chains that `text` declares.
pub fn vocabulary(text: &str) -> Vocabulary {
    let function = |(name, writes): (&str, &[u8])| FunctionPlace {
        name: name.to_owned(),
        writes: writes.to_vec(),
    };
    let functions: [(&str, &[u8]); 4] =
        [("count", &[]), ("police", &[COLOUR]), ("rewrite", &[]), ("forward", &[])];
    let tags = vec![
        named(CHAIN_TAG, RuleSet::chains(text)),
        named("direction", words("uplink downlink")),
        named("colour", words("green yellow red")),
        TagSpec { name: "weight".to_owned(), kind: TagKind::Number },
    ];
    let functions = functions.map(function).to_vec();
    Vocabulary::new(words("access internet"), functions, tags).unwrap()
}

pub fn rules(text: &str) -> RuleSet {
    RuleSet::parse(text, &vocabulary(text)).unwrap()
}

pub fn port(index: u16) -> Place {
    Place::Port(PortIndex(index))
}

/// A packet of which only what matters is given.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    pub tags: [u32; TAG_SLOTS],
    pub fields: HashMap<Field, FieldValue>,
}

impl Packet {
    pub fn tag(mut self, slot: u8, value: u32) -> Self {
        self.tags[usize::from(slot)] = value;
        self
    }

    pub fn number(mut self, field: Field, number: u32) -> Self {
        self.fields.insert(field, FieldValue::Number(number));
        self
    }

    pub fn address(mut self, field: Field, address: &str) -> Self {
        let value = match address.parse().unwrap() {
            IpAddr::V4(address) => FieldValue::V4(address),
            IpAddr::V6(address) => FieldValue::V6(address),
        };
        self.fields.insert(field, value);
        self
    }
}

impl Facts for Packet {
    fn tag(&self, slot: u8) -> u32 {
        self.tags[usize::from(slot)]
    }

    fn field(&self, field: Field) -> Option<FieldValue> {
        self.fields.get(&field).copied()
    }
}
