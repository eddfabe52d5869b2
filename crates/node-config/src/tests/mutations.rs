//! Whatever is done to a file, reading it ends and does not panic.

use proptest::prelude::*;

use super::examples::EXAMPLES;
use super::{NODE, kinds};
use crate::read;

/// One change: at a place, so many bytes are replaced by others.
fn edit() -> impl Strategy<Value = (prop::sample::Index, usize, String)> {
    let pieces = prop_oneof![
        Just(String::new()),
        "[ -~\n\t]{1,4}",
        "[\\[\\]{}:,#&*!|>'\"%@`? \n-]{1,3}",
        "[0-9]{1,20}",
        prop::sample::select(vec![
            "é", "\u{feff}", "\0", "\r\n", "---\n", "10.0.0.1", "null", "x: &a *a"
        ])
        .prop_map(str::to_owned),
    ];
    (any::<prop::sample::Index>(), 0usize..40, pieces)
}

proptest! {
    #[test]
    fn mutated_files_are_read_without_panic(
        file in 0..EXAMPLES.len() + 1,
        edits in prop::collection::vec(edit(), 1..6),
    ) {
        let mut text = EXAMPLES.get(file).map_or(NODE, |(_, text)| text).to_owned();
        for (place, length, piece) in edits {
            let boundaries: Vec<usize> =
                text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let start = place.index(boundaries.len());
            let end = (start + length).min(boundaries.len() - 1);
            text.replace_range(boundaries[start]..boundaries[end], &piece);
        }
        for kinds in [kinds::ALL, weft_functions::KINDS] {
            if let Err(mistakes) = read(&text, "mutated.yaml", kinds) {
                let lines = text.lines().count();
                prop_assert!(!mistakes.0.is_empty());
                for mistake in &mistakes.0 {
                    prop_assert!(mistake.column > 0 && (1..=lines + 1).contains(&mistake.line));
                    prop_assert!(!mistake.message.contains('\n'), "{}", mistake.message);
                }
            }
        }
    }
}
