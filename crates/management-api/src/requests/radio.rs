//! `/v1/radio`: where users' radios are, as the control plane of a base station says it.

use axum::extract::State as Shared;
use weft_http::extract::Json;
use weft_http::problem::Failure;
use weft_node::mobility::{RadioError, User};

use crate::api::{RadioNoted, RadioOrder};
use crate::state::State;

/// Radios have left this station, or have arrived: those of all users that are named, or
/// of none.
#[utoipa::path(
    post,
    path = "/v1/radio",
    request_body = RadioOrder,
    responses(
        (status = 200, description = "Noted", body = RadioNoted),
        (status = 400, description = "The body is not JSON"),
        (status = 404, description = "A user is not one of this node"),
        (status = 409, description = "The node is no station that takes part in handovers"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is not announced as JSON"),
        (status = 422, description = "The body is not an order"),
    ),
)]
pub(crate) async fn note(
    Shared(state): Shared<State>,
    Json(RadioOrder { radio, users }): Json<RadioOrder>,
) -> Result<Json<RadioNoted>, Failure> {
    let users: Vec<User> = users.into_iter().map(User).collect();
    let count = users.len();
    let noted = state.ask(move |agent| agent.note_radios(radio, &users)).await?;
    noted.map(|()| Json(RadioNoted { users: count })).map_err(|error| match error {
        RadioError::NoStation | RadioError::Upgrading => Failure::conflict(error),
        RadioError::NoUser(_) => Failure::unknown(error),
    })
}
