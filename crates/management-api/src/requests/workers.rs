//! `POST /v1/workers`: so many workers of a node have threads of their own.

use std::time::Duration;

use axum::extract::State as Shared;
use weft_http::extract::Json;
use weft_http::problem::Failure;

use super::configuration::LOOK_EVERY;
use crate::api::{WorkersOrder, WorkersRun};
use crate::state::State;

/// How long an answer waits until workers are where they are to run: a thread that a function
/// occupies comes to it later.
const GOING_OVER: Duration = Duration::from_secs(2);

/// Parks workers at threads of others, or gives them their own again, while packets pass.
#[utoipa::path(
    post,
    path = "/v1/workers",
    request_body = WorkersOrder,
    responses(
        (status = 200, description = "Workers run so", body = WorkersRun),
        (status = 400, description = "The body is not JSON"),
        (status = 409, description = "The node has fewer workers, or they have no threads"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is not announced as JSON"),
        (status = 422, description = "The body is not an order"),
    ),
)]
pub(crate) async fn park(
    Shared(state): Shared<State>,
    Json(WorkersOrder { threads }): Json<WorkersOrder>,
) -> Result<Json<WorkersRun>, Failure> {
    state.ask(move |agent| agent.park_workers(threads)).await?.map_err(Failure::conflict)?;
    let mut waited = Duration::ZERO;
    loop {
        let (threads, settled) = state.ask(|agent| agent.threads_of_workers()).await?;
        if settled || waited >= GOING_OVER {
            return Ok(Json(WorkersRun { threads, settled }));
        }
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
}
