//! The text of rules: its words, its grammar, and the names that it may use.

pub(crate) mod diagnostic;
pub(crate) mod field;
pub(crate) mod lex;
pub(crate) mod parse;
pub(crate) mod syntax;
pub(crate) mod vocabulary;
