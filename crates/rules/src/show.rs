//! Writes conditions in the language that they are read in.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::condition::interval::{Intervals, Number};
use crate::condition::{Addresses, Condition, Node, Test, Values};
use crate::language::field::{Field, FieldKind, Variable};
use crate::language::vocabulary::{TagKind, Vocabulary};

/// A condition with the names to write it; made by [`Condition::display`].
#[derive(Clone, Copy, Debug)]
pub struct ShownCondition<'c> {
    condition: &'c Condition,
    vocabulary: &'c Vocabulary,
}

impl Condition {
    /// The condition as text that [`Condition::parse`] reads as the same condition.
    pub fn display<'c>(&'c self, vocabulary: &'c Vocabulary) -> ShownCondition<'c> {
        ShownCondition { condition: self, vocabulary }
    }
}

impl fmt::Display for ShownCondition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&node(&self.condition.0, self.vocabulary))
    }
}

fn node(node: &Node, vocabulary: &Vocabulary) -> String {
    let join = |parts: &[Node], operator| {
        let shown = parts.iter().map(|part| match part {
            Node::Any(_) => format!("({})", self::node(part, vocabulary)),
            _ => self::node(part, vocabulary),
        });
        shown.collect::<Vec<_>>().join(operator)
    };
    match node {
        Node::Constant(true) => "true".to_owned(),
        Node::Constant(false) => "!true".to_owned(),
        Node::Test(test) => self::test(test, vocabulary),
        Node::All(parts) => join(parts, " && "),
        Node::Any(parts) => join(parts, " || "),
    }
}

fn test(test: &Test, vocabulary: &Vocabulary) -> String {
    let subject = Subject::of(test.variable, vocabulary);
    // Values of names that do not exist stand for "none of them": such a set is written by
    // what is not in it, and so is one that holds where the field is missing.
    let inverse = match &test.values {
        Values::Numbers(numbers) => subject.names.is_some() && numbers.contains(u32::MAX),
        Values::Addresses(_) => false,
    };
    let short = test.variable.always_present() && is_all_but_one(&test.values);
    if !(test.absent || inverse || short) {
        return subject.membership(&subject.items(&test.values), "==");
    }
    let items = subject.items(&test.values.complement());
    match items.as_slice() {
        [Item::Value(_)] => subject.membership(&items, "!="),
        _ => format!("!({})", subject.membership(&items, "==")),
    }
}

fn is_all_but_one(values: &Values) -> bool {
    matches!(values, Values::Numbers(numbers) if numbers.complement().single().is_some())
}

/// A value or range as it is written.
enum Item {
    Value(String),
    Range(String),
    /// A range that reaches an end of the numbers, with the operator that says so.
    Bound(&'static str, String),
}

struct Subject<'v> {
    name: &'v str,
    field: Option<Field>,
    /// The names of its values, if it has only named ones.
    names: Option<Vec<&'v str>>,
}

impl<'v> Subject<'v> {
    fn of(variable: Variable, vocabulary: &'v Vocabulary) -> Self {
        match variable {
            Variable::Field(field) => {
                let ports = vocabulary.ports().iter().map(String::as_str);
                let names = (field.kind() == FieldKind::Port).then(|| ports.collect());
                Self { name: field.name(), field: Some(field), names }
            }
            Variable::Tag(slot) => match vocabulary.tags().get(usize::from(slot)) {
                Some(tag) => {
                    let names = match &tag.kind {
                        TagKind::Named(names) => Some(names.iter().map(String::as_str).collect()),
                        TagKind::Number => None,
                    };
                    Self { name: &tag.name, field: None, names }
                }
                None => Self { name: "?", field: None, names: None },
            },
        }
    }

    fn membership(&self, items: &[Item], equal: &str) -> String {
        let name = self.name;
        match items {
            [Item::Value(value)] => format!("{name} {equal} {value}"),
            [Item::Range(range)] => format!("{name} in {range}"),
            [Item::Bound(operator, value)] => format!("{name} {operator} {value}"),
            _ => {
                let texts = items.iter().map(|item| match item {
                    Item::Value(text) | Item::Range(text) | Item::Bound(_, text) => text.as_str(),
                });
                format!("{name} in {{{}}}", texts.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn items(&self, values: &Values) -> Vec<Item> {
        match (values, &self.names) {
            (Values::Addresses(addresses), _) => addresses_items(addresses),
            (Values::Numbers(numbers), Some(names)) => names
                .iter()
                .zip(0..)
                .filter(|(_, value)| numbers.contains(*value))
                .map(|(name, _)| Item::Value((*name).to_owned()))
                .collect(),
            (Values::Numbers(numbers), None) => self.number_items(numbers),
        }
    }

    fn number_items(&self, numbers: &Intervals<u32>) -> Vec<Item> {
        let maximum = self.field.map_or(u32::MAX, Field::maximum);
        if let &[(low, high)] = numbers.as_slice() {
            let bound = if low > maximum {
                Some((">", maximum))
            } else if high >= maximum && low < high {
                Some((">=", low))
            } else if low == 0 && high > 0 {
                Some(("<=", high))
            } else {
                None
            };
            if let Some((operator, value)) = bound {
                return vec![Item::Bound(operator, self.number(value))];
            }
        }
        let within = numbers.as_slice().iter().filter(|(low, _)| *low <= maximum);
        within
            .map(|&(low, high)| match high.min(maximum) {
                high if low == high => Item::Value(self.number(low)),
                high => Item::Range(format!("{}..{}", self.number(low), self.number(high))),
            })
            .collect()
    }

    fn number(&self, number: u32) -> String {
        let mut names = self.field.into_iter().flat_map(Field::number_names);
        let named = names.find(|(_, value)| *value == number);
        named.map_or_else(|| number.to_string(), |(name, _)| name)
    }
}

fn addresses_items(addresses: &Addresses) -> Vec<Item> {
    let v4 = addresses.v4.as_slice().iter();
    let v4 = v4.map(|&(low, high)| address_item(low, high, 32, Ipv4Addr::from_bits));
    let v6 = addresses.v6.as_slice().iter();
    let v6 = v6.map(|&(low, high)| address_item(low, high, 128, Ipv6Addr::from_bits));
    v4.chain(v6).collect()
}

/// One address, a prefix if the range is one, or else the range.
fn address_item<T: Number, A: fmt::Display>(
    low: T,
    high: T,
    width: u32,
    address: impl Fn(T) -> A,
) -> Item {
    match low.prefix_length(high) {
        Some(length) if length == width => Item::Value(address(low).to_string()),
        Some(length) => Item::Range(format!("{}/{length}", address(low))),
        None => Item::Range(format!("{}..{}", address(low), address(high))),
    }
}
