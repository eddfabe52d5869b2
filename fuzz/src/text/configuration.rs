//! Whole configurations of nodes and controllers, checked; functions are made on trial.

use weft_functions::KINDS;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Functions may ask for memory.
    crate::support::eal();
    match weft_node_config::read(text, "fuzzed.yaml", KINDS) {
        Ok(blueprint) => drop(blueprint.warnings.to_string()),
        Err(mistakes) => {
            assert!(!mistakes.to_string().is_empty());
        }
    }
}
