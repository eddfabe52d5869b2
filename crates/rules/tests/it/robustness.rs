//! No text makes the language panic, run away or contradict itself.

use crate::common::vocabulary;
use proptest::prelude::*;
use weft_rules::*;

/// Pieces of the language; put together at random they often make sense.
const PIECES: [&str; 58] = [
    "from ",
    "from access ",
    "from full ",
    "from count ",
    "chain ",
    "chain full = ",
    "when ",
    "-> ",
    "-> internet",
    "-> full",
    "-> count",
    "-> drop",
    "\n",
    "\n",
    "\n",
    "# note",
    " ",
    "&& ",
    "|| ",
    "!",
    "(",
    ")",
    "{",
    "}",
    ", ",
    "..",
    "== ",
    "!= ",
    "< ",
    "<= ",
    "> ",
    ">= ",
    "in ",
    "=",
    "true ",
    "access ",
    "internet ",
    "count ",
    "police ",
    "rewrite ",
    "colour ",
    "red ",
    "weight ",
    "chain == full ",
    "colour == red ",
    "dscp ",
    "af41..af43 ",
    "vlan ",
    "5 ",
    "4294967295 ",
    "source ",
    "10.0.0.0/8 ",
    "::/0 ",
    "2001:db8::1 ",
    "protocol == tcp ",
    "port == access ",
    "é",
    "\u{0}",
];

/// Puts a text through all that can be done with it.
fn exercise(text: &str) {
    let vocabulary = vocabulary(text);
    if let Ok(condition) = Condition::parse(text, &vocabulary) {
        let shown = condition.display(&vocabulary).to_string();
        assert!(Condition::parse(&shown, &vocabulary).is_ok(), "{shown}");
    }
    match RuleSet::parse(text, &vocabulary) {
        Err(diagnostics) => check_positions(text, &diagnostics),
        Ok(rules) => {
            let ports = [PortIndex(0), PortIndex(1)];
            check_positions(text, &rules.check(&ports));
            let tags = [Known::Unknown; TAG_SLOTS];
            let entries = ports.map(|port| Entry { port, tags });
            let program = rules.compile(&entries).unwrap();
            let paths = program.paths(&vocabulary, &entries).to_string();
            assert!(paths.lines().count() >= entries.len(), "{paths}");
        }
    }
}

/// Every diagnostic points into its text, or right behind a line of it.
fn check_positions(text: &str, diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        let line = text.lines().nth(diagnostic.line - 1).unwrap();
        let columns = 1..=line.chars().count() + 1;
        assert!(columns.contains(&diagnostic.column), "{diagnostic} in {line:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_characters(text in any::<String>()) {
        exercise(&text);
    }

    #[test]
    fn pieces_of_the_language(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40)
    ) {
        exercise(&pieces.concat());
    }

    #[test]
    fn good_rules_with_a_piece_replaced(
        start in 0..crate::common::GATEWAY.len(),
        length in 0..12usize,
        piece in prop::sample::select(&PIECES[..]),
    ) {
        let end = (start + length).min(crate::common::GATEWAY.len());
        let mut text = crate::common::GATEWAY.to_owned();
        text.replace_range(start..end, piece);
        exercise(&text);
    }
}

#[test]
fn long_texts() {
    exercise(&"from access -> internet\n".repeat(2000));
    exercise(&format!("from access when {}true -> internet", "colour == red || ".repeat(20_000)));
    exercise(&format!("from access when weight in {{{}5}} -> internet", "1, 2, ".repeat(20_000)));
    let numbers: Vec<String> = (0..20_000).map(|n| (2 * n).to_string()).collect();
    exercise(&format!("from access when weight in {{{}}} -> internet", numbers.join(", ")));
    let parts: Vec<String> = numbers.iter().map(|n| format!("weight == {n}")).collect();
    exercise(&format!("from access when {} -> internet", parts.join(" || ")));
    let pairs: Vec<String> = parts.iter().map(|part| format!("{part} && vlan == 1")).collect();
    exercise(&format!("from access when {} -> internet", pairs.join(" || ")));
    exercise(&"(".repeat(200_000));
    exercise(&"a".repeat(200_000));
    exercise(&"from access when vlan != 3 && !(dscp == 4 || weight == 1) -> full\n".repeat(500));
}
