//! Files that are hardly YAML, and texts and where they stand.

use std::io::Write;

use super::{NODE, kinds, said};
use crate::{load, locate::Source};

/// What is said of a file of these bytes, with the name of the file cut off.
fn loaded(bytes: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!(
        "weft-config-{}-{:?}.yaml",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes)).unwrap();
    let result = load(&path, kinds::ALL);
    std::fs::remove_file(&path).unwrap();
    let mistakes = result.map(|_| ()).unwrap_err().to_string();
    let cut = format!("{}:", path.display());
    assert!(mistakes.starts_with(&cut), "{mistakes}");
    mistakes[cut.len()..].to_owned()
}

#[test]
fn a_file_that_is_no_configuration_is_one_line() {
    for (bytes, line) in [
        (&b""[..], "1:1: there is nothing in this file"),
        (b"# a comment\n", "1:1: there is nothing in this file"),
        (b"\xff\xfe\x00\x01", "1:1: cannot read the file: it is not text in UTF-8"),
        (b"\x00\x01\x02", "1:1: this is not YAML: found unprintable character"),
        (b"hello", "1:1: a mapping is expected, not \"hello\""),
        (b"[1, 2]", "1:1: a mapping is expected, not a list"),
        (b"kind: Node\n---\nkind: Node\n", "2:1: a second document begins: a file has one"),
        (
            b"a: !!str 5",
            "1:4: YAML tags (`!`) mean nothing here (put text in quotes to keep it text)",
        ),
        (b"{a: 1}: 2", "1:1: a key is a word"),
        (b"a: &a [*a]", "1:8: this alias stands inside its anchor"),
        (b"a: *b", "1:4: this is not YAML: while parsing node, found unknown anchor"),
        (
            b"a: 1\n\tb: 2",
            "2:1: a tab stands here, and YAML indents by blanks (put blanks in its place)",
        ),
        (&[b' '; 10 << 20], "1:1: the file has more than 4194304 bytes"),
    ] {
        assert_eq!(loaded(bytes), line);
    }
}

#[test]
fn a_file_that_is_not_there_is_one_line() {
    let mistakes = load("/nonexistent/node.yaml".as_ref(), kinds::ALL).map(|_| ()).unwrap_err();
    let line =
        "/nonexistent/node.yaml:1:1: cannot read the file: No such file or directory (os error 2)";
    assert_eq!(mistakes.to_string(), line);
}

#[test]
fn nesting_and_aliases_are_bounded() {
    for text in ["[".repeat(200_000), "- ".repeat(200_000), "{a: ".repeat(200)] {
        assert_eq!(said(&text).len(), 1, "{:?}", &text[..8]);
    }
    let nested = format!("{}{}", "[".repeat(70), "]".repeat(70));
    assert_eq!(said(&nested), ["1:66: this is nested more than 64 deep"]);
    // Ten lists, each of ten aliases of the one before: 10¹⁰ values.
    let mut bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    let says = said(&bomb);
    assert!(says[0].ends_with("anchors and aliases make more than 100000 values"), "{says:?}");
}

#[test]
fn a_file_may_be_written_as_json() {
    let json = r#"{"apiVersion": "weft/v1", "kind": "Node", "metadata": {"name": "j"},
        "ports": {"a": {"device": "ring:a", "direction": "uplink"}},
        "rules": "from a -> a"}"#;
    assert_eq!(said(json), [""; 0]);
}

#[test]
fn windows_line_ends_change_nothing() {
    let text =
        NODE.replace('\n', "\r\n").replace("-> core\r\n  from core", "-> cor\r\n  from core");
    assert_eq!(
        said(&text.replace("from access -> core", "from access -> cor")),
        ["41:18: there is no place `cor` (did you mean `core`?)"]
    );
}

#[test]
fn texts_are_found_where_they_stand() {
    let text = "\
plain: one two
quoted:    \"three\"
escaped: \"f\\u006fur\"
literal: &anchor |2-

    five

   six
folded: >
  seven
list:
  - 'é eight'
";
    let source = Source::read(text).unwrap();
    for (path, word) in [
        ("plain", "two"),
        ("quoted", "three"),
        ("literal", "five"),
        ("literal", "six"),
        ("list.0", "eight"),
    ] {
        let placed = source.in_place(path).unwrap();
        let at = |text: &str| {
            let lines = text.lines().enumerate();
            let found = lines.filter_map(|(line, raw)| Some((line, raw.find(word)?, raw)));
            let places: Vec<_> =
                found.map(|(line, byte, raw)| (line, raw[..byte].chars().count())).collect();
            assert_eq!(places.len(), 1, "{word} in {text:?}");
            places[0]
        };
        assert_eq!(at(&placed), at(text), "{path}");
    }
    assert_eq!(source.in_place("escaped"), None);
    assert_eq!(source.in_place("folded"), None);
}
