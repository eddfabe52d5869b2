//! Random vocabularies, conditions, rule texts and packets.
//!
//! Values are drawn from small pools, so that conditions hold often enough. A condition is
//! made as a tree that can be written as text and, apart from that, decided in the most literal
//! way.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use weft_rules::*;

use crate::common::Packet;

/// How many names there are of each kind: `p0 …`, `f0 …`, `c0 …`, `t1 …` with values `v0 …`.
#[derive(Clone, Debug)]
pub struct World {
    pub ports: usize,
    /// The tags that each function writes.
    pub functions: Vec<Vec<u8>>,
    pub chains: usize,
    /// The number of named values of tags 1 and up, `None` for tags with numbers. Tag 0 is
    /// `chain`.
    pub tags: Vec<Option<u32>>,
}

impl World {
    pub fn vocabulary(&self) -> Vocabulary {
        let names = |letter, count| (0..count).map(|n| format!("{letter}{n}")).collect();
        let functions = self.functions.iter().enumerate();
        let functions = functions
            .map(|(n, writes)| FunctionPlace { name: format!("f{n}"), writes: writes.clone() });
        let chain =
            TagSpec { name: CHAIN_TAG.to_owned(), kind: TagKind::Named(names("c", self.chains)) };
        let others = self.tags.iter().enumerate().map(|(n, values)| TagSpec {
            name: format!("t{}", n + 1),
            kind: match values {
                Some(count) => TagKind::Named(names("v", *count as usize)),
                None => TagKind::Number,
            },
        });
        let tags = [chain].into_iter().chain(others).collect();
        Vocabulary::new(names("p", self.ports), functions.collect(), tags).unwrap()
    }
}

pub fn world() -> impl Strategy<Value = World> {
    let tags = prop::collection::vec(prop::option::weighted(0.7, 1..4u32), 0..TAG_SLOTS);
    (1..4usize, 1..6usize, 0..4usize, tags).prop_flat_map(|(ports, functions, chains, tags)| {
        let slots: Vec<u8> = (0..=tags.len() as u8).collect();
        let writes = subsequence(slots.clone(), 0..=slots.len().min(2));
        let functions = prop::collection::vec(writes, functions);
        functions.prop_map(move |functions| World { ports, functions, chains, tags: tags.clone() })
    })
}

/// A condition as it is written.
#[derive(Clone, Debug)]
pub enum Expression {
    True,
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Compare(Subject, &'static str, Vec<Operand>),
}

#[derive(Clone, Copy, Debug)]
pub enum Subject {
    Tag(u8),
    Field(Field),
}

#[derive(Clone, Debug)]
pub enum Operand {
    /// A named value: how it is written, and its number.
    Name(String, u32),
    Number(u32),
    Range(u32, u32),
    Address(IpAddr),
    Prefix(IpAddr, u32),
    Addresses(IpAddr, IpAddr),
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |parts: &[Expression], operator| {
            let parts: Vec<String> = parts.iter().map(|part| format!("({part})")).collect();
            parts.join(operator)
        };
        match self {
            Expression::True => f.write_str("true"),
            Expression::Not(inner) => write!(f, "!({inner})"),
            Expression::All(parts) => f.write_str(&join(parts, " && ")),
            Expression::Any(parts) => f.write_str(&join(parts, " || ")),
            Expression::Compare(subject, operator, operands) => {
                match subject {
                    Subject::Tag(0) => write!(f, "{CHAIN_TAG} {operator} ")?,
                    Subject::Tag(slot) => write!(f, "t{slot} {operator} ")?,
                    Subject::Field(field) => write!(f, "{} {operator} ", field.name())?,
                }
                let operands: Vec<String> = operands.iter().map(ToString::to_string).collect();
                match operands.as_slice() {
                    [only] => f.write_str(only),
                    several => write!(f, "{{{}}}", several.join(", ")),
                }
            }
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Name(name, _) => f.write_str(name),
            Operand::Number(number) => write!(f, "{number}"),
            Operand::Range(low, high) => write!(f, "{low}..{high}"),
            Operand::Address(address) => write!(f, "{address}"),
            Operand::Prefix(address, length) => write!(f, "{address}/{length}"),
            Operand::Addresses(low, high) => write!(f, "{low}..{high}"),
        }
    }
}

impl Expression {
    /// Decides the condition word by word.
    pub fn holds(&self, packet: &impl Facts) -> bool {
        match self {
            Expression::True => true,
            Expression::Not(inner) => !inner.holds(packet),
            Expression::All(parts) => parts.iter().all(|part| part.holds(packet)),
            Expression::Any(parts) => parts.iter().any(|part| part.holds(packet)),
            Expression::Compare(subject, operator, operands) => {
                let value = match subject {
                    Subject::Tag(slot) => Some(FieldValue::Number(packet.tag(*slot))),
                    Subject::Field(field) => packet.field(*field),
                };
                let Some(value) = value else { return *operator == "!=" };
                let equal = operands.iter().any(|operand| operand.matches(value));
                match (*operator, &operands[0], value) {
                    ("==" | "in", ..) => equal,
                    ("!=", ..) => !equal,
                    ("<", Operand::Number(bound), FieldValue::Number(number)) => number < *bound,
                    ("<=", Operand::Number(bound), FieldValue::Number(number)) => number <= *bound,
                    (">", Operand::Number(bound), FieldValue::Number(number)) => number > *bound,
                    (">=", Operand::Number(bound), FieldValue::Number(number)) => number >= *bound,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

impl Operand {
    fn matches(&self, value: FieldValue) -> bool {
        let address = match value {
            FieldValue::Number(number) => {
                return match self {
                    Operand::Name(_, named) => number == *named,
                    Operand::Number(other) => number == *other,
                    Operand::Range(low, high) => (*low..=*high).contains(&number),
                    _ => false,
                };
            }
            FieldValue::V4(address) => IpAddr::V4(address),
            FieldValue::V6(address) => IpAddr::V6(address),
        };
        match self {
            Operand::Address(other) => address == *other,
            Operand::Addresses(low, high) => {
                address.is_ipv4() == low.is_ipv4() && (*low..=*high).contains(&address)
            }
            Operand::Prefix(network, length) => {
                address.is_ipv4() == network.is_ipv4() && masked(address, *length) == *network
            }
            _ => false,
        }
    }
}

/// The address with all bits behind `length` cleared.
fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = (u64::from(u32::MAX) << (32 - length)) as u32;
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

fn small_number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..8u32, 1 => Just(63u32)]
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0..8u32).prop_map(|host| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | host))),
        (0..8u128).prop_map(|host| IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | host))),
    ]
}

fn names(letter: &'static str, count: u32) -> BoxedStrategy<Expression> {
    let name = (0..count).prop_map(move |n| Operand::Name(format!("{letter}{n}"), n)).boxed();
    prop_oneof![compare(&["==", "!="], name.clone(), 1), compare(&["in"], name, 3)].boxed()
}

fn numbers() -> BoxedStrategy<Expression> {
    let number = small_number().prop_map(Operand::Number).boxed();
    let range =
        (small_number(), small_number()).prop_map(|(a, b)| Operand::Range(a.min(b), a.max(b)));
    let any = prop_oneof![number.clone(), range].boxed();
    prop_oneof![
        compare(&["==", "!=", "<", "<=", ">", ">="], number, 1),
        compare(&["==", "!="], any.clone(), 1),
        compare(&["in"], any, 3),
    ]
    .boxed()
}

fn addresses() -> BoxedStrategy<Expression> {
    let range = (address(), 0..4u8).prop_map(|(low, more)| match low {
        IpAddr::V4(low) => {
            let high = Ipv4Addr::from_bits(low.to_bits() + u32::from(more));
            Operand::Addresses(IpAddr::V4(low), IpAddr::V4(high))
        }
        IpAddr::V6(low) => {
            let high = Ipv6Addr::from_bits(low.to_bits() + u128::from(more));
            Operand::Addresses(IpAddr::V6(low), IpAddr::V6(high))
        }
    });
    let prefix = (address(), select(vec![0, 1, 2, 3, 32])).prop_map(|(address, host)| {
        let length = if address.is_ipv4() { 32 - host } else { 128 - host };
        Operand::Prefix(masked(address, length), length)
    });
    let any = prop_oneof![address().prop_map(Operand::Address), range, prefix].boxed();
    prop_oneof![compare(&["==", "!="], any.clone(), 1), compare(&["in"], any, 3)].boxed()
}

/// A comparison with up to `most` operands, whose subject is filled in later.
fn compare(
    operators: &'static [&'static str],
    operand: BoxedStrategy<Operand>,
    most: usize,
) -> BoxedStrategy<Expression> {
    (select(operators), prop::collection::vec(operand, 1..=most))
        .prop_map(|(operator, operands)| Expression::Compare(Subject::Tag(0), operator, operands))
        .boxed()
}

fn of(subject: Subject, comparison: BoxedStrategy<Expression>) -> BoxedStrategy<Expression> {
    comparison
        .prop_map(move |comparison| match comparison {
            Expression::Compare(_, operator, operands) => {
                Expression::Compare(subject, operator, operands)
            }
            other => other,
        })
        .boxed()
}

fn comparison(world: &World) -> BoxedStrategy<Expression> {
    let mut choices = Vec::new();
    if world.chains > 0 {
        choices.push(names("c", world.chains as u32));
    }
    for (values, slot) in world.tags.iter().zip(1..) {
        let values = match values {
            Some(count) => names("v", *count),
            None => numbers(),
        };
        choices.push(of(Subject::Tag(slot), values));
    }
    let ports = of(Subject::Field(Field::Port), names("p", world.ports as u32));
    choices.extend([ports.clone(), ports]);
    let field = |field, values| of(Subject::Field(field), values);
    choices.extend([
        select(&NUMBER_FIELDS[..]).prop_flat_map(move |name| field(name, numbers())).boxed(),
        field(Field::Source, addresses()),
        field(Field::Destination, addresses()),
    ]);
    prop::strategy::Union::new(choices).boxed()
}

const NUMBER_FIELDS: [Field; 5] =
    [Field::Protocol, Field::SourcePort, Field::DestinationPort, Field::Dscp, Field::Vlan];

pub fn expression(world: &World) -> impl Strategy<Value = Expression> + use<> {
    let leaf = prop_oneof![1 => Just(Expression::True), 20 => comparison(world)];
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Expression::Not(Box::new(inner))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::All),
            prop::collection::vec(inner, 2..4).prop_map(Expression::Any),
        ]
    })
}

/// The lines of a rule text: chains, then rules, in random order.
pub fn lines(world: &World) -> impl Strategy<Value = Vec<String>> + use<> {
    let functions: Vec<usize> = (0..world.functions.len()).collect();
    let chain = subsequence(functions.clone(), 1..=functions.len()).prop_shuffle();
    let chains = prop::collection::vec(chain, world.chains).prop_map(|chains| {
        let lines = chains.iter().enumerate().map(|(n, functions)| {
            let names: Vec<String> = functions.iter().map(|f| format!("f{f}")).collect();
            format!("chain c{n} = {}", names.join(" -> "))
        });
        lines.collect::<Vec<_>>()
    });
    let all = |letter, count| (0..count).map(move |n| format!("{letter}{n}"));
    let places: Vec<String> = all("p", world.ports)
        .chain(all("f", world.functions.len()))
        .chain(all("c", world.chains))
        .collect();
    let targets: Vec<String> = places.iter().cloned().chain(["drop".to_owned()]).collect();
    let when = prop::option::weighted(0.7, expression(world));
    let rule = (select(places), when, select(targets)).prop_map(|(from, when, to)| match when {
        Some(when) => format!("from {from} when {when} -> {to}"),
        None => format!("from {from} -> {to}"),
    });
    let rules = prop::collection::vec(rule, 0..14);
    (chains, rules).prop_map(|(chains, rules)| [chains, rules].concat()).prop_shuffle()
}

/// A packet, the port it comes in at, which of its tags are known there, and what functions
/// write on its way.
#[derive(Clone, Debug)]
pub struct Traveller {
    pub port: u16,
    pub packet: Packet,
    pub known: Vec<bool>,
    pub written: Vec<u32>,
}

impl Traveller {
    pub fn entry(&self) -> Entry {
        let mut tags = [Known::Unknown; TAG_SLOTS];
        for ((tag, known), value) in tags.iter_mut().zip(&self.known).zip(self.packet.tags) {
            if *known {
                *tag = Known::Value(value);
            }
        }
        Entry { port: PortIndex(self.port), tags }
    }
}

/// Travellers whose named tags have values that exist, or `strange` ones as well.
pub fn traveller(world: &World, strange: bool) -> impl Strategy<Value = Traveller> + use<> {
    let mut tags = vec![match world.chains as u32 {
        0 => Just(NO_CHAIN).boxed(),
        count => prop_oneof![4 => 0..count, 1 => Just(NO_CHAIN)].boxed(),
    }];
    tags.extend(world.tags.iter().map(|values| match values {
        Some(count) if strange => (0..count + 1).boxed(),
        Some(count) => (0..*count).boxed(),
        None => small_number().boxed(),
    }));
    let numbers = prop::collection::vec(prop::option::weighted(0.8, small_number()), 5);
    let addresses = prop::collection::vec(prop::option::weighted(0.8, address()), 2);
    let known = prop::collection::vec(any::<bool>(), TAG_SLOTS);
    let written = prop::collection::vec(0..4u32, 1..8);
    (0..world.ports as u16, tags, numbers, addresses, known, written).prop_map(
        |(port, values, numbers, addresses, known, written)| {
            let mut packet = Packet::default().number(Field::Port, u32::from(port));
            packet.tags[..values.len()].copy_from_slice(&values);
            for (field, number) in NUMBER_FIELDS.into_iter().zip(numbers) {
                packet = number.into_iter().fold(packet, |p, number| p.number(field, number));
            }
            for (field, address) in [Field::Source, Field::Destination].into_iter().zip(addresses) {
                let address = address.map(|address| address.to_string());
                packet = address.iter().fold(packet, |p, address| p.address(field, address));
            }
            Traveller { port, packet, known, written }
        },
    )
}
