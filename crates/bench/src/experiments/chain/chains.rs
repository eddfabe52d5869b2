//! Chains that several experiments measure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use weft_rig::{Setup, USERS};

/// A function of a chain, as in a node's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Which function it is.
    pub function: String,
    /// Its configuration.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub config: Value,
}

/// A chain of so many synthetic functions that spend so many cycles each, behind a counter,
/// which is small enough to be fused.
pub fn loaded_chain(functions: usize, cycles: u32) -> Setup {
    chain_of(&[&[counter()], &vec![work(cycles); functions][..]].concat())
}

/// The same, but only the last function spends so many cycles; how many each of the others
/// does.
pub fn loaded_last(functions: usize, cycles: u32) -> (Setup, u32) {
    let others = cycles / 10;
    let before = vec![work(others); functions.saturating_sub(1)];
    (chain_of(&[&[counter()], &before[..], &[work(cycles)]].concat()), others)
}

fn work(cycles: u32) -> Part {
    Part { function: "synthetic".to_owned(), config: json!({ "cycles": cycles }) }
}

fn counter() -> Part {
    Part { function: "counter".to_owned(), config: json!({}) }
}

/// A chain of these functions.
pub fn chain_of(parts: &[Part]) -> Setup {
    let functions = parts.iter().enumerate();
    Setup::chain(USERS, functions.map(|(n, part)| (format!("f{n}"), json!(part))).collect())
}
