//! The API as OpenAPI 3.1 describes it.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operations::{Operation, operations};
use super::types::Problem;

/// The description.
pub fn description() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let settings =
        settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>().to_value();
    let mut paths = Map::new();
    for operation in operations() {
        let mut described = described(&operation, &mut generator);
        for status in operation.refusals.iter().chain(&[401]) {
            described["responses"][status.to_string()] = json!({
                "description": "not granted",
                "content": {"application/problem+json": {"schema": problem}},
            });
        }
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weft controller",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Nodes, users, and handovers between nodes.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        // On the socket nothing is asked for.
        "security": [{"token": []}, {}],
    })
}

fn described(operation: &Operation, generator: &mut schemars::SchemaGenerator) -> Value {
    let (status, kind, shape) = operation.answer;
    let mut answer = json!({"description": "granted"});
    if let Some(shape) = shape {
        answer["content"][kind] = json!({"schema": shape(generator)});
    }
    let in_path = operation.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let kind = if name == "name" { "string" } else { "integer" };
        Some(json!({"name": name, "in": "path", "required": true, "schema": {"type": kind}}))
    });
    let in_query = operation.query.iter().map(|(name, kind, text)| {
        json!({"name": name, "in": "query", "description": text, "schema": {"type": kind}})
    });
    let parameters: Vec<_> = in_path.chain(in_query).collect();
    let mut described = json!({
        "summary": operation.summary,
        "responses": {status.to_string(): answer},
    });
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(shape) = operation.request {
        let schema = shape(generator);
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    described
}
