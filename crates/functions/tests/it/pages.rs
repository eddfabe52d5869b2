//! Every function has a page that names all there is to know of it, and schemas
//! that say the same.

use std::collections::BTreeSet;

use crate::common::{Example, headings, page};
use serde_json::Value;
use weft_compose::Kind;
use weft_functions::KINDS;

/// The part of a function's page under a heading.
fn section(kind: &Kind, heading: &str) -> String {
    let page = page(&format!("functions/{}.md", kind.name));
    let start = page.find(&format!("\n## {heading}\n"));
    let start = start.unwrap_or_else(|| panic!("{}: there is no {heading}", kind.name));
    let rest = &page[start + heading.len() + 4..];
    rest[..rest.find("\n## ").unwrap_or(rest.len())].to_owned()
}

/// What stands in the first column of the tables of a section.
fn rows(section: &str) -> BTreeSet<String> {
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

/// All keys that a schema knows, as the tables write them: `rules.*.action`.
fn keys(schema: &Value) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    collect(schema, schema, "", &mut keys);
    keys
}

fn collect(root: &Value, schema: &Value, path: &str, keys: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").expect("a definition of its own");
        return collect(root, &root["$defs"][name], path, keys);
    }
    for list in ["anyOf", "oneOf", "allOf"] {
        for one in schema[list].as_array().into_iter().flatten() {
            collect(root, one, path, keys);
        }
    }
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if schema["items"].is_object() {
        collect(root, &schema["items"], &join("*"), keys);
    }
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        keys.insert(join(key));
        collect(root, property, &join(key), keys);
    }
}

/// All objects in a schema that have properties.
fn mappings<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
    if schema["properties"].is_object() {
        found.push(schema);
    }
    match schema {
        Value::Object(entries) => entries.values().for_each(|value| mappings(value, found)),
        Value::Array(items) => items.iter().for_each(|value| mappings(value, found)),
        _ => {}
    }
}

fn schemas(kind: &Kind) -> [Value; 2] {
    [kind.config_schema().to_value(), kind.settings_schema().to_value()]
}

#[test]
fn all_pages_have_the_same_headings() {
    for kind in KINDS {
        let page = page(&format!("functions/{}.md", kind.name));
        assert!(page.starts_with(&format!("# `{}`\n\n", kind.name)), "{}", kind.name);
        let wanted = ["Configuration", "Settings", "Tags", "Drop reasons", "Context", "Example"];
        let mut found = headings(&page).into_iter();
        let all = wanted.iter().all(|wanted| found.any(|heading| &heading[3..] == *wanted));
        assert!(all, "{}: {wanted:?}", kind.name);
    }
}

#[test]
fn every_page_names_all_keys_and_no_others() {
    for kind in KINDS {
        let [config, settings] = schemas(kind);
        let listed = rows(&section(kind, "Configuration"));
        assert_eq!(listed, keys(&config), "{}: configuration", kind.name);
        // A setting that is as configured is told by its first key.
        let known = keys(&settings);
        let listed = rows(&section(kind, "Settings"));
        assert!(listed.is_subset(&known), "{}: {listed:?}", kind.name);
        let told = |key: &String| {
            let parent = key.split('.').next().expect("a key");
            listed.contains(key) || listed.contains(parent) && keys(&config).contains(key)
        };
        assert!(known.iter().all(told), "{}: settings {known:?}", kind.name);
    }
}

#[test]
fn every_page_names_tags_and_reasons_and_no_others() {
    for kind in KINDS {
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let tags = kind.reads.iter().chain(kind.writes).map(|tag| tag.name).collect();
        let tags: BTreeSet<String> = names(tags);
        assert_eq!(rows(&section(kind, "Tags")), tags, "{}", kind.name);
        let drops: BTreeSet<String> = names(kind.drops.iter().map(|reason| reason.name).collect());
        let listed = section(kind, "Drop reasons");
        assert_eq!(rows(&listed), drops, "{}", kind.name);
        for reason in kind.drops {
            let row = format!("| `{}` | {}", reason.name, reason.meaning);
            assert!(listed.contains(&row), "{}: {row}", kind.name);
        }
    }
}

#[test]
fn every_page_names_what_is_shown_of_a_context() {
    for kind in KINDS {
        let rig = Example::of(kind).rig();
        let listed = rows(&section(kind, "Context"));
        for slot in 0..2 {
            for (name, _) in rig.instance.show(slot) {
                assert!(listed.contains(name), "{}: {name}", kind.name);
            }
        }
    }
}

#[test]
fn schemas_describe_every_key_and_allow_no_others() {
    for kind in KINDS {
        for schema in schemas(kind) {
            assert_eq!(schema["type"], "object", "{}", kind.name);
            let mut found = Vec::new();
            mappings(&schema, &mut found);
            for mapping in found {
                assert_eq!(mapping["additionalProperties"], false, "{}: {mapping}", kind.name);
                for (key, property) in mapping["properties"].as_object().expect("properties") {
                    let told = property["description"].is_string() || property["$ref"].is_string();
                    assert!(told, "{}: {key} is not described", kind.name);
                }
            }
        }
    }
}

#[test]
fn every_example_is_what_the_schemas_say() {
    for kind in KINDS {
        let Example { config, settings, .. } = Example::of(kind);
        let [config_schema, settings_schema] = schemas(kind);
        let config = if config.is_null() { serde_json::json!({}) } else { config };
        for (schema, value) in [(config_schema, Some(config)), (settings_schema, settings)] {
            let schema = jsonschema::validator_for(&schema).expect("a valid schema");
            if let Some(value) = value {
                let error = schema.iter_errors(&value).next();
                assert!(error.is_none(), "{}: {}", kind.name, error.expect("an error"));
            }
        }
    }
}

#[test]
fn functions_are_listed_by_name() {
    assert!(KINDS.is_sorted_by(|one, next| one.name < next.name));
    for kind in KINDS {
        assert!(kind.summary.ends_with('.'), "{}", kind.name);
        let name = kind.name.split('-').all(|word| {
            !word.is_empty()
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        });
        assert!(name, "{}: lower case, words joined by hyphens", kind.name);
        assert_eq!(weft_functions::kind(kind.name).expect("it is there").name, kind.name);
    }
}
