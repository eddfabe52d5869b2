//! `POST /v1/take-over`: another process wants to have the node. `POST /v1/upgrade`: this process
//! starts one that does.

use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TrySendError;
use std::time::Duration;

use axum::extract::State as Shared;
use axum::http::StatusCode;
use tokio::sync::oneshot;
use weft_http::extract::Json;
use weft_http::problem::Failure;

use crate::api::{UpgradeSocket, Upgraded};
use crate::state::{State, stopped};
use crate::upgrades::{UpgradeRequest, Upgrades};

/// How long a new program may take until packets pass through it.
const UPGRADING: Duration = Duration::from_secs(150);

fn send(upgrades: &Upgrades, request: UpgradeRequest) -> Result<(), Failure> {
    upgrades.requests.try_send(request).map_err(|error| match error {
        TrySendError::Full(_) => {
            Failure::conflict("another process is taking the node over already")
        }
        TrySendError::Disconnected(_) => stopped(),
    })
}

fn upgrades(state: &State) -> Result<&Upgrades, Failure> {
    state.upgrades.get().ok_or_else(|| {
        Failure::new(
            StatusCode::NOT_FOUND,
            "only on the socket of a node that is a process of its own",
        )
    })
}

/// Lets another process have the node, by a conversation over the socket that is answered.
#[utoipa::path(
    post,
    path = "/v1/take-over",
    responses(
        (status = 200, description = "The process is waited for", body = UpgradeSocket),
        (status = 404, description = "Not on this address, or the node is no process of its own"),
        (status = 409, description = "Another process takes the node over already"),
    ),
)]
pub(crate) async fn take_over(
    Shared(state): Shared<State>,
) -> Result<Json<UpgradeSocket>, Failure> {
    let upgrades = upgrades(&state)?;
    let number = upgrades.numbers.fetch_add(1, Ordering::Relaxed);
    let path = upgrades.socket.with_extension(format!("take-over-{number}"));
    let broken = |error| {
        let detail = format!("socket {}: {error}", path.display());
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    };
    // What a dead process of this number has left.
    let _ = std::fs::remove_file(&path);
    // With the mode of the node's other socket, in the same folder.
    let listener = UnixListener::bind(&path).map_err(broken)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).map_err(broken)?;
    send(upgrades, UpgradeRequest::TakeOver(listener, path.clone()))?;
    Ok(Json(UpgradeSocket { socket: path.display().to_string() }))
}

/// Starts the program of the node anew, as it is installed now, with the arguments it had: that
/// takes the node over.
#[utoipa::path(
    post,
    path = "/v1/upgrade",
    responses(
        (status = 200, description = "Another process has the node", body = Upgraded),
        (status = 404, description = "Not on this address, or the node is no process of its own"),
        (status = 409, description = "It does not; the node goes on as it was"),
    ),
)]
pub(crate) async fn upgrade(Shared(state): Shared<State>) -> Result<Json<Upgraded>, Failure> {
    let (told, outcome) = oneshot::channel();
    send(upgrades(&state)?, UpgradeRequest::Start(told))?;
    match tokio::time::timeout(UPGRADING, outcome).await {
        Ok(Ok(outcome)) => outcome.map(Json).map_err(Failure::conflict),
        _ => Err(stopped()),
    }
}
