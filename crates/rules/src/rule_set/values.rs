//! Looks up what the words of a comparison mean, by the field or tag that is compared.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::condition::interval::Intervals;
use crate::condition::{Addresses, Condition, Values, in_pairs};
use crate::language::diagnostic::Diagnostic;
use crate::language::field::{Field, FieldKind, Variable};
use crate::language::syntax::{Comparison, Expression, Name, Operand, Operator};
use crate::language::vocabulary::{TagKind, Vocabulary};

impl Condition {
    /// Reads a condition that stands alone, as in `destination in 10.0.0.0/8 && dscp == ef`.
    ///
    /// The vocabulary gives the names of ports and tags. Line ends mean nothing.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self, Vec<Diagnostic>> {
        let mut diagnostics = Vec::new();
        let expression = crate::language::parse::condition(text, &mut diagnostics);
        let condition =
            expression.map(|expression| self::condition(&expression, vocabulary, &mut diagnostics));
        match condition {
            Some(condition) if diagnostics.is_empty() => Ok(condition),
            _ => Err(diagnostics),
        }
    }
}

/// Resolves a condition. Where a part is wrong, that is reported and the part counts as true.
pub(crate) fn condition(
    expression: &Expression<'_>,
    vocabulary: &Vocabulary,
    diagnostics: &mut Vec<Diagnostic>,
) -> Condition {
    let mut part = |expression| condition(expression, vocabulary, diagnostics);
    match expression {
        Expression::True => Condition::always(),
        Expression::Not(inner) => part(inner).not(),
        Expression::All(parts) => Condition::all(parts.iter().map(part).collect::<Vec<_>>()),
        Expression::Any(parts) => Condition::any(parts.iter().map(part).collect::<Vec<_>>()),
        Expression::Comparison(comparison) => {
            resolve(comparison, vocabulary, diagnostics).unwrap_or_else(Condition::always)
        }
    }
}

/// `None` if something is wrong with the comparison; all of that is reported.
fn resolve(
    comparison: &Comparison<'_>,
    vocabulary: &Vocabulary,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Condition> {
    let subject = match Subject::find(comparison.subject, vocabulary) {
        Ok(subject) => subject,
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            return None;
        }
    };
    let operator = comparison.operator;
    if let Some(diagnostic) = subject.refuses(comparison) {
        diagnostics.push(diagnostic);
        return None;
    }
    let mut sets = Vec::with_capacity(comparison.operands.len());
    let mut wrong = 0;
    for operand in &comparison.operands {
        match subject.values(operand) {
            Ok(values) => sets.push(values),
            Err(diagnostic) => {
                diagnostics.push(diagnostic);
                wrong += 1;
            }
        }
    }
    let set = in_pairs(sets, Values::union).filter(|_| wrong == 0)?;
    Some(match (operator, &set) {
        (Operator::Equal | Operator::In, _) => Condition::test(subject.variable, set),
        (Operator::NotEqual, _) => Condition::test(subject.variable, set).not(),
        (_, Values::Numbers(bound)) => {
            let ordered = ordered(operator, bound);
            Condition::test(subject.variable, Values::Numbers(ordered))
        }
        (_, Values::Addresses(_)) => return None,
    })
}

/// The numbers that stand in an order to the one number in `bound`.
fn ordered(operator: Operator, bound: &Intervals<u32>) -> Intervals<u32> {
    let bound = bound.single().unwrap_or_default();
    let below = bound.checked_sub(1).map_or(Intervals::empty(), |high| Intervals::range(0, high));
    match operator {
        Operator::Less => below,
        Operator::AtLeast => below.complement(),
        Operator::AtMost => Intervals::range(0, bound),
        _ => Intervals::range(0, bound).complement(),
    }
}

/// The left side of a comparison.
struct Subject<'v> {
    name: &'v str,
    variable: Variable,
    domain: Domain<'v>,
}

/// What its values are.
enum Domain<'v> {
    Address,
    /// Numbers of a header field, up to its maximum.
    Number(Field),
    /// Numbers of a tag.
    Plain,
    /// The positions of names.
    Names(Vec<&'v str>),
}

impl<'v> Subject<'v> {
    fn find(name: Name<'_>, vocabulary: &'v Vocabulary) -> Result<Self, Diagnostic> {
        if let Some(field) = Field::from_name(name.text) {
            let domain = match field.kind() {
                FieldKind::Address => Domain::Address,
                FieldKind::Number => Domain::Number(field),
                FieldKind::Port => {
                    Domain::Names(vocabulary.ports().iter().map(String::as_str).collect())
                }
            };
            return Ok(Self { name: field.name(), variable: Variable::Field(field), domain });
        }
        if let Some(slot) = vocabulary.tag(name.text) {
            let tag = &vocabulary.tags()[usize::from(slot)];
            let domain = match &tag.kind {
                TagKind::Number => Domain::Plain,
                TagKind::Named(names) => Domain::Names(names.iter().map(String::as_str).collect()),
            };
            return Ok(Self { name: &tag.name, variable: Variable::Tag(slot), domain });
        }
        let message = format!("`{}` is neither a header field nor a tag", name.text);
        let mut known: Vec<&str> = Field::ALL.into_iter().map(Field::name).collect();
        known.extend(vocabulary.tags().iter().map(|tag| tag.name.as_str()));
        Err(Diagnostic::error(name.at, message).suggest(name.text, known))
    }

    /// Why these values cannot be compared in this way.
    fn refuses(&self, comparison: &Comparison<'_>) -> Option<Diagnostic> {
        let equality =
            matches!(comparison.operator, Operator::Equal | Operator::NotEqual | Operator::In);
        let name = self.name;
        match &self.domain {
            _ if equality => None,
            Domain::Address => Some(
                Diagnostic::error(
                    comparison.at,
                    format!("the addresses of `{name}` have no order"),
                )
                .hint("write a prefix or a range: in 10.0.0.0/8, in 10.0.0.1..10.0.0.9"),
            ),
            Domain::Names(_) => Some(
                Diagnostic::error(comparison.at, format!("the values of `{name}` have no order"))
                    .hint("compare it with ==, != or in"),
            ),
            Domain::Number(_) | Domain::Plain => match &comparison.operands[0] {
                Operand::One(_) => None,
                Operand::Range(low, _) => Some(
                    Diagnostic::error(low.at, "a range has no order to a number")
                        .hint("write `in` before a range"),
                ),
            },
        }
    }

    /// The set that an operand stands for.
    fn values(&self, operand: &Operand<'_>) -> Result<Values, Diagnostic> {
        match (&self.domain, operand) {
            (Domain::Address, Operand::One(name)) => self.prefix(name),
            (Domain::Address, Operand::Range(low, high)) => self.address_range(low, high),
            (Domain::Names(_), Operand::Range(low, _)) => {
                let message = format!("the values of `{}` have no order", self.name);
                Err(Diagnostic::error(low.at, message).hint("list them: in {a, b}"))
            }
            (_, Operand::One(name)) => {
                let number = self.number(name)?;
                Ok(Values::Numbers(Intervals::range(number, number)))
            }
            (_, Operand::Range(low, high)) => {
                let range = (self.number(low)?, self.number(high)?);
                if range.0 > range.1 {
                    return Err(empty_range(low, high));
                }
                Ok(Values::Numbers(Intervals::range(range.0, range.1)))
            }
        }
    }

    /// The number that a word stands for.
    fn number(&self, word: &Name<'_>) -> Result<u32, Diagnostic> {
        let (field, maximum) = match &self.domain {
            Domain::Names(names) => return self.position(word, names),
            Domain::Number(field) => (Some(*field), field.maximum()),
            Domain::Address | Domain::Plain => (None, u32::MAX),
        };
        let named = field.and_then(|field| field.named_number(word.text));
        let number = named.or_else(|| parse_number(word.text).filter(|&number| number <= maximum));
        number.ok_or_else(|| {
            let message = format!("`{}` is not a value of `{}`", word.text, self.name);
            let mut wrong = Diagnostic::error(word.at, message);
            if !word.text.starts_with(|first: char| first.is_ascii_digit()) {
                let names = field.into_iter().flat_map(Field::number_names);
                let names: Vec<String> = names.map(|(name, _)| name).collect();
                wrong = wrong.suggest(word.text, names.iter().map(String::as_str));
            }
            wrong.hint.get_or_insert(format!("a number from 0 to {maximum}"));
            wrong
        })
    }

    /// The position of a word among the names of a domain.
    fn position(&self, word: &Name<'_>, names: &[&str]) -> Result<u32, Diagnostic> {
        let position = names.iter().position(|name| *name == word.text);
        position.map(|position| position as u32).ok_or_else(|| {
            let message = format!("`{}` is not a value of `{}`", word.text, self.name);
            Diagnostic::error(word.at, message).suggest(word.text, names.iter().copied())
        })
    }

    /// The addresses of a prefix, or a single address.
    fn prefix(&self, word: &Name<'_>) -> Result<Values, Diagnostic> {
        let (address, length) = match word.text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (word.text, None),
        };
        let address = self.address(address, word)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => width,
            Some(length) => length.parse().ok().filter(|bits| *bits <= width).ok_or_else(|| {
                let family = if width == 32 { "IPv4" } else { "IPv6" };
                let message = format!("`/{length}` is not the length of an {family} prefix");
                Diagnostic::error(word.at, message).hint(format!("a number from 0 to {width}"))
            })?,
        };
        let (values, first) = match address {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(length).unwrap_or(0);
                let low = Ipv4Addr::from_bits(address.to_bits() & !host);
                let high = Ipv4Addr::from_bits(address.to_bits() | host);
                (Addresses::v4(low, high), IpAddr::V4(low))
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(length).unwrap_or(0);
                let low = Ipv6Addr::from_bits(address.to_bits() & !host);
                let high = Ipv6Addr::from_bits(address.to_bits() | host);
                (Addresses::v6(low, high), IpAddr::V6(low))
            }
        };
        if first != address {
            let message = format!("`{}` has bits set behind its prefix length", word.text);
            let hint = format!("write {first}/{length}");
            return Err(Diagnostic::error(word.at, message).hint(hint));
        }
        Ok(Values::Addresses(Box::new(values)))
    }

    fn address_range(&self, low: &Name<'_>, high: &Name<'_>) -> Result<Values, Diagnostic> {
        let ends = (self.address(low.text, low)?, self.address(high.text, high)?);
        let addresses = match ends {
            (IpAddr::V4(from), IpAddr::V4(to)) if from <= to => Addresses::v4(from, to),
            (IpAddr::V6(from), IpAddr::V6(to)) if from <= to => Addresses::v6(from, to),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
                let message = "a range of addresses is of one family";
                return Err(Diagnostic::error(low.at, message));
            }
            _ => return Err(empty_range(low, high)),
        };
        Ok(Values::Addresses(Box::new(addresses)))
    }

    /// `text` is `word` or the part of it before the prefix length.
    fn address(&self, text: &str, word: &Name<'_>) -> Result<IpAddr, Diagnostic> {
        text.parse().map_err(|_| {
            let message = format!("`{}` is not an address, as `{}` has", word.text, self.name);
            Diagnostic::error(word.at, message)
                .hint("such as 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32")
        })
    }
}

fn empty_range(low: &Name<'_>, high: &Name<'_>) -> Diagnostic {
    let message = format!("the range {}..{} is empty", low.text, high.text);
    Diagnostic::error(low.at, message).hint(format!("write {}..{}", high.text, low.text))
}

/// A decimal number, or a hexadecimal one after `0x`.
fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
