//! `/v1/upgrade`: nodes come to run the program that is installed at them, one after another.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_http::extract::{Json, Text};
use weft_http::problem::Failure;
use weft_site::upgrade::{Method, NodePhase, NodeUpgrade, Phase, Upgrade};

use super::super::state::{Shared, body};
use crate::engine::NotBegun;

/// Which nodes are to be upgraded, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpgradeOrder {
    /// `in-place`: another process takes the node over, with its users. `drain`: users leave the
    /// node, and its process ends; its service manager starts another one.
    #[schema(value_type = String)]
    pub method: Method,
    /// The names of the nodes; all of the site if there are none.
    pub nodes: Vec<String>,
}

/// The upgrade that is under way, or the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeState {
    /// Its number; 0 if there was none.
    pub number: u64,
    /// As it was ordered.
    #[schema(value_type = String)]
    pub method: Method,
    /// `running`, `complete`, `failed`, or `cancelled`; `complete` if there was none.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// Whether it ends with the node in progress.
    pub is_cancelled: bool,
    /// Why it failed, with the name of the node; empty if it did not.
    pub reason: String,
    /// The nodes, in their order.
    pub nodes: Vec<NodeState>,
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NodeUpgrade)]
pub struct NodeState {
    /// Its name.
    pub node: String,
    /// `waiting`, `in-progress`, `done`, `failed`, or `skipped`.
    #[schema(value_type = String)]
    pub phase: NodePhase,
    /// What is being done at a node that is in progress: `asking` which process it is, its users
    /// are `leaving`, its process is `changing`, or users are `returning`. Null otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Why it failed or is skipped, or what it waits for; else empty.
    pub reason: String,
    /// Version of its program before; empty until it has said so.
    pub before: String,
    /// Version of its program since then; empty until it has said so.
    pub after: String,
}

fn state(upgrade: &Upgrade) -> UpgradeState {
    UpgradeState {
        number: upgrade.number,
        method: upgrade.method,
        phase: upgrade.phase,
        is_cancelled: upgrade.is_cancelled,
        reason: upgrade.reason.clone(),
        nodes: upgrade.nodes.iter().map(node).collect(),
    }
}

fn node(node: &NodeUpgrade) -> NodeState {
    let doing = serde_json::to_value(node.doing).ok();
    let doing = doing.and_then(|doing| doing.as_str().map(str::to_owned));
    NodeState {
        node: node.node.clone(),
        phase: node.phase,
        doing: doing.filter(|_| node.phase == NodePhase::InProgress),
        reason: node.reason.clone(),
        before: node.before.clone(),
        after: node.after.clone(),
    }
}

/// Nodes are to be upgraded, one after another. The first one that fails ends that.
#[utoipa::path(
    post,
    path = "/v1/upgrade",
    request_body = UpgradeOrder,
    responses(
        (status = 202, description = "It has begun", body = UpgradeState),
        (status = 400, description = "The body cannot be read"),
        (status = 404, description = "There is no such node"),
        (
            status = 409,
            description = "An upgrade or a rollout is under way, or a node is not connected, or \
                           of a release that knows nothing of it",
        ),
        (status = 413, description = "The body is too long"),
    ),
)]
pub async fn begin(
    State(shared): State<Shared>,
    Text(text): Text,
) -> Result<(StatusCode, Json<UpgradeState>), Failure> {
    let UpgradeOrder { method, nodes } = body(&text)?;
    let begin = move |engine: &mut crate::engine::Engine| {
        engine.begin_upgrade(method, &nodes).map(|()| state(engine.upgrade()))
    };
    let begun = shared.handle.ask(begin).await?;
    let begun = begun.map_err(|error| match error {
        NotBegun::Unknown(_) => Failure::unknown(error),
        _ => Failure::conflict(error),
    });
    Ok((StatusCode::ACCEPTED, Json(begun?)))
}

/// How far the upgrade is, or what became of the last one.
#[utoipa::path(
    get,
    path = "/v1/upgrade",
    responses((status = 200, description = "How far it is", body = UpgradeState)),
)]
pub async fn get(State(shared): State<Shared>) -> Result<Json<UpgradeState>, Failure> {
    Ok(Json(shared.handle.ask(|engine| state(engine.upgrade())).await?))
}

/// The upgrade ends with the node that is in progress.
#[utoipa::path(
    delete,
    path = "/v1/upgrade",
    responses(
        (status = 200, description = "How far it is", body = UpgradeState),
        (status = 409, description = "None is under way"),
    ),
)]
pub async fn cancel(State(shared): State<Shared>) -> Result<Json<UpgradeState>, Failure> {
    let cancel = |engine: &mut crate::engine::Engine| {
        engine.cancel_upgrade().then(|| state(engine.upgrade()))
    };
    let cancelled = shared.handle.ask(cancel).await?;
    cancelled.map(Json).ok_or_else(|| Failure::conflict("no upgrade is under way"))
}
