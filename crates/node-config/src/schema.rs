//! The published JSON schema of the file.

use schemars::{Schema, schema_for};
use serde_json::{Map, Value, json};
use weft_compose::Kind;

use super::yaml::NodeFile;

/// JSON schema (2020-12) of a node's configuration in which the functions of
/// `kinds` can be used, each with the schema of its configuration and settings.
pub fn schema(kinds: &[Kind]) -> Value {
    let mut root = schema_for!(NodeFile).to_value();
    let mut definitions = Map::new();
    let mut functions = Vec::new();
    let mut settings = Vec::new();
    for kind in kinds {
        let prefix = format!("{}.config", kind.name);
        let config = hoist(kind.config_schema(), &prefix, &mut definitions);
        functions.push(function(kind, config));
        let prefix = format!("{}.settings", kind.name);
        settings.push(hoist(kind.settings_schema(), &prefix, &mut definitions));
    }
    let description = "A function instance.";
    definitions
        .insert("Function".into(), json!({ "description": description, "oneOf": functions }));
    let description = "Settings of one function for some users, a group or a bearer.";
    definitions.insert("Settings".into(), json!({ "description": description, "anyOf": settings }));
    if let Some(Value::Object(known)) = root.get_mut("$defs") {
        known.append(&mut definitions);
    }
    root
}

fn function(kind: &Kind, config: Value) -> Value {
    let needs_config =
        config.get("required").and_then(Value::as_array).is_some_and(|keys| !keys.is_empty());
    let required = if needs_config { json!(["function", "config"]) } else { json!(["function"]) };
    let composition = json!({
        "description": "How it is run; as the node says by default.",
        "enum": ["call", "fused", "thread", "process", "remote", "vf"],
    });
    json!({
        "type": "object",
        "description": kind.summary,
        "properties": {
            "function": { "const": kind.name },
            "config": config,
            "composition": composition,
            "process": { "$ref": "#/$defs/Process" },
            "remote": { "$ref": "#/$defs/Remote" },
            "vf": { "$ref": "#/$defs/AtVirtualFunction" },
            "thread": { "$ref": "#/$defs/Thread" },
        },
        "required": required,
        "additionalProperties": false,
    })
}

/// A schema that stands for itself, made part of another: its definitions go
/// into `definitions`, under names that begin with `prefix`.
fn hoist(schema: Schema, prefix: &str, definitions: &mut Map<String, Value>) -> Value {
    let mut schema = schema.to_value();
    refer(&mut schema, prefix);
    if let Value::Object(object) = &mut schema {
        object.remove("$schema");
        if let Some(Value::Object(own)) = object.remove("$defs") {
            let renamed = own.into_iter().map(|(name, own)| (format!("{prefix}.{name}"), own));
            definitions.extend(renamed);
        }
    }
    schema
}

/// Lets references to definitions point to their new names.
fn refer(schema: &mut Value, prefix: &str) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(target)) = object.get_mut("$ref")
                && let Some(name) = target.strip_prefix("#/$defs/")
            {
                *target = format!("#/$defs/{prefix}.{name}");
            }
            object.values_mut().for_each(|value| refer(value, prefix));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| refer(value, prefix)),
        _ => {}
    }
}
