//! `/v1/radio`: where users' radios are, as the control plane of a base station says it.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use weft_node::handover::{RadioError, User};

use crate::answer::Failure;
use crate::api::{RadioNoted, RadioOrder};
use crate::state::State;

/// `POST /v1/radio`: radios have left this station, or have arrived; of all the users
/// that are named, or of none.
pub(crate) async fn note(
    Shared(state): Shared<State>,
    Json(RadioOrder { radio, users }): Json<RadioOrder>,
) -> Result<Json<RadioNoted>, Failure> {
    let users: Vec<User> = users.into_iter().map(User).collect();
    let count = users.len();
    let noted = state.ask(move |agent| agent.note_radios(radio, &users)).await?;
    noted.map(|()| Json(RadioNoted { users: count })).map_err(|error| match error {
        RadioError::NoStation => Failure::new(StatusCode::CONFLICT, error),
        RadioError::NoUser(_) => Failure::unknown(error),
    })
}
