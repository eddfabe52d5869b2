//! Conditions with names resolved: membership tests joined by "all" and "any".
//!
//! Negations are pushed into the tests when a condition is built, and tests of one field that
//! are joined are merged into one set, so what is evaluated per packet is small.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::condition::interval::Intervals;
use crate::condition::knowledge::Knowledge;
use crate::language::field::{Facts, Field, FieldValue, Variable};

pub(crate) mod interval;
pub(crate) mod knowledge;

/// A condition on the tags and header fields of a packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Condition(pub(crate) Node);

/// The tree behind a condition. Constants stand only at the top, `All` and `Any` have at least
/// two parts, none of which is of the same kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Node {
    Constant(bool),
    Test(Test),
    All(Box<[Node]>),
    Any(Box<[Node]>),
}

/// Whether a variable's value is in a set.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Test {
    pub variable: Variable,
    pub values: Values,
    /// What holds for a packet that does not have the field.
    pub absent: bool,
}

/// A set of values of one variable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Values {
    Numbers(Intervals<u32>),
    Addresses(Box<Addresses>),
}

/// A set of addresses of both families.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Addresses {
    pub v4: Intervals<u32>,
    pub v6: Intervals<u128>,
}

impl Condition {
    /// The condition that always holds.
    pub fn always() -> Self {
        Self(Node::Constant(true))
    }

    /// The condition that never holds.
    pub fn never() -> Self {
        Self(Node::Constant(false))
    }

    /// Whether this is [`Condition::always`] after simplification.
    pub fn is_always(&self) -> bool {
        self.0 == Node::Constant(true)
    }

    /// Whether this is [`Condition::never`] after simplification.
    pub fn is_never(&self) -> bool {
        self.0 == Node::Constant(false)
    }

    /// Whether the condition holds for a packet.
    #[inline]
    pub fn eval(&self, facts: &impl Facts) -> bool {
        match &self.0 {
            // By far the most common condition, without a call.
            Node::Test(test) => test.eval(facts),
            node => node.eval(facts),
        }
    }

    /// The slot of the tag, the least and the greatest of its values, where the condition holds for
    /// such values and for no others.
    #[inline]
    pub(crate) fn tag_range(&self) -> Option<(u8, u32, u32)> {
        let Node::Test(Test { variable: Variable::Tag(slot), values, .. }) = &self.0 else {
            return None;
        };
        match values {
            Values::Numbers(Intervals::One([(least, greatest)])) => {
                Some((*slot, *least, *greatest))
            }
            _ => None,
        }
    }

    /// Holds where all of `parts` hold.
    pub(crate) fn all(parts: impl IntoIterator<Item = Condition>) -> Self {
        Self(join(parts.into_iter().map(|part| part.0), true))
    }

    /// Holds where one of `parts` holds.
    pub(crate) fn any(parts: impl IntoIterator<Item = Condition>) -> Self {
        Self(join(parts.into_iter().map(|part| part.0), false))
    }

    /// Holds where this does not.
    pub(crate) fn not(self) -> Self {
        Self(self.0.not())
    }

    pub(crate) fn test(variable: Variable, values: Values) -> Self {
        Self(Test { variable, values, absent: false }.simplify())
    }

    /// What is left to decide when some values are known.
    pub(crate) fn given(&self, known: &Knowledge) -> Self {
        Self(self.0.given(known))
    }

    /// Adds what must be so where this condition holds.
    pub(crate) fn learn(&self, known: &mut Knowledge) {
        let parts = match &self.0 {
            Node::All(parts) => parts,
            node => std::slice::from_ref(node),
        };
        for part in parts {
            if let Node::Test(Test { variable, values: Values::Numbers(numbers), .. }) = part
                && let Some(value) = numbers.single()
            {
                known.learn(*variable, value);
            }
        }
    }

    /// Calls `visit` for every header field that the condition reads.
    pub(crate) fn fields(&self, mut visit: impl FnMut(Field)) {
        self.tests(&mut |test| {
            if let Variable::Field(field) = test.variable {
                visit(field);
            }
        });
    }

    /// Calls `visit` for every test in the condition.
    pub(crate) fn tests<'c>(&'c self, visit: &mut impl FnMut(&'c Test)) {
        self.0.tests(visit);
    }
}

impl Node {
    fn eval(&self, facts: &impl Facts) -> bool {
        match self {
            Node::Test(test) => test.eval(facts),
            Node::All(parts) => parts.iter().all(|part| part.eval(facts)),
            Node::Any(parts) => parts.iter().any(|part| part.eval(facts)),
            Node::Constant(value) => *value,
        }
    }

    fn not(self) -> Self {
        match self {
            Node::Constant(value) => Node::Constant(!value),
            Node::Test(test) => test.not().simplify(),
            Node::All(parts) => join(parts.into_iter().map(Node::not), false),
            Node::Any(parts) => join(parts.into_iter().map(Node::not), true),
        }
    }

    fn given(&self, known: &Knowledge) -> Self {
        match self {
            Node::Constant(_) => self.clone(),
            Node::Test(test) => match known.of(test.variable) {
                Some(value) => Node::Constant(test.values.contains_number(value)),
                None => self.clone(),
            },
            Node::All(parts) => join(parts.iter().map(|part| part.given(known)), true),
            Node::Any(parts) => join(parts.iter().map(|part| part.given(known)), false),
        }
    }

    fn tests<'c>(&'c self, visit: &mut impl FnMut(&'c Test)) {
        match self {
            Node::Constant(_) => {}
            Node::Test(test) => visit(test),
            Node::All(parts) | Node::Any(parts) => {
                parts.iter().for_each(|part| part.tests(visit));
            }
        }
    }
}

/// Joins parts by "all" or "any": flattens, merges tests of one variable, folds constants.
/// Tests come first, since they are decided faster than nested parts.
fn join(parts: impl Iterator<Item = Node>, all: bool) -> Node {
    let mut tests: Vec<(Variable, Vec<Test>)> = Vec::new();
    let mut nested = Vec::new();
    let mut pending: Vec<Node> = parts.collect();
    pending.reverse();
    while let Some(part) = pending.pop() {
        match part {
            Node::Constant(value) if value == all => {}
            Node::Constant(_) => return part,
            Node::All(inner) if all => pending.extend(inner.into_iter().rev()),
            Node::Any(inner) if !all => pending.extend(inner.into_iter().rev()),
            Node::Test(test) => match tests.iter_mut().find(|(read, _)| *read == test.variable) {
                Some((_, same)) => same.push(test),
                None => tests.push((test.variable, vec![test])),
            },
            part => nested.push(part),
        }
    }
    let merge = |(_, tests)| in_pairs(tests, |a: &Test, b| a.merge(b, all)).map(Test::simplify);
    let tests: Vec<Node> = tests.into_iter().filter_map(merge).collect();
    if tests.contains(&Node::Constant(!all)) {
        return Node::Constant(!all);
    }
    let sure = Node::Constant(all);
    let mut joined: Vec<Node> = tests.into_iter().filter(|test| *test != sure).collect();
    joined.extend(nested);
    match joined.len() {
        0 => sure,
        1 => joined.remove(0),
        _ if all => Node::All(joined.into()),
        _ => Node::Any(joined.into()),
    }
}

/// Combines all items, neighbours first, so that sets grow evenly and large ones are copied
/// seldom.
pub(crate) fn in_pairs<T: Clone>(mut items: Vec<T>, combine: impl Fn(&T, &T) -> T) -> Option<T> {
    while items.len() > 1 {
        let pairs = items.chunks(2).map(|pair| match pair {
            [a, b] => combine(a, b),
            rest => rest[0].clone(),
        });
        items = pairs.collect();
    }
    items.pop()
}

impl Test {
    #[inline]
    fn eval(&self, facts: &impl Facts) -> bool {
        match self.variable {
            Variable::Tag(slot) => self.values.contains_number(facts.tag(slot)),
            Variable::Field(field) => match facts.field(field) {
                Some(value) => self.values.contains(value),
                None => self.absent,
            },
        }
    }

    fn not(self) -> Self {
        let absent = !self.absent && !self.variable.always_present();
        Self { values: self.values.complement(), absent, ..self }
    }

    /// Both tests, or either, as one test; they are of the same variable.
    fn merge(&self, other: &Self, all: bool) -> Self {
        let (values, absent) = if all {
            (self.values.intersection(&other.values), self.absent && other.absent)
        } else {
            (self.values.union(&other.values), self.absent || other.absent)
        };
        Self { variable: self.variable, values, absent }
    }

    /// A constant if the test is one.
    fn simplify(self) -> Node {
        let sure = self.variable.always_present();
        if self.values.is_empty() && !self.absent {
            Node::Constant(false)
        } else if self.values.is_full() && (self.absent || sure) {
            Node::Constant(true)
        } else {
            Node::Test(self)
        }
    }
}

impl Values {
    #[inline]
    fn contains_number(&self, number: u32) -> bool {
        match self {
            Values::Numbers(numbers) => numbers.contains(number),
            Values::Addresses(_) => false,
        }
    }

    #[inline]
    fn contains(&self, value: FieldValue) -> bool {
        match (self, value) {
            (Values::Numbers(numbers), FieldValue::Number(number)) => numbers.contains(number),
            (Values::Addresses(addresses), FieldValue::V4(address)) => {
                addresses.v4.contains(address.to_bits())
            }
            (Values::Addresses(addresses), FieldValue::V6(address)) => {
                addresses.v6.contains(address.to_bits())
            }
            _ => false,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Values::Numbers(numbers) => numbers.is_empty(),
            Values::Addresses(addresses) => addresses.v4.is_empty() && addresses.v6.is_empty(),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Values::Numbers(numbers) => numbers.is_full(),
            Values::Addresses(addresses) => addresses.v4.is_full() && addresses.v6.is_full(),
        }
    }

    pub(crate) fn complement(&self) -> Self {
        match self {
            Values::Numbers(numbers) => Values::Numbers(numbers.complement()),
            Values::Addresses(addresses) => {
                let (v4, v6) = (addresses.v4.complement(), addresses.v6.complement());
                Values::Addresses(Box::new(Addresses { v4, v6 }))
            }
        }
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        self.combine(other, Intervals::union, Intervals::union)
    }

    fn intersection(&self, other: &Self) -> Self {
        self.combine(other, Intervals::intersection, Intervals::intersection)
    }

    /// Both sets are of the same variable and so of the same kind.
    fn combine(
        &self,
        other: &Self,
        narrow: impl Fn(&Intervals<u32>, &Intervals<u32>) -> Intervals<u32>,
        wide: impl Fn(&Intervals<u128>, &Intervals<u128>) -> Intervals<u128>,
    ) -> Self {
        match (self, other) {
            (Values::Numbers(a), Values::Numbers(b)) => Values::Numbers(narrow(a, b)),
            (Values::Addresses(a), Values::Addresses(b)) => {
                let (v4, v6) = (narrow(&a.v4, &b.v4), wide(&a.v6, &b.v6));
                Values::Addresses(Box::new(Addresses { v4, v6 }))
            }
            _ => self.clone(),
        }
    }
}

impl Addresses {
    pub(crate) fn v4(low: Ipv4Addr, high: Ipv4Addr) -> Self {
        Self { v4: Intervals::range(low.to_bits(), high.to_bits()), v6: Intervals::empty() }
    }

    pub(crate) fn v6(low: Ipv6Addr, high: Ipv6Addr) -> Self {
        Self { v4: Intervals::empty(), v6: Intervals::range(low.to_bits(), high.to_bits()) }
    }
}
