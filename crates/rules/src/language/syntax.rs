//! A rule text as it was written: names are not yet looked up.

use crate::language::diagnostic::Position;

/// A word and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name<'t> {
    pub text: &'t str,
    pub at: Position,
}

#[derive(Debug)]
pub(crate) enum Item<'t> {
    Chain(Chain<'t>),
    Rule(Rule<'t>),
}

/// `chain NAME = FUNCTION -> FUNCTION …`; never empty.
#[derive(Debug)]
pub(crate) struct Chain<'t> {
    pub name: Name<'t>,
    pub functions: Vec<Name<'t>>,
}

/// `from PLACE [when CONDITION] -> PLACE`
#[derive(Debug)]
pub(crate) struct Rule<'t> {
    /// Where the rule begins.
    pub at: Position,
    pub from: Name<'t>,
    pub when: Option<(Position, Expression<'t>)>,
    pub to: Name<'t>,
}

#[derive(Debug)]
pub(crate) enum Expression<'t> {
    True,
    Not(Box<Expression<'t>>),
    All(Vec<Expression<'t>>),
    Any(Vec<Expression<'t>>),
    Comparison(Comparison<'t>),
}

/// `SUBJECT OPERATOR OPERANDS`
#[derive(Debug)]
pub(crate) struct Comparison<'t> {
    pub subject: Name<'t>,
    pub operator: Operator,
    /// Where the operator stands.
    pub at: Position,
    /// Never empty; more than one only in a set.
    pub operands: Vec<Operand<'t>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    In,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand<'t> {
    /// A value or a prefix.
    One(Name<'t>),
    /// From the first to the second, both included.
    Range(Name<'t>, Name<'t>),
}
