//! What all descriptions of an API (OpenAPI) have in common.

use std::collections::HashSet;

use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::{PROBLEM, Problem};

/// Completes a description: every refusal is answered with a [`Problem`], and every
/// operation may be refused with the statuses of `everywhere`.
pub fn complete(described: &mut OpenApi, everywhere: &[(u16, &str)]) {
    for (path, item) in &mut described.paths.paths {
        for (method, operation) in operations_by_method(item) {
            // Handlers of different paths may have the same name.
            let words = path.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
            operation.operation_id =
                Some([method].into_iter().chain(words).collect::<Vec<_>>().join("_"));
        }
    }
    for operation in described.paths.paths.values_mut().flat_map(operations) {
        let responses = &mut operation.responses.responses;
        for (status, meaning) in everywhere {
            responses
                .entry(status.to_string())
                .or_insert_with(|| RefOr::T(Response::new(*meaning)));
        }
        for (status, response) in responses {
            if let RefOr::T(response) = response
                && status.starts_with(['4', '5'])
            {
                let content = Content::new(Some(Ref::from_schema_name(Problem::name())));
                response.content.insert(PROBLEM.to_owned(), content.into());
            }
        }
    }
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    described.components.get_or_insert_default().schemas.extend(schemas);
}

fn operations_by_method(
    path: &mut PathItem,
) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = path;
    [("get", get), ("put", put), ("post", post), ("delete", delete), ("patch", patch)]
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = path;
    [get, put, post, delete, options, head, patch, trace].into_iter().flatten()
}

/// What is wrong with a description: references that lead nowhere, operations without a
/// name of their own, without an answer that grants them, or whose refusals are no
/// problems, and variable parts of paths that are not described.
pub fn mistakes(described: &OpenApi) -> Vec<String> {
    let mut found = Vec::new();
    // Each of its parts can be written as JSON.
    let text = serde_json::to_string(described).unwrap_or_default();
    let schemas = described.components.iter().flat_map(|components| components.schemas.keys());
    let schemas: HashSet<&str> = schemas.map(String::as_str).collect();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        if !schemas.contains(name) {
            found.push(format!("there is no schema {name}"));
        }
    }
    let mut names = HashSet::new();
    for (path, item) in &described.paths.paths {
        let mut item = item.clone();
        for operation in operations(&mut item) {
            let name = operation.operation_id.clone().unwrap_or_default();
            found.extend(mistakes_of(path, operation).map(|mistake| format!("{path}: {mistake}")));
            if name.is_empty() || !names.insert(name.clone()) {
                found.push(format!("{path}: `{name}` is the name of another operation"));
            }
        }
    }
    found
}

fn mistakes_of(path: &str, operation: &Operation) -> impl Iterator<Item = String> {
    let parameters =
        operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
            RefOr::T(parameter) => Some(parameter),
            RefOr::Ref(_) => None,
        });
    let in_path = parameters.filter(|parameter| parameter.parameter_in == ParameterIn::Path);
    let described: Vec<_> = in_path.map(|parameter| parameter.name.as_str()).collect();
    let variable = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let variable: Vec<_> = variable.collect();
    let parts = (described != variable).then(|| format!("{described:?} are not {variable:?}"));
    let responses = &operation.responses.responses;
    let granted = responses.keys().any(|status| status.starts_with('2'));
    let refusals = responses.iter().filter(|(status, _)| status.starts_with(['4', '5']));
    let others = refusals.filter_map(|(status, response)| match response {
        RefOr::T(response) if response.content.keys().eq([PROBLEM]) => None,
        _ => Some(format!("{status} is no problem")),
    });
    let others: Vec<_> = others.collect();
    parts.into_iter().chain((!granted).then(|| "is never granted".to_owned())).chain(others)
}
