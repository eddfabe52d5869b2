//! `/v1/n4`: one N4 for several nodes.

use axum::extract::State;
use weft_http::extract::Json;
use weft_http::problem::Failure;

use crate::api::state::Shared;
use crate::n4::N4View;

/// The nodes behind N4, with their sessions, and the control planes.
#[utoipa::path(
    get,
    path = "/v1/n4",
    responses(
        (status = 200, description = "N4", body = N4View),
        (status = 404, description = "This controller serves no N4"),
    ),
)]
pub async fn shown(State(shared): State<Shared>) -> Result<Json<N4View>, Failure> {
    // A replica that follows says who leads.
    shared.handle.ask(|_| ()).await?;
    let none = || Failure::unknown("this controller serves no N4: its file has no `n4`".to_owned());
    shared.n4.get().map(Json).ok_or_else(none)
}
