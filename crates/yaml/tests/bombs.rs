//! Files that are written to exhaust whatever reads them: refused with the place, before
//! memory or stack are used up.

use proptest::prelude::*;
use weft_yaml::document::{Content, Node};
use weft_yaml::mistake::Mistake;

/// What is wrong with a file, as `LINE:COLUMN: message`.
fn refused(text: &str) -> String {
    let mistake = Node::parse(text, &mut Vec::new()).unwrap_err();
    let Mistake { line, column, message, .. } = mistake;
    format!("{line}:{column}: {message}")
}

/// Nodes of a document, without recursion.
fn count(root: &Node) -> usize {
    let (mut open, mut total) = (vec![root], 0);
    while let Some(node) = open.pop() {
        total += 1;
        match &node.content {
            Content::List(items) => open.extend(items),
            Content::Map(entries) => open.extend(entries.iter().map(|(_, node)| node)),
            _ => {}
        }
    }
    total
}

/// Each line is one level deeper than the one before, by way of its alias alone.
#[test]
fn chained_aliases_do_not_deepen_without_end() {
    let mut text = String::from("a0: &a0 [x]\n");
    for nth in 1..100_000 {
        text.push_str(&format!("a{nth}: &a{nth} [*a{}]\n", nth - 1));
    }
    assert_eq!(refused(&text), "64:12: this is nested more than 64 deep");
}

/// The classical one, of 332 bytes and 10⁹ texts.
#[test]
fn an_alias_bomb_is_refused_where_it_bursts() {
    let mut text = String::from("a: &a [w,w,w,w,w,w,w,w,w,w]\n");
    for (one, other) in "bcdefghi".chars().zip("abcdefgh".chars()) {
        let aliases = vec![format!("*{other}"); 10].join(",");
        text.push_str(&format!("{one}: &{one} [{aliases}]\n"));
    }
    assert_eq!(text.len(), 332);
    assert_eq!(refused(&text), "5:26: anchors and aliases make more than 100000 values");
    let small = text.lines().take(3).collect::<Vec<_>>().join("\n");
    let root = Node::parse(&small, &mut Vec::new()).unwrap();
    assert_eq!(count(&root), 1 + 11 + 111 + 1_111);
}

/// Anchors inside anchors, each of which keeps a copy of all that is inside it.
#[test]
fn nested_anchors_do_not_multiply() {
    let mut text = String::new();
    for nth in 0..60 {
        text.push_str(&format!("&a{nth} ["));
    }
    text.push_str(&"w,".repeat(100_000));
    text.push_str(&"]".repeat(60));
    let told = refused(&text);
    assert!(told.ends_with("anchors and aliases make more than 100000 values"), "{told}");
}

/// One long text and many aliases of it.
#[test]
fn long_texts_are_not_copied_without_end() {
    let aliases = vec!["*long"; 50_000].join(", ");
    let text = format!("a: &long {}\nb: [{aliases}]\n", "x".repeat(1 << 20));
    assert_eq!(refused(&text), "2:26: anchors and aliases copy more than 4194304 bytes of text");
}

/// Found by fuzzing: YAML ends a line there, and no editor does, so mistakes were reported
/// behind the end of the file.
#[test]
fn a_carriage_return_alone_is_refused() {
    let told = "a carriage return without a line feed: editors and YAML disagree whether a line \
                ends here";
    assert_eq!(refused("a: 1\nä: x\ry\n"), format!("2:5: {told}"));
    assert_eq!(refused("a: 1\r"), format!("1:5: {told}"));
    let root = Node::parse("a: 1\r\nb: 2\r\n", &mut Vec::new()).unwrap();
    assert_eq!(count(&root), 3);
}

#[test]
fn honest_anchors_are_read() {
    let text = "a: &a {x: 1}\nb: *a\nc: [*a, *a]\n";
    assert_eq!(count(&Node::parse(text, &mut Vec::new()).unwrap()), 1 + 2 + 2 + 5);
    assert_eq!(refused("a: &a [*a]\n"), "1:8: this alias stands inside its anchor");
    assert_eq!(refused(&"[".repeat(70)), "1:66: this is nested more than 64 deep");
}

/// Words that YAML is made of, and some that it is not.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "&a ", "*a", "&b ", "*b", "[", "]", "{", "}", ",", ": ", "- ", "? ", "\n", "  ", "\n  ",
        "|\n", ">\n", "\"", "'", "#", "---\n", "...\n", "!t ", "%", "x", "0x1f", "~", "\t", "é",
    ];
    prop_oneof![8 => prop::sample::select(words.map(String::from).to_vec()), 1 => any::<char>().prop_map(String::from)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_words_panic(words in prop::collection::vec(word(), 0..200)) {
        let text = words.concat();
        let mut mistakes = Vec::new();
        if let Ok(root) = Node::parse(&text, &mut mistakes) {
            prop_assert!(count(&root) <= 2_000_000);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = Node::parse(&text, &mut Vec::new());
    }
}
