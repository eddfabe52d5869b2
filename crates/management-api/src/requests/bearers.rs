//! `/v1/bearers`: bearers that come and go by commands, and `/v1/events`: what
//! they tell.

use std::sync::mpsc::RecvTimeoutError;

use axum::extract::State as Shared;
use axum::http::header::LINK;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::runtime;
use tokio::sync::mpsc::channel;
use utoipa::IntoParams;
use weft_http::extract::{Json, Path, Query, Text};
use weft_http::pieces::{JSON_LINES, Pieces};
use weft_http::problem::Failure;
use weft_node::bearer::{BearerId, BearersChanged, Event, WrittenCommand};
use weft_node::show::BearerView;

use super::views::{CONTEXTS, contexts};
use crate::api::Page;
use crate::json_lines;
use crate::state::{State, stopped};
use crate::watch::{Out, Over, PIECES, QUIET};

/// Events that go into one piece of the answer.
const BATCH: usize = 64;

/// Which bearers are asked for: a page of them, in the order of their numbers.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Bearers {
    /// Only bearers whose numbers are greater: the last number of the page before.
    after: Option<u64>,
    /// Only bearers from this number on.
    #[param(default = 0)]
    first: u64,
    /// Bearers that the page holds; at most 10,000 are given.
    #[serde(alias = "count")]
    #[param(default = 100, maximum = 10_000)]
    limit: usize,
}

impl Default for Bearers {
    fn default() -> Bearers {
        Bearers { after: None, first: 0, limit: Page::default().count }
    }
}

impl Bearers {
    /// The lowest number that is asked for, if there can be one.
    fn lowest(&self) -> Option<BearerId> {
        let after = self.after.map_or(Some(0), |after| after.checked_add(1))?;
        Some(BearerId(after.max(self.first)))
    }
}

/// Adds, changes and removes bearers: one JSON object on each line, applied whole or not
/// at all.
#[utoipa::path(
    post,
    path = "/v1/bearers",
    request_body(content = WrittenCommand, content_type = "application/jsonl"),
    responses(
        (status = 200, description = "Applied", body = BearersChanged),
        (status = 400, description = "A line is no command"),
        (status = 409, description = "A command cannot be applied"),
        (status = 413, description = "The body is too long"),
        (status = 507, description = "Applied, and not durable yet: the disk refuses"),
    ),
)]
pub(crate) async fn change(
    Shared(state): Shared<State>,
    Text(text): Text,
) -> Result<Json<BearersChanged>, Failure> {
    let commands = tokio::task::spawn_blocking(move || json_lines::read(&text));
    let commands = commands.await.map_err(|_| stopped())?.map_err(Failure::bad)?;
    let changed = state.ask_durable(move |agent| agent.change_written(&commands)).await?;
    let changed = changed.map_err(Failure::conflict)?;
    Ok(Json(changed))
}

/// Lists bearers that commands have added, in the order of their numbers.
///
/// Where more follow, the header `Link` names the next page (RFC 8288).
#[utoipa::path(
    get,
    path = "/v1/bearers",
    params(Bearers),
    responses(
        (
            status = 200,
            description = "A page of bearers",
            body = Vec<BearerView>,
            headers(("link" = Option<String>, description = "The next page: `<URL>; rel=\"next\"`")),
        ),
        (status = 400, description = "The query cannot be read"),
    ),
)]
pub(crate) async fn list(
    Shared(state): Shared<State>,
    Query(page): Query<Bearers>,
) -> Result<Response, Failure> {
    let limit = page.limit.min(Page::MOST);
    let Some(lowest) = page.lowest() else {
        return Ok(Json(Vec::<BearerView>::new()).into_response());
    };
    // One more shows whether there is a next page.
    let mut views = state.ask(move |agent| agent.bearers(lowest, limit + 1)).await?;
    let more = views.len() > limit;
    views.truncate(limit);
    let last = views.last().map(|view| view.id).filter(|_| more);
    let next =
        last.map(|id| [(LINK, format!("</v1/bearers?after={id}&limit={limit}>; rel=\"next\""))]);
    Ok((next, Json(views)).into_response())
}

/// One bearer that a command has added, with what its contexts hold.
#[utoipa::path(
    get,
    path = "/v1/bearers/{id}",
    params(("id" = u64, Path, description = "The number of the bearer")),
    responses(
        (status = 200, description = "The bearer", body = BearerView),
        (status = 400, description = "That is not a number"),
        (status = 404, description = "No command has added such a bearer"),
    ),
)]
pub(crate) async fn one(
    Shared(state): Shared<State>,
    Path(id): Path<u64>,
) -> Result<Json<BearerView>, Failure> {
    let unknown = Failure::unknown(format!("no command has added a bearer {id}"));
    let asked = state.ask(move |agent| agent.bearer(BearerId(id))).await?;
    let (mut view, shown) = asked.ok_or(unknown)?;
    let waiting = tokio::task::spawn_blocking(move || shown.recv_timeout(CONTEXTS));
    let shown = waiting.await.ok().and_then(Result::ok).ok_or(stopped())?;
    view.contexts = contexts(shown);
    Ok(Json(view))
}

/// Tells what happens to bearers and GTP-U peers from now on, one JSON object on each
/// line, until the client goes.
#[utoipa::path(
    post,
    path = "/v1/events",
    responses(
        (
            status = 200,
            description = "Events, one a line, without an end",
            body = Event,
            content_type = "application/jsonl",
        ),
        (status = 429, description = "Too many traces, captures and listeners"),
    ),
)]
pub(crate) async fn events(Shared(state): Shared<State>) -> Result<Response, Failure> {
    let place = state.watcher()?;
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
    Ok(Pieces(receiver).answer(JSON_LINES))
}
