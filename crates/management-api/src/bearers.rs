//! `/v1/bearers`: bearers that come and go by commands, and `/v1/events`: what
//! they tell.

use std::sync::mpsc::RecvTimeoutError;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, State as Shared};
use axum::http::StatusCode;
use serde::Deserialize;
use tokio::runtime;
use tokio::sync::mpsc::channel;
use weft_node::bearer::{BearerId, BearersChanged, WrittenCommand};
use weft_node::show::BearerView;

use crate::answer::Failure;
use crate::api::Page;
use crate::state::State;
use crate::views::{CONTEXTS, contexts};
use crate::watch::{Out, Over, PIECES, Pieces, QUIET};

/// Events that go into one piece of the answer.
const BATCH: usize = 64;

/// Which bearers are asked for.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct From {
    /// The lowest number.
    first: u64,
    /// How many; at most [`Page::MOST`] are given.
    count: usize,
}

impl Default for From {
    fn default() -> From {
        From { first: 0, count: Page::default().count }
    }
}

/// `POST /v1/bearers`: commands, one JSON object on each line, applied whole or
/// not at all.
pub(crate) async fn change(
    Shared(state): Shared<State>,
    text: String,
) -> Result<Json<BearersChanged>, Failure> {
    let commands = tokio::task::spawn_blocking(move || read(&text));
    let commands = commands.await.map_err(|_| Failure::stopped())?.map_err(Failure::bad)?;
    let changed = state.ask(move |agent| agent.change_written(&commands)).await?;
    let changed = changed.map_err(|error| Failure::new(StatusCode::CONFLICT, error))?;
    Ok(Json(changed))
}

/// Reads commands; what is wrong with the first that cannot be read.
fn read(text: &str) -> Result<Vec<WrittenCommand>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))
    };
    lines.map(read).collect()
}

/// `GET /v1/bearers`: bearers that commands have added, by number.
pub(crate) async fn list(
    Shared(state): Shared<State>,
    Query(From { first, count }): Query<From>,
) -> Result<Json<Vec<BearerView>>, Failure> {
    let count = count.min(Page::MOST);
    Ok(Json(state.ask(move |agent| agent.bearers(BearerId(first), count)).await?))
}

/// `GET /v1/bearers/{id}`: one bearer, with what its contexts hold.
pub(crate) async fn one(
    Shared(state): Shared<State>,
    Path(id): Path<u64>,
) -> Result<Json<BearerView>, Failure> {
    let unknown = Failure::unknown(format!("no command has added a bearer {id}"));
    let asked = state.ask(move |agent| agent.bearer(BearerId(id))).await?;
    let (mut view, shown) = asked.ok_or(unknown)?;
    let waiting = tokio::task::spawn_blocking(move || shown.recv_timeout(CONTEXTS));
    let shown = waiting.await.ok().and_then(Result::ok).ok_or(Failure::stopped())?;
    view.contexts = contexts(shown);
    Ok(Json(view))
}

/// `POST /v1/events`: what bearers tell from now on, one JSON object on each
/// line, until the client goes.
pub(crate) async fn events(Shared(state): Shared<State>) -> Result<Body, Failure> {
    let place = state.watchers.clone().try_acquire_owned().map_err(|_| {
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "too many traces, captures and listeners")
    })?;
    let events = state.ask(|agent| agent.listen()).await?;
    let (sender, receiver) = channel(PIECES);
    let out = Out { sender, runtime: runtime::Handle::current() };
    tokio::task::spawn_blocking(move || -> Result<(), Over> {
        let _place = place;
        loop {
            let first = match events.recv_timeout(QUIET) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => {
                    out.check()?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let mut piece = Vec::new();
            for event in std::iter::once(first).chain(events.try_iter().take(BATCH - 1)) {
                // Writing to memory cannot fail.
                let _ = serde_json::to_writer(&mut piece, &event);
                piece.push(b'\n');
            }
            out.send(piece)?;
        }
    });
    Ok(Body::new(Pieces(receiver)))
}
