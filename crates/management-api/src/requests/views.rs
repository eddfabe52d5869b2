//! `GET /v1/…`: what the node shows of itself.

use std::time::Duration;

use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use weft_bgp::{BgpView, Watch};
use weft_http::extract::{Json, Path, Query};
use weft_http::problem::Failure;
use weft_node::StateView;
use weft_node::show::{
    BearerView, ContextView, DedicatedView, ExtendedView, NeighbourView, PeerView, Snapshot,
    TopologyView, UserView,
};
use weft_pfcp::user_plane::show::{PfcpView, SessionView};

use crate::api::Page;
use crate::state::{State, stopped};

/// Longest wait for a worker to say what its contexts hold.
pub(crate) const CONTEXTS: Duration = Duration::from_secs(2);

/// All that the node counts, since its start.
#[utoipa::path(
    get,
    path = "/v1/snapshot",
    responses(
        (status = 200, description = "The counters", body = Snapshot),
        (status = 304, description = "Beside a page: the client's copy is still right"),
    ),
)]
pub(crate) async fn snapshot(
    Shared(state): Shared<State>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    match state.snapshot_of_late() {
        Some(answer) => Ok(answer.answer(&headers)),
        None => Ok(Json(state.snapshot().await?).into_response()),
    }
}

/// What the drivers of ports count, by their own names; of the last second.
#[utoipa::path(
    get,
    path = "/v1/ports/extended",
    responses((status = 200, description = "The counters", body = Vec<ExtendedView>)),
)]
pub(crate) async fn extended(
    Shared(state): Shared<State>,
) -> Result<Json<Vec<ExtendedView>>, Failure> {
    Ok(Json(state.extended_of_late().await?))
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

/// What the node keeps on its disk, and how far that is; `null` where it keeps nothing.
#[utoipa::path(
    get,
    path = "/v1/state",
    responses((status = 200, description = "The state", body = Option<StateView>)),
)]
pub(crate) async fn kept(Shared(state): Shared<State>) -> Result<Json<Option<StateView>>, Failure> {
    Ok(Json(state.ask(|agent| agent.state_view()).await?))
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

/// The node as a graph: ports, functions, and the rules between them.
#[utoipa::path(
    get,
    path = "/v1/topology",
    responses((status = 200, description = "The graph", body = TopologyView)),
)]
pub(crate) async fn topology(Shared(state): Shared<State>) -> Result<Json<TopologyView>, Failure> {
    Ok(Json(state.ask(|agent| agent.topology()).await?))
}

/// The neighbours on the links of the ports: as far as ARP and neighbour discovery know.
#[utoipa::path(
    get,
    path = "/v1/neighbours",
    responses((status = 200, description = "At most 10,000 neighbours", body = Vec<NeighbourView>)),
)]
pub(crate) async fn neighbours(
    Shared(state): Shared<State>,
) -> Result<Json<Vec<NeighbourView>>, Failure> {
    Ok(Json(state.ask(|agent| agent.neighbours(Page::MOST)).await?))
}

/// Networks that are announced by BGP, and the routers that are told of them.
#[utoipa::path(
    get,
    path = "/v1/bgp",
    responses(
        (status = 200, description = "Networks and routers", body = BgpView),
        (status = 404, description = "No router is told of networks"),
    ),
)]
pub(crate) async fn bgp(Shared(state): Shared<State>) -> Result<Json<BgpView>, Failure> {
    let speaker = state.bgp.get().map(Watch::view);
    let missing = || Failure::new(StatusCode::NOT_FOUND, "the configuration has no `bgp`");
    speaker.map(Json).ok_or_else(missing)
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

/// Users, in the order of the configuration, and behind them PFCP sessions in no order.
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
    let users = state.ask(move |agent| match &page.search {
        None => agent.users(page.first, count),
        Some(text) => agent.search_users(text, page.first, count),
    });
    Ok(Json(users.await?))
}

/// One user, with what its contexts hold.
#[utoipa::path(
    get,
    path = "/v1/users/{name}",
    params(("name" = String, Path, description = "The name of the user, or the address of a session")),
    responses(
        (status = 200, description = "The user", body = UserView),
        (status = 404, description = "There is no such user"),
    ),
)]
pub(crate) async fn user(
    Shared(state): Shared<State>,
    Path(name): Path<String>,
) -> Result<Json<UserView>, Failure> {
    let asked =
        state.ask(move |agent| agent.contexts_of(&name).ok_or_else(|| agent.no_user(&name)));
    let (mut view, waiting) = asked.await?.map_err(Failure::unknown)?;
    let shown = tokio::task::spawn_blocking(move || waiting.recv_timeout(CONTEXTS));
    let shown = shown.await.ok().and_then(Result::ok).ok_or(stopped())?;
    view.contexts = contexts(shown);
    Ok(Json(view))
}

/// The ways of one user's packets through the rules, one for each port.
#[utoipa::path(
    get,
    path = "/v1/users/{name}/ways",
    params(("name" = String, Path, description = "The name of the user, or the address of a session")),
    responses(
        (status = 200, description = "The ways, as `weft show paths` prints them", body = String),
        (status = 404, description = "There is no such user"),
    ),
)]
pub(crate) async fn ways(
    Shared(state): Shared<State>,
    Path(name): Path<String>,
) -> Result<String, Failure> {
    let unknown = Failure::unknown(format!("no user {name}"));
    state.ask(move |agent| agent.ways_of_user(&name)).await?.ok_or(unknown)
}

/// The dedicated bearers of one user.
#[utoipa::path(
    get,
    path = "/v1/users/{name}/bearers",
    params(("name" = String, Path, description = "The name of the user, or the address of a session")),
    responses(
        (status = 200, description = "The bearers", body = Vec<DedicatedView>),
        (status = 404, description = "There is no such user"),
    ),
)]
pub(crate) async fn bearers(
    Shared(state): Shared<State>,
    Path(name): Path<String>,
) -> Result<Json<Vec<DedicatedView>>, Failure> {
    let unknown = Failure::unknown(format!("no user {name}"));
    let bearers = state.ask(move |agent| agent.bearers_of_user(&name)).await?;
    Ok(Json(bearers.ok_or(unknown)?))
}

/// What is searched for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Search {
    /// An address, TEID, SPI, or the number of a bearer.
    text: String,
}

/// Bearers that commands have added: the default bearers that packets with this address, TEID
/// or SPI belong to, and the bearer of that number.
#[utoipa::path(
    get,
    path = "/v1/bearer-search",
    params(Search),
    responses(
        (status = 200, description = "The bearers", body = Vec<BearerView>),
        (status = 400, description = "The query cannot be read"),
    ),
)]
pub(crate) async fn bearer_search(
    Shared(state): Shared<State>,
    Query(Search { text }): Query<Search>,
) -> Result<Json<Vec<BearerView>>, Failure> {
    Ok(Json(state.ask(move |agent| agent.search_bearers(&text)).await?))
}

/// What contexts hold, as it is sent.
pub(crate) fn contexts(shown: Vec<(String, Vec<(&'static str, u64)>)>) -> Vec<ContextView> {
    let context = |(function, values): (String, Vec<(&str, u64)>)| {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        ContextView { function, values }
    };
    shown.into_iter().map(context).collect()
}

#[cfg(test)]
mod tests {
    use weft_dataplane::counters::DropReason;
    use weft_functions::KINDS;

    /// What the page says about drops.
    const ADVICE: &str = include_str!("../../../page/assets/script/node/advice.js");

    #[test]
    fn the_page_has_advice_for_every_reason() {
        let own = DropReason::ALL.iter().map(|(_, reason)| reason.name);
        for name in own.chain(["rx_missed", "rx_errors"]) {
            let has = [format!(" {name}: "), format!("\n  {name}: ")]
                .iter()
                .any(|key| ADVICE.contains(key));
            assert!(has, "`{name}` is no key of ADVICE in advice.js");
        }
        let families: Vec<_> =
            ADVICE.split("  [\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(families.len() > 10);
        for reason in KINDS.iter().flat_map(|kind| kind.reasons()) {
            let name = reason.name;
            let has = families.iter().any(|family| name.starts_with(family))
                || ADVICE.contains(&format!(" {name}: "));
            assert!(has, "`{name}` belongs to no family of advice.js");
        }
    }
}
