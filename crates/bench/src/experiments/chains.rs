//! Chains that several experiments measure.

use serde_json::json;

use crate::rig::{Setup, USERS};

/// A chain of so many synthetic functions that spend so many cycles each.
pub fn synthetic_chain(functions: usize, cycles: u32) -> Setup {
    let work = |number| {
        (format!("f{number}"), json!({"function": "synthetic", "config": {"cycles": cycles}}))
    };
    Setup::chain(USERS, (0..functions).map(work).collect())
}
