//! The rule language of Weft: what the forwarding element does with a packet at each place.
//!
//! A packet enters at a port, visits functions, and leaves at a port or is dropped. Functions
//! never name their successor; rules do, on tags that travel with the packet and on its header
//! fields (Pinczel et al., "Towards High Performance Packet Processing for 5G", §II.A):
//!
//! ```text
//! chain full = count -> police -> rewrite
//! from access when chain == full -> full
//! from full when colour == red -> drop
//! from full -> internet
//! ```
//!
//! The rules of a *place* (a port or a function) are tried in the order of the text, the first
//! that matches wins, and a packet that no rule matches is dropped with the reason `no_rule`. A
//! *chain* is sugar: to go to `full` is to set the tag `chain` to it and to go to its first
//! function; its arrows are rules with the condition `chain == full`, at the place in the text
//! where the chain stands; `from full` is a rule of its last function with that condition. So a
//! function can be part of many chains. `docs/rules.md` is the guide for those who write rules.
//!
//! # From text to rules
//!
//! The names that a text may use are put together in a [`Vocabulary`]. [`RuleSet::parse`]
//! reports all mistakes at once, each a [`Diagnostic`] with line, column and hint;
//! [`RuleSet::check`] then finds what is well written and yet cannot be meant: rules that never
//! take a packet, and loops that no packet leaves. [`RuleSet::next`] is the plain interpreter,
//! one hop at a time: it is what the language means.
//!
//! A [`Condition`] is a tree of tests "the value is in this set". Negations are pushed into the
//! tests (a packet that lacks a field makes every comparison false but `!=`, so each test also
//! says what holds then), and tests of one field are merged, so `dscp == 1 || dscp in 2..9` is
//! one interval.
//!
//! # From rules to a program
//!
//! To search rules at every hop of every packet is slow, even behind a cache of earlier answers
//! as in Pinczel et al. §IV.A ([`CachedRules`], kept as the baseline). Most answers are known
//! before a packet comes: the classifier gives a user's packets the same tags every time.
//! [`RuleSet::compile`] therefore evaluates the rules *partially*, for each [`Entry`], that is a
//! port and what is known of the tags there:
//!
//! 1. A state is a function and what is known of a packet behind it. From an entry on, the
//!    conditions of a place are simplified by what is known. A rule that cannot match is left
//!    out, one that must match ends the choice; what remains is a branch, often none.
//! 2. Each target that remains is a state to go on with. Entering a chain makes the tag `chain`
//!    known, an arm that was taken for `colour == red` makes the colour known, and a function
//!    that writes a tag makes it unknown again.
//! 3. What no later rule asks for is forgotten, and numbers that no condition tells apart are
//!    made equal, so that users with different tags and the same way meet in the same states.
//! 4. States from which every packet goes the same way are made one by partition refinement.
//! 5. States are numbered by function, functions in topological order, so that a walk over
//!    pending states in ascending order takes a whole burst through its functions once.
//!
//! A chain whose tags are all known becomes a straight line; a tag that a function writes, a
//! colour say, leaves one branch behind it.
//!
//! ```
//! use weft_rules::*;
//!
//! let text = "
//! chain full = count -> police
//! from access when chain == full -> full
//! from full when colour == red -> drop
//! from full -> internet
//! ";
//! let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
//! let tag = |name: &str, values| TagSpec { name: name.into(), kind: TagKind::Named(values) };
//! let vocabulary = Vocabulary::new(
//!     names(&["access", "internet"]),
//!     vec![
//!         FunctionPlace { name: "count".into(), writes: vec![] },
//!         FunctionPlace { name: "police".into(), writes: vec![1] },
//!     ],
//!     vec![
//!         tag("chain", RuleSet::chains(text)),
//!         tag("colour", names(&["green", "yellow", "red"])),
//!     ],
//! )?;
//! let rules = RuleSet::parse(text, &vocabulary).expect("no mistakes");
//! assert_eq!(rules.check(&[PortIndex(0)]), []);
//!
//! let mut tags = [Known::Unknown; TAG_SLOTS];
//! tags[0] = Known::Value(0); // chain=full
//! let entries = [Entry { port: PortIndex(0), tags }];
//! let program = rules.compile(&entries)?;
//! assert_eq!(
//!     program.paths(&vocabulary, &entries).to_string(),
//!     "access [chain=full] -> count -> police ? colour == red -> drop : internet\n"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod cache;
mod check;
mod compile;
mod condition;
mod language;
mod rule_set;
mod show;

pub use cache::{CacheCounts, CachedRules};
pub use compile::paths::Paths;
pub use compile::program::{Arm, Next, NextHop, Program, State, StateId, To};
pub use compile::{CompileError, MAX_EVALUATIONS, MAX_STATES};
pub use condition::Condition;
pub use condition::knowledge::{Entry, Known};
pub use language::diagnostic::{Diagnostic, Severity};
pub use language::field::{Facts, Field, FieldValue};
pub use language::vocabulary::{
    CHAIN_TAG, FunctionIndex, FunctionPlace, NO_CHAIN, Place, PortIndex, TAG_SLOTS, TagKind,
    TagSpec, Vocabulary, VocabularyError,
};
pub use rule_set::{Hop, NextPlace, RuleSet};
pub use show::ShownCondition;
