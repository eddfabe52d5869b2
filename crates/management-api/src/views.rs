//! `GET /v1/…`: what the node shows of itself.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State as Shared};
use weft_node::show::{ContextView, PeerView, Snapshot, UserView};

use crate::answer::Failure;
use crate::api::Page;
use crate::state::State;

/// Longest wait for a worker to say what its contexts hold.
pub(crate) const CONTEXTS: Duration = Duration::from_secs(2);

pub(crate) async fn snapshot(Shared(state): Shared<State>) -> Result<Json<Snapshot>, Failure> {
    Ok(Json(state.ask(|agent| agent.snapshot()).await?))
}

/// What is fused: micro-operations and machine code.
pub(crate) async fn fused(Shared(state): Shared<State>) -> Result<String, Failure> {
    state.ask(|agent| agent.fused()).await
}

pub(crate) async fn paths(Shared(state): Shared<State>) -> Result<String, Failure> {
    state.ask(|agent| agent.paths()).await
}

pub(crate) async fn peers(Shared(state): Shared<State>) -> Result<Json<Vec<PeerView>>, Failure> {
    Ok(Json(state.ask(|agent| agent.peers()).await?))
}

pub(crate) async fn users(
    Shared(state): Shared<State>,
    Query(page): Query<Page>,
) -> Result<Json<Vec<UserView>>, Failure> {
    let count = page.count.min(Page::MOST);
    Ok(Json(state.ask(move |agent| agent.users(page.first, count)).await?))
}

/// One user, with what its contexts hold.
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
    let shown = shown.await.ok().and_then(Result::ok).ok_or(Failure::stopped())?;
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
