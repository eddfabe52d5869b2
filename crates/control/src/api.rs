//! What goes over the socket beside what the node itself shows
//! ([`weft_node::show`]): questions and answers, as JSON.

use serde::{Deserialize, Serialize};

/// What went wrong with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// In one sentence.
    pub error: String,
    /// Mistakes of the configuration that was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Mistake>,
}

/// One mistake of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mistake {
    /// The file, as the client named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in the line, in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Which users are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Page {
    /// Users to skip, in the order of the configuration.
    pub first: usize,
    /// Users wanted; at most [`Page::MOST`] are given.
    pub count: usize,
}

impl Page {
    /// Users that one answer holds.
    pub const MOST: usize = 10_000;
}

impl Default for Page {
    fn default() -> Page {
        Page { first: 0, count: 100 }
    }
}

/// What a change of the configuration came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Functions that go on as they were.
    pub functions_kept: usize,
    /// Functions that are new, or have a new configuration.
    pub functions_new: usize,
    /// Users before.
    pub users_before: usize,
    /// Users now.
    pub users_now: usize,
    /// Whether all workers have taken the change over already.
    pub settled: bool,
    /// What is probably not meant.
    pub warnings: Vec<Mistake>,
}
