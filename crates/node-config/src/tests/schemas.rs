//! The published schema, and the page that describes the same keys.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::kinds;
use crate::schema;

/// The schemas of all keys that a schema knows, by path; `*` stands for a name of the
/// user's, or for an item of a list.
fn keys(root: &Value, schema: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
        // What a function's own keys are, its own page says.
        if name != "Settings" && name != "Function" {
            keys(root, &root["$defs"][name], path, found);
        }
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        for schema in schema[choice].as_array().into_iter().flatten() {
            keys(root, schema, path, found);
        }
    }
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{key}");
        found.insert(path.clone(), value.clone());
        keys(root, value, &format!("{path}."), found);
    }
    for several in ["additionalProperties", "items"] {
        if schema[several].is_object() {
            keys(root, &schema[several], &format!("{path}*."), found);
        }
    }
}

fn schema_keys() -> BTreeMap<String, Value> {
    let schema = schema(kinds::ALL);
    // Every function has these, beside what it brings.
    let common = ["function", "config", "composition", "process", "remote", "vf", "thread"];
    let mut found = BTreeMap::from(common.map(|key| (format!("functions.*.{key}"), Value::Null)));
    keys(&schema, &schema["$defs"]["Process"], "functions.*.process.", &mut found);
    keys(&schema, &schema["$defs"]["Remote"], "functions.*.remote.", &mut found);
    let at_vf = &schema["$defs"]["AtVirtualFunction"];
    keys(&schema, at_vf, "functions.*.vf.", &mut found);
    keys(&schema, &schema["$defs"]["Thread"], "functions.*.thread.", &mut found);
    keys(&schema, &schema, "", &mut found);
    found
}

#[test]
fn the_page_describes_every_key() {
    let page = include_str!("../../../../docs/configuration.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let described: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(described, schema_keys().into_keys().collect());
}

/// Numbers that the page says are those of the schema, which the checks read as well.
#[test]
fn the_page_has_the_ranges_and_defaults_of_the_schema() {
    let page = include_str!("../../../../docs/configuration.md");
    let schemas = schema_keys();
    let (mut ranges, mut defaults) = (0, 0);
    for line in page.lines().filter(|line| line.starts_with("| `functions.*.")) {
        let cells: Vec<_> = line.split(" | ").collect();
        let key = cells[0].trim_matches(|c| "| `".contains(c));
        let schema = &schemas[key];
        let number = |text: &str| text.split(' ').next()?.parse::<u64>().ok();
        let range =
            cells[1].split_once('–').and_then(|(low, high)| Some((number(low)?, number(high)?)));
        if let Some((low, high)) = range {
            ranges += 1;
            assert_eq!(
                (&schema["minimum"], &schema["maximum"]),
                (&low.into(), &high.into()),
                "{line}"
            );
        }
        if let (Some(default), true) = (number(cells[2]), schema["default"].is_u64()) {
            defaults += 1;
            assert_eq!(schema["default"], default, "{line}");
        }
    }
    assert!(ranges >= 16 && defaults >= 8, "{ranges} ranges, {defaults} defaults");
}

#[test]
fn the_schema_is_valid_and_every_reference_leads_somewhere() {
    fn follow(root: &Value, schema: &Value) {
        if let Some(target) = schema["$ref"].as_str() {
            assert!(root.pointer(&target[1..]).is_some(), "{target}");
        }
        match schema {
            Value::Object(object) => object.values().for_each(|value| follow(root, value)),
            Value::Array(items) => items.iter().for_each(|value| follow(root, value)),
            _ => {}
        }
    }
    let schema = schema(kinds::ALL);
    assert!(jsonschema::meta::is_valid(&schema));
    follow(&schema, &schema);
}

#[test]
fn every_key_has_a_description_and_defaults_are_told() {
    let schema = schema(kinds::ALL);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        if name.contains('.') || matches!(name.as_str(), "Settings" | "Function") {
            continue;
        }
        for (key, value) in definition["properties"].as_object().into_iter().flatten() {
            let described = value["description"].is_string();
            assert!(described, "{name}.{key}: {value}");
        }
    }
    assert_eq!(schema["$defs"]["Port"]["properties"]["mtu"]["default"], 1500);
    assert_eq!(schema["$defs"]["Workers"]["properties"]["maxSleep"]["default"], 100);
    assert_eq!(schema["$defs"]["Workers"]["properties"]["polling"]["default"], "adaptive");
    assert_eq!(schema["properties"]["forwarding"]["default"], "compiled");
}

#[test]
fn functions_bring_their_own_schemas() {
    let schema = schema(kinds::ALL);
    let functions = schema["$defs"]["Function"]["oneOf"].as_array().unwrap();
    let names: Vec<_> = functions
        .iter()
        .map(|one| one["properties"]["function"]["const"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["counter", "marker", "many"]);
    assert!(schema["$defs"]["marker.config.Step"]["properties"]["burst"].is_object());
}
