//! `GET /v1/live`, `/v1/history`, `/v1/events`: what a page and `weft top` show, which is
//! gathered once a second for all of them ([`crate::live`]).

use std::time::Duration;

use axum::extract::State as Shared;
use axum::http::HeaderMap;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use serde::Deserialize;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::watch::Receiver;
use utoipa::IntoParams;
use weft_http::extract::Query;
use weft_http::pieces::Pieces;
use weft_http::problem::Failure;
use weft_node::bearer::Event;

use crate::live::{Look, ModelView, Past};
use crate::state::State;

/// Looks that wait for a connection: one that reads too slowly misses looks.
const PIECES: usize = 2;
/// How long a client may take to read a look.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells once a second what the node does, as server-sent events (the HTML standard, section
/// 9.2), until the client goes.
#[utoipa::path(
    get,
    path = "/v1/live",
    responses(
        (
            status = 200,
            description = "Events `look`, each with its JSON as `data`",
            body = Look,
            content_type = "text/event-stream",
        ),
        (status = 429, description = "Too many clients listen already"),
    ),
)]
pub(crate) async fn live(Shared(state): Shared<State>) -> Result<Response, Failure> {
    let place = state.listener()?;
    let looks = state.live.listen();
    let (sender, receiver) = channel(PIECES);
    tokio::spawn(async move {
        pass(looks, sender).await;
        drop(place);
    });
    let pieces = Pieces(receiver).answer("text/event-stream");
    Ok(([(CACHE_CONTROL, "no-store")], pieces).into_response())
}

/// Passes looks on until the client or the node has gone.
async fn pass(mut looks: Receiver<Bytes>, sender: Sender<Bytes>) {
    // So that the client sees that it is heard, and comes again after a second.
    let mut piece = Bytes::from_static(b"retry: 1000\n\n");
    while sender.send_timeout(piece, PATIENCE).await.is_ok() {
        if looks.changed().await.is_err() {
            return;
        }
        piece = looks.borrow_and_update().clone();
    }
}

/// Whose past is asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Of {
    /// A port or a function; the node where none is given.
    of: Option<String>,
}

/// The last quarter of an hour of the node, of a port or of a function.
#[utoipa::path(
    get,
    path = "/v1/history",
    params(Of),
    responses(
        (status = 200, description = "A value for each second", body = Past),
        (status = 304, description = "The client's copy is still right"),
        (status = 400, description = "The query cannot be read"),
        (status = 404, description = "There is no such port or function"),
    ),
)]
pub(crate) async fn history(
    Shared(state): Shared<State>,
    Query(Of { of }): Query<Of>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let past = state.live.past_answer(of.as_deref());
    let none = || Failure::unknown(format!("no port or function {}", of.unwrap_or_default()));
    Ok(past.ok_or_else(none)?.answer(&headers))
}

/// What the model says that the node could carry, beside what it carries: from costs that the
/// node has counted in the last ten seconds, or those of its calibration, and its load.
#[utoipa::path(
    get,
    path = "/v1/model",
    responses(
        (status = 200, description = "The prediction", body = ModelView),
        (status = 304, description = "The client's copy is still right"),
    ),
)]
pub(crate) async fn model(Shared(state): Shared<State>, headers: HeaderMap) -> Response {
    state.live.model_answer().answer(&headers)
}

/// The last events of bearers and GTP-U peers, oldest first, as far as the node has looked.
#[utoipa::path(
    get,
    path = "/v1/events",
    responses(
        (status = 200, description = "At most 256 events", body = Vec<Event>),
        (status = 304, description = "The client's copy is still right"),
    ),
)]
pub(crate) async fn events(Shared(state): Shared<State>, headers: HeaderMap) -> Response {
    state.live.events_answer().answer(&headers)
}
