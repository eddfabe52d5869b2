use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Table {
    name: String,
    #[serde(default)]
    kind: Option<Kind>,
    #[serde(default)]
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Plain,
    Burst(u8),
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Entry {
    number: u8,
    #[serde(default)]
    share: f64,
}

fn mistake(text: &str) -> (usize, usize, String) {
    let Mistake { line, column, message, .. } = read::<Table>(text).expect_err("a mistake");
    (line, column, message)
}

#[test]
fn a_table_is_read_in_both_styles_and_as_json() {
    let wanted = Table {
        name: "a".into(),
        kind: Some(Kind::Burst(3)),
        entries: vec![Entry { number: 1, share: 0.5 }, Entry { number: 255, share: 0.0 }],
    };
    for text in [
        "name: a\nkind: {burst: 3}\nentries:\n  - number: 1\n    share: 0.5\n  - number: 0xff\n",
        "{name: a, kind: {burst: 3}, entries: [{number: 1, share: 5e-1}, {number: 255}]}",
        r#"{"name": "a", "kind": {"burst": 3}, "entries": [{"number": 1, "share": 0.5}, {"number": 255}]}"#,
        "---\nname: a\nkind: {burst: &n 3}\nentries:\n- {number: 1, share: 0.5}\n- number: 255\n...\n",
    ] {
        assert_eq!(read::<Table>(text).as_ref(), Ok(&wanted), "{text}");
    }
    let short = Table { name: "2".into(), kind: None, entries: Vec::new() };
    assert_eq!(read::<Table>("name: '2'\nkind:\nentries:\n"), Ok(short));
}

#[test]
fn a_document_with_aliases_is_read() {
    let text = "name: a\nentries: [&one {number: 1}, *one]\n";
    let table = read::<Table>(text).expect("it is right");
    assert_eq!(table.entries[0], table.entries[1]);
}

/// What the tree tells as its first mistake is told here with the same place.
#[test]
fn the_first_mistake_is_told_where_it_stands() {
    for text in [
        "name: a\nentries:\n  - number: 1\n  - number: 256\n",
        "name: a\nentries:\n  - number: 1\n  - numbr: 2\n",
        "name: a\nentries:\n  - number: 1\n  - share: 2\n",
        "name: a\nentries:\n  - number: x\n",
        "name: a\nentries:\n  - [1, 2]\n",
        "name: a\nkind: plane\n",
        "name: !x a\n",
        "name: \"a\n",
        "[1]: 2\n",
        "name: a\n---\nname: b\n",
        "",
    ] {
        let mut source = match crate::locate::Source::read(text) {
            Ok(source) => source,
            Err(Mistake { line, column, message, .. }) => {
                assert_eq!(mistake(text), (line, column, message), "{text}");
                continue;
            }
        };
        assert!(crate::shape::read::<Table>(&mut source).is_none(), "{text}");
        let Mistake { line, column, message, .. } = source.mistakes[0].clone();
        assert_eq!(mistake(text), (line, column, message), "{text}");
    }
    let twice = mistake("name: a\nname: b\n");
    assert_eq!(twice, (2, 1, "the key `name` is given twice".into()));
}

#[test]
fn deep_nesting_ends() {
    let text = format!("{{x: {}", "[".repeat(100_000));
    assert!(read::<BTreeMap<String, serde::de::IgnoredAny>>(&text).is_err());
}

#[test]
fn paths_lead_to_values() {
    let text = "name: a\nentries:\n  - {number: 1}\n  - number: 2\n    share: 0.5\n";
    let at = |path: &str| value_at(text, path).map(|at| (at.line, at.column));
    assert_eq!(at("name"), Some((1, 7)));
    assert_eq!(at("entries.0.number"), Some((3, 14)));
    assert_eq!(at("entries.1.share"), Some((5, 12)));
    assert_eq!(at("entries.1.other"), Some((4, 5)));
    assert_eq!(value_at("a: [", "a.0.b"), None);
}
