//! `/v1/pairs`: nodes of which one stands by the other.

use axum::extract::{Path, State};
use weft_http::extract::Json;
use weft_http::problem::Failure;

use super::state::Shared;
use super::types::Pair;
use crate::engine::PairView;

/// The pairs, in the order of the configuration.
#[utoipa::path(
    get,
    path = "/v1/pairs",
    responses((status = 200, description = "The pairs", body = Vec<Pair>)),
)]
pub async fn list(State(shared): State<Shared>) -> Result<Json<Vec<Pair>>, Failure> {
    let pairs = shared.handle.ask(|engine| engine.pairs()).await?;
    Ok(Json(pairs.into_iter().map(shown).collect()))
}

/// A node that owns the users of a pair gives them to its standby, with all contexts, and ends.
/// The answer comes before it has done so.
#[utoipa::path(
    post,
    path = "/v1/pairs/{name}/switch-over",
    params(("name" = String, Path, description = "The name of the node that owns the users")),
    responses(
        (status = 200, description = "The pairs", body = Vec<Pair>),
        (status = 404, description = "There is no such node"),
        (status = 409, description = "The node does not own users that its standby can have"),
    ),
)]
pub async fn switch_over(
    State(shared): State<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Vec<Pair>>, Failure> {
    let node = shared.node(&name)?;
    let told = shared.handle.ask(move |engine| engine.switch_over(node)).await?;
    told.map_err(|why| Failure::conflict(format!("{name}: {why}")))?;
    list(State(shared)).await
}

fn shown(view: PairView) -> Pair {
    let PairView { owner, standby, epoch, owner_heard, standby_heard, whole, built } = view;
    Pair { owner, standby, epoch, owner_heard, standby_heard, whole, built }
}
