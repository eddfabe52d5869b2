//! Splits all packets into classes that given conditions cannot tell apart, one packet each.
//!
//! A condition changes its mind only at the ends of its intervals, so one value from between
//! each two ends, for every tag and field that is read, stands for all packets there are.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::condition::interval::{Intervals, Number};
use crate::condition::{Condition, Values};
use crate::language::field::{Facts, Field, FieldKind, FieldValue, Variable};
use crate::language::vocabulary::{NO_CHAIN, PortIndex, TAG_SLOTS, TagKind, Vocabulary};

/// More classes than this are not looked at one by one.
const MAX_CLASSES: usize = 65_536;

/// The classes of packets: all combinations of the values of each axis.
pub(crate) struct Partition {
    axes: Vec<(Variable, Vec<Option<FieldValue>>)>,
    classes: usize,
}

/// A packet that stands for its class.
#[derive(Clone, Copy, Default)]
pub(crate) struct Representative {
    tags: [u32; TAG_SLOTS],
    fields: [Option<FieldValue>; Field::ALL.len()],
}

impl Partition {
    /// The classes that `conditions` tell apart, `None` if there are too many. Packets that are
    /// known to have come in at `port` have no other.
    pub(crate) fn of<'c>(
        conditions: impl IntoIterator<Item = &'c Condition>,
        vocabulary: &Vocabulary,
        port: Option<PortIndex>,
    ) -> Option<Self> {
        let mut read: BTreeMap<Variable, Vec<&Values>> = BTreeMap::new();
        for condition in conditions {
            condition.tests(&mut |test| read.entry(test.variable).or_default().push(&test.values));
        }
        let mut partition = Self { axes: Vec::with_capacity(read.len()), classes: 1 };
        for (variable, sets) in read {
            let values = match (variable, port) {
                (Variable::Field(Field::Port), Some(port)) => {
                    vec![Some(FieldValue::Number(u32::from(port.0)))]
                }
                (Variable::Field(field), _) => field_values(field, &sets, vocabulary),
                (Variable::Tag(slot), _) => tag_values(slot, &sets, vocabulary),
            };
            partition.classes = partition.classes.checked_mul(values.len())?;
            if partition.classes > MAX_CLASSES {
                return None;
            }
            partition.axes.push((variable, values));
        }
        Some(partition)
    }

    /// How many classes there are.
    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    /// One packet of every class.
    pub(crate) fn packets(&self) -> impl Iterator<Item = Representative> {
        (0..self.classes).map(|class| self.packet(class))
    }

    fn packet(&self, class: usize) -> Representative {
        let mut rest = class;
        let mut packet = Representative::default();
        for (variable, values) in &self.axes {
            let value = values[rest % values.len()];
            rest /= values.len();
            match (*variable, value) {
                (Variable::Tag(slot), Some(FieldValue::Number(number))) => {
                    packet.tags[usize::from(slot)] = number;
                }
                (Variable::Tag(_), _) => {}
                (Variable::Field(field), value) => packet.fields[field as usize] = value,
            }
        }
        packet
    }
}

impl Representative {
    /// The packet with these values of tags, by slot.
    pub(crate) fn with(mut self, values: &[(u8, u32)]) -> Self {
        for (slot, value) in values {
            self.tags[usize::from(*slot)] = *value;
        }
        self
    }
}

impl Facts for Representative {
    fn tag(&self, slot: u8) -> u32 {
        self.tags[usize::from(slot)]
    }

    fn field(&self, field: Field) -> Option<FieldValue> {
        self.fields[field as usize]
    }
}

fn field_values(
    field: Field,
    sets: &[&Values],
    vocabulary: &Vocabulary,
) -> Vec<Option<FieldValue>> {
    if field.kind() == FieldKind::Address {
        return address_values(sets);
    }
    let numbers = sets.iter().filter_map(|set| match set {
        Values::Numbers(numbers) => Some(numbers),
        Values::Addresses(_) => None,
    });
    let starts = starts(numbers);
    if field.kind() == FieldKind::Port {
        return numbers_below(starts, vocabulary.ports().len() as u32);
    }
    let mut values = numbers_below(starts, field.maximum() + 1);
    values.push(None);
    values
}

fn address_values(sets: &[&Values]) -> Vec<Option<FieldValue>> {
    let addresses = || {
        sets.iter().filter_map(|set| match set {
            Values::Addresses(addresses) => Some(addresses),
            Values::Numbers(_) => None,
        })
    };
    let v4 = starts(addresses().map(|addresses| &addresses.v4)).into_iter();
    let v6 = starts(addresses().map(|addresses| &addresses.v6)).into_iter();
    v4.map(|bits| Some(FieldValue::V4(Ipv4Addr::from_bits(bits))))
        .chain(v6.map(|bits| Some(FieldValue::V6(Ipv6Addr::from_bits(bits)))))
        .chain([None])
        .collect()
}

/// A value of each stretch that the sets of a tag do not tell apart: the first of it.
pub(crate) fn tag_values(
    slot: u8,
    sets: &[&Values],
    vocabulary: &Vocabulary,
) -> Vec<Option<FieldValue>> {
    let numbers = sets.iter().filter_map(|set| match set {
        Values::Numbers(numbers) => Some(numbers),
        Values::Addresses(_) => None,
    });
    let starts = starts(numbers);
    match &vocabulary.tags()[usize::from(slot)].kind {
        TagKind::Number => {
            starts.into_iter().map(|start| Some(FieldValue::Number(start))).collect()
        }
        TagKind::Named(names) => {
            let mut values = numbers_below(starts, names.len() as u32);
            if vocabulary.chain_slot() == Some(slot) {
                values.push(Some(FieldValue::Number(NO_CHAIN)));
            }
            values
        }
    }
}

fn numbers_below(starts: Vec<u32>, end: u32) -> Vec<Option<FieldValue>> {
    let below = starts.into_iter().filter(|start| *start < end);
    below.map(|start| Some(FieldValue::Number(start))).collect()
}

/// The first number of every stretch on which none of `sets` changes.
fn starts<'s, T: Number + 's>(sets: impl Iterator<Item = &'s Intervals<T>>) -> Vec<T> {
    let mut starts = vec![T::ZERO];
    for &(low, high) in sets.flat_map(Intervals::as_slice) {
        starts.push(low);
        starts.extend(high.after());
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}
