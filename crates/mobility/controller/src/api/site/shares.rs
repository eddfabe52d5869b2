//! `/v1/shares`: where the shares of nodes behind N4 are.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use weft_http::extract::Json;
use weft_http::problem::Failure;

use super::super::state::Shared;
use crate::engine::NotMoved;
use crate::shares::ShareView;

/// The shares, in the order of the nodes behind N4.
#[utoipa::path(
    get,
    path = "/v1/shares",
    responses((status = 200, description = "The shares", body = Vec<ShareView>)),
)]
pub async fn list(State(shared): State<Shared>) -> Result<Json<Vec<ShareView>>, Failure> {
    Ok(Json(shared.handle.ask(|engine| engine.shares()).await?))
}

/// The share at a node goes to a spare node, with all PFCP sessions. The answer comes before it
/// has done so.
#[utoipa::path(
    post,
    path = "/v1/shares/{name}/move",
    params(("name" = String, Path, description = "The name of the node that has the share")),
    responses(
        (status = 202, description = "The shares", body = Vec<ShareView>),
        (status = 404, description = "No share is at a node of that name"),
        (status = 409, description = "It cannot move now"),
    ),
)]
pub async fn move_share(
    State(shared): State<Shared>,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<Vec<ShareView>>), Failure> {
    let moved =
        move |engine: &mut crate::engine::Engine| engine.move_share(&name).map(|_| engine.shares());
    match shared.handle.ask(moved).await? {
        Ok(shares) => Ok((StatusCode::ACCEPTED, Json(shares))),
        Err(none @ NotMoved::None(_)) => Err(Failure::unknown(none.to_string())),
        Err(why) => Err(Failure::conflict(why)),
    }
}
