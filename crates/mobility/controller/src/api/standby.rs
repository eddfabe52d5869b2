//! `/v1/pairs`: nodes of which one stands by the other.

use axum::extract::State;
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

fn shown(view: PairView) -> Pair {
    let PairView { owner, standby, epoch, owner_heard, standby_heard, whole } = view;
    Pair { owner, standby, epoch, owner_heard, standby_heard, whole }
}
