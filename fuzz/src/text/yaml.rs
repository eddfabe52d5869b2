//! YAML, as configurations of all kinds begin.

use weft_yaml::document::Node;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut mistakes = Vec::new();
    let tree = Node::parse(text, &mut mistakes);
    let lines = text.lines().count() + 1;
    let wrong = tree.as_ref().err().into_iter().chain(&mistakes);
    for mistake in wrong {
        assert!((1..=lines).contains(&mistake.line), "{mistake:?} of {lines} lines");
    }
    let read = weft_yaml::parse(text, "fuzzed.yaml", "Node");
    if let Err(mistakes) = read {
        drop(mistakes.to_string());
    }
}
