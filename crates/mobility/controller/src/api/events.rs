//! `GET /v1/events`: what happens, as server-sent events (the HTML standard,
//! section 9.2).

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{Sender, channel};
use weft_http::pieces::Pieces;
use weft_http::problem::Failure;

use super::state::Shared;
use crate::engine::{Happening, Watcher};

/// Pieces that wait for a client.
const PIECES: usize = 64;
/// Events of one piece.
const BATCH: usize = 64;
/// After so long without an event a comment is sent, by which a client that has
/// gone is noticed.
const QUIET: Duration = Duration::from_secs(10);

/// Tells what happens from now on, as server-sent events, until the client goes.
#[utoipa::path(
    get,
    path = "/v1/events",
    responses(
        (
            status = 200,
            description = "Events, each with its JSON as `data`; `missed` tells how many a slow \
                           reader has missed",
            body = Happening,
            content_type = "text/event-stream",
        ),
        (status = 429, description = "Too many clients listen already"),
    ),
)]
pub async fn events(State(shared): State<Shared>) -> Result<Response, Failure> {
    let place = shared.watchers.clone().try_acquire_owned();
    let too_many = |_| Failure::new(StatusCode::TOO_MANY_REQUESTS, "too many listen already");
    let place = place.map_err(too_many)?;
    let watcher = shared.handle.ask(|engine| engine.watch()).await?;
    let (sender, receiver) = channel(PIECES);
    tokio::spawn(async move {
        pass(watcher, sender).await;
        drop(place);
    });
    let pieces = Pieces(receiver).answer("text/event-stream");
    Ok(([(CACHE_CONTROL, "no-store")], pieces).into_response())
}

/// Passes events on until the client or the controller has gone.
async fn pass(mut watcher: Watcher, sender: Sender<Bytes>) {
    // So that the client sees that it is heard.
    let mut piece = ": events\n\n".to_owned();
    loop {
        if !piece.is_empty() && sender.send(std::mem::take(&mut piece).into()).await.is_err() {
            return;
        }
        match tokio::time::timeout(QUIET, watcher.recv()).await {
            Err(_) => piece.push_str(":\n\n"),
            Ok(Err(RecvError::Closed)) => return,
            Ok(Err(RecvError::Lagged(missed))) => piece.push_str(&lag(missed)),
            Ok(Ok(happening)) => {
                piece.push_str(&event(&happening));
                for _ in 1..BATCH {
                    // Whatever else there is, the next turn says it.
                    let Ok(happening) = watcher.try_recv() else { break };
                    piece.push_str(&event(&happening));
                }
            }
        }
    }
}

fn event(happening: &Happening) -> String {
    // Texts and numbers: there is nothing that JSON could not say.
    let data = serde_json::to_string(happening).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", happening.number, happening.event)
}

fn lag(missed: u64) -> String {
    format!("event: missed\ndata: {{\"missed\":{missed}}}\n\n")
}
