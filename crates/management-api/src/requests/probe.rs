//! `GET /healthz` and `GET /readyz`: what an orchestrator asks to learn whether the process is to
//! be started again, and whether others may rely on it (Kubernetes, liveness and readiness probes).

use axum::extract::State as Shared;
use axum::http::StatusCode;
use weft_http::problem::Failure;

use crate::state::State;

/// What is answered where nothing is wrong.
const WELL: &str = "ok\n";

/// Whether the control thread of the node answers. Threads that process packets are watched by
/// the node itself, which ends when one of them hangs.
#[utoipa::path(
    get,
    path = "/healthz",
    responses((status = 200, description = "The node answers", body = String)),
)]
pub(crate) async fn healthz(Shared(state): Shared<State>) -> Result<&'static str, Failure> {
    state.ask(|_| ()).await?;
    Ok(WELL)
}

/// Whether the node does all that it was started for: it answers, and where a controller moves
/// its users, it is connected with one.
#[utoipa::path(
    get,
    path = "/readyz",
    responses(
        (status = 200, description = "The node does what it was started for", body = String),
        (status = 503, description = "It does not yet, or no longer: why"),
    ),
)]
pub(crate) async fn readyz(Shared(state): Shared<State>) -> Result<&'static str, Failure> {
    state.ask(|_| ()).await?;
    match state.readiness.get().and_then(|readiness| (readiness.0)()) {
        Some(reason) => Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, reason)),
        None => Ok(WELL),
    }
}
