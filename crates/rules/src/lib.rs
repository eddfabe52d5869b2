//! The rule language of Weft.
#![forbid(unsafe_code)]

mod cache;
mod check;
mod compile;
mod condition;
mod diagnostic;
mod field;
mod interpret;
mod interval;
mod knowledge;
mod lex;
mod loops;
mod order;
mod parse;
mod partition;
mod paths;
mod program;
mod relevance;
mod resolve;
mod rule_set;
mod share;
mod show;
mod syntax;
mod values;
mod vocabulary;

pub use cache::{CacheCounts, CachedRules};
pub use compile::{CompileError, MAX_STATES};
pub use condition::Condition;
pub use diagnostic::{Diagnostic, Severity};
pub use field::{Facts, Field, FieldValue};
pub use interpret::{Hop, NextPlace};
pub use knowledge::{Entry, Known};
pub use paths::Paths;
pub use program::{Arm, Next, Program, State, StateId, Target, To};
pub use rule_set::RuleSet;
pub use show::ShownCondition;
pub use vocabulary::{
    CHAIN_TAG, FunctionIndex, FunctionPlace, NO_CHAIN, Place, PortIndex, TAG_SLOTS, TagKind,
    TagSpec, Vocabulary, VocabularyError,
};
