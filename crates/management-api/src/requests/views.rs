//! `GET /v1/…`: what the node shows of itself.

use std::time::Duration;

use axum::extract::State as Shared;
use weft_http::extract::{Json, Path, Query};
use weft_http::problem::Failure;
use weft_node::show::{ContextView, PeerView, Snapshot, UserView};
use weft_pfcp::user_plane::show::{PfcpView, SessionView};

use crate::api::Page;
use crate::state::{State, stopped};

/// Longest wait for a worker to say what its contexts hold.
pub(crate) const CONTEXTS: Duration = Duration::from_secs(2);

/// All that the node counts, since its start.
#[utoipa::path(
    get,
    path = "/v1/snapshot",
    responses((status = 200, description = "The counters", body = Snapshot)),
)]
pub(crate) async fn snapshot(Shared(state): Shared<State>) -> Result<Json<Snapshot>, Failure> {
    Ok(Json(state.ask(|agent| agent.snapshot()).await?))
}

/// What is fused: micro-operations and machine code.
#[utoipa::path(
    get,
    path = "/v1/fused",
    responses((status = 200, description = "The fused functions", body = String)),
)]
pub(crate) async fn fused(Shared(state): Shared<State>) -> Result<String, Failure> {
    state.ask(|agent| agent.fused()).await
}

/// The compiled paths, as text.
#[utoipa::path(
    get,
    path = "/v1/paths",
    responses((status = 200, description = "The paths", body = String)),
)]
pub(crate) async fn paths(Shared(state): Shared<State>) -> Result<String, Failure> {
    state.ask(|agent| agent.paths()).await
}

/// The GTP-U peers.
#[utoipa::path(
    get,
    path = "/v1/peers",
    responses((status = 200, description = "The peers", body = Vec<PeerView>)),
)]
pub(crate) async fn peers(Shared(state): Shared<State>) -> Result<Json<Vec<PeerView>>, Failure> {
    Ok(Json(state.ask(|agent| agent.peers()).await?))
}

/// Control planes that drive the node by PFCP, and the messages between them and it.
#[utoipa::path(
    get,
    path = "/v1/pfcp",
    responses(
        (status = 200, description = "Associations and counts", body = PfcpView),
        (status = 404, description = "No control plane drives the node"),
    ),
)]
pub(crate) async fn pfcp(Shared(state): Shared<State>) -> Result<Json<PfcpView>, Failure> {
    Ok(Json(state.ask_pfcp(|server| server.view()).await?))
}

/// Some of the sessions of control planes.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    params(Page),
    responses(
        (status = 200, description = "Sessions, in no order", body = Vec<SessionView>),
        (status = 400, description = "The query cannot be read"),
        (status = 404, description = "No control plane drives the node"),
    ),
)]
pub(crate) async fn sessions(
    Shared(state): Shared<State>,
    Query(page): Query<Page>,
) -> Result<Json<Vec<SessionView>>, Failure> {
    let count = page.count.min(Page::MOST);
    Ok(Json(state.ask_pfcp(move |server| server.sessions(page.first, count)).await?))
}

/// Users, in the order of the configuration.
#[utoipa::path(
    get,
    path = "/v1/users",
    params(Page),
    responses(
        (status = 200, description = "A page of users", body = Vec<UserView>),
        (status = 400, description = "The query cannot be read"),
    ),
)]
pub(crate) async fn users(
    Shared(state): Shared<State>,
    Query(page): Query<Page>,
) -> Result<Json<Vec<UserView>>, Failure> {
    let count = page.count.min(Page::MOST);
    Ok(Json(state.ask(move |agent| agent.users(page.first, count)).await?))
}

/// One user, with what its contexts hold.
#[utoipa::path(
    get,
    path = "/v1/users/{name}",
    params(("name" = String, Path, description = "The name of the user")),
    responses(
        (status = 200, description = "The user", body = UserView),
        (status = 404, description = "There is no such user"),
    ),
)]
pub(crate) async fn user(
    Shared(state): Shared<State>,
    Path(name): Path<String>,
) -> Result<Json<UserView>, Failure> {
    let unknown = Failure::unknown(format!("no user {name}"));
    let asked = state.ask(move |agent| {
        let (at, contexts) = agent.contexts_of(&name)?;
        Some((agent.users(at, 1).pop()?, contexts))
    });
    let (mut view, waiting) = asked.await?.ok_or(unknown)?;
    let shown = tokio::task::spawn_blocking(move || waiting.recv_timeout(CONTEXTS));
    let shown = shown.await.ok().and_then(Result::ok).ok_or(stopped())?;
    view.contexts = contexts(shown);
    Ok(Json(view))
}

/// What contexts hold, as it is sent.
pub(crate) fn contexts(shown: Vec<(String, Vec<(&'static str, u64)>)>) -> Vec<ContextView> {
    let context = |(function, values): (String, Vec<(&str, u64)>)| {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        ContextView { function, values }
    };
    shown.into_iter().map(context).collect()
}
