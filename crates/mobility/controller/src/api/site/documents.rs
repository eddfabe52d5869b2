//! `/v1/documents`, `/v1/revisions`, `/v1/rollout`: what the site is to be, and how far it is.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weft_http::extract::{Json, Path, Query, Text};
use weft_http::problem::{Failure, Mistake};
use weft_site::document::{self, DocumentKind};
use weft_site::set::Change;
use weft_yaml::mistake::Mistakes;

use super::super::state::{Shared, body};

/// Files of documents that are to be, beside those of before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Apply {
    /// The files.
    pub files: Vec<File>,
    /// Whether nothing is to change.
    #[serde(default)]
    pub dry_run: bool,
}

/// A file of documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DocumentFile)]
pub struct File {
    /// What mistakes call it.
    pub name: String,
    /// Its text: YAML, with `---` between documents.
    pub text: String,
}

/// What became of documents that were applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    /// The newest revision, which is a new one if something has changed.
    pub revision: u64,
    /// What becomes of each document.
    pub changes: Vec<Changed>,
}

/// What becomes of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DocumentChange)]
pub struct Changed {
    /// Its kind, such as `Node`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// `new`, `changed` or `unchanged`.
    #[schema(value_type = String)]
    pub change: Change,
}

/// The documents of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Documents {
    /// Its number; 0 if there is none.
    pub revision: u64,
    /// Why it came to be.
    #[serde(default)]
    pub note: String,
    /// Seconds since 1970 (UTC) at which it came to be.
    #[serde(default)]
    pub time: u64,
    /// The documents, by kind and name.
    pub documents: Vec<KeptDocument>,
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Document)]
pub struct KeptDocument {
    /// Its kind, such as `Node`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// As it was written.
    pub text: String,
}

/// How far nodes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RolloutState {
    /// The newest revision; 0 if there is none.
    pub revision: u64,
    /// `rolling`, `complete`, `rolling-back` or `rolled-back`.
    pub phase: String,
    /// The newest revision that did no harm; 0 if there is none.
    pub good: u64,
    /// Why nodes went back; empty if they did not.
    pub reason: String,
    /// The nodes that documents speak of.
    pub nodes: Vec<NodeRollout>,
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeRollout {
    /// Its name.
    pub node: String,
    /// `current`: it runs as it is to. `changing`: it is being changed, or looked at. `waits`:
    /// for its turn. `away`: it is not connected. `silent`: it does not say how it runs. Or why
    /// it does not run as it is to.
    pub state: String,
    /// What the settings are known by that it is to run by.
    pub wanted: u64,
    /// What those are known by that it runs by: 0 for its own file, null if it has not said so.
    pub runs: Option<u64>,
}

/// Which revision.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// Its number; the newest if it is left out.
    revision: Option<u64>,
}

/// Lets documents be, beside those of before: all of them, or, where one has a mistake, none.
#[utoipa::path(
    post,
    path = "/v1/documents",
    request_body = Apply,
    responses(
        (status = 200, description = "What becomes of each", body = Outcome),
        (status = 400, description = "The body cannot be read"),
        (status = 413, description = "The body is too long"),
        (status = 422, description = "The documents have mistakes, which are listed"),
    ),
)]
pub async fn apply(
    State(shared): State<Shared>,
    Text(text): Text,
) -> Result<Json<Outcome>, Failure> {
    let Apply { files, dry_run } = body(&text)?;
    let note = files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(" ");
    let note: String = format!("apply {note}").chars().take(200).collect();
    // Each node is read as `weft check` reads it, which may take its time.
    let read = tokio::task::spawn_blocking(move || {
        let (mut documents, mut mistakes) = (Vec::new(), Vec::new());
        for File { name, text } in &files {
            match document::read(text, name) {
                Ok(read) => documents.extend(read),
                Err(wrong) => mistakes.extend(wrong.0),
            }
        }
        if mistakes.is_empty() { Ok(documents) } else { Err(Mistakes(mistakes)) }
    });
    let stopped = |_| Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the controller is stopping");
    let documents = read.await.map_err(stopped)?.map_err(refused)?;
    let asked = shared.handle.ask(move |engine| engine.apply_documents(documents, note, dry_run));
    let outcome = asked.await?.map_err(refused)?;
    let changed = |(kind, name, change): (DocumentKind, String, Change)| Changed {
        kind: kind.to_string(),
        name,
        change,
    };
    let changes = outcome.changes.into_iter().map(changed).collect();
    Ok(Json(Outcome { revision: outcome.revision, changes }))
}

/// The documents.
#[utoipa::path(
    get,
    path = "/v1/documents",
    params(Which),
    responses(
        (status = 200, description = "The documents", body = Documents),
        (status = 404, description = "That revision is not remembered"),
    ),
)]
pub async fn list(
    State(shared): State<Shared>,
    Query(Which { revision }): Query<Which>,
) -> Result<Json<Documents>, Failure> {
    let found = shared.handle.ask(move |engine| engine.documents(revision)).await?;
    let (revision, kept) =
        found.ok_or_else(|| Failure::unknown("that revision is not remembered"))?;
    let (note, time) = (String::new(), 0);
    let documents = kept.into_iter().map(|kept| KeptDocument {
        kind: kept.kind.to_string(),
        name: kept.name,
        text: kept.text,
    });
    Ok(Json(Documents { revision, note, time, documents: documents.collect() }))
}

/// A document is not to be any more. Nodes that it speaks of run on as they do.
#[utoipa::path(
    delete,
    path = "/v1/documents/{kind}/{name}",
    params(
        ("kind" = String, Path, description = "The kind of the document"),
        ("name" = String, Path, description = "The name of the document"),
    ),
    responses(
        (status = 204, description = "It is no longer"),
        (status = 400, description = "There is no such kind, or others refer to it"),
        (status = 404, description = "There is no such document"),
    ),
)]
pub async fn delete(
    State(shared): State<Shared>,
    Path((kind, name)): Path<(String, String)>,
) -> Result<StatusCode, Failure> {
    let kind: DocumentKind = kind.parse().map_err(Failure::bad)?;
    let none = format!("there is no {kind} `{name}`");
    let asked = shared.handle.ask(move |engine| engine.delete_document(kind, &name)).await?;
    let asked = asked.map_err(|mistakes| Failure::bad(mistakes.to_string()))?;
    asked.map(|_| StatusCode::NO_CONTENT).ok_or_else(|| Failure::unknown(none))
}

/// Revisions that are remembered, newest first, without the texts of their documents.
#[utoipa::path(
    get,
    path = "/v1/revisions",
    responses((status = 200, description = "The revisions", body = Vec<Documents>)),
)]
pub async fn revisions(State(shared): State<Shared>) -> Result<Json<Vec<Documents>>, Failure> {
    let revisions = shared.handle.ask(|engine| engine.revisions()).await?;
    let listed = revisions.into_iter().map(|revision| Documents {
        revision: revision.number,
        note: revision.note,
        time: revision.time,
        documents: revision
            .documents
            .into_iter()
            .map(|kept| KeptDocument {
                kind: kept.kind.to_string(),
                name: kept.name,
                text: String::new(),
            })
            .collect(),
    });
    Ok(Json(listed.collect()))
}

/// How far nodes are in running as documents say.
#[utoipa::path(
    get,
    path = "/v1/rollout",
    responses((status = 200, description = "How far they are", body = RolloutState)),
)]
pub async fn rollout(State(shared): State<Shared>) -> Result<Json<RolloutState>, Failure> {
    let standing = shared.handle.ask(|engine| engine.site_standing()).await?;
    let phase = serde_json::to_value(standing.progress.phase).unwrap_or_default();
    let nodes = standing.nodes.into_iter().map(|node| NodeRollout {
        node: node.node,
        state: node.state,
        wanted: node.wanted,
        runs: node.runs,
    });
    Ok(Json(RolloutState {
        revision: standing.revision,
        phase: phase.as_str().unwrap_or_default().to_owned(),
        good: standing.progress.good,
        reason: standing.progress.reason,
        nodes: nodes.collect(),
    }))
}

fn refused(mistakes: Mistakes) -> Failure {
    let listed = mistakes.0.into_iter().map(|mistake| Mistake {
        file: mistake.file,
        line: mistake.line,
        column: mistake.column,
        message: mistake.message,
        hint: mistake.hint,
    });
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    Failure::new(status, "the documents have mistakes").with_mistakes(listed.collect())
}
