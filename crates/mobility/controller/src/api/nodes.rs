//! `/v1/nodes`: the nodes.

use axum::extract::State;
use axum::http::StatusCode;
use weft_http::extract::{Json, Path, Text};
use weft_http::problem::Failure;
use weft_mobility_protocol::NodeId;
use weft_site::balance::Station;

use super::answer::refused;
use super::handovers::handover;
use super::state::{Shared, body};
use super::types::{
    About, DrainOrder, Gone, Handover, Load, Node, Rebalance, RebalanceOrder, Share,
};
use crate::engine::{NodeLoad, NodeView};
use crate::standing::Standing;

/// The controller itself.
#[utoipa::path(
    get,
    path = "/v1/controller",
    responses((status = 200, description = "Its name and version", body = About)),
)]
pub async fn controller(State(shared): State<Shared>) -> Json<About> {
    let (term, leader) = match shared.site.standing() {
        Standing::Alone => (None, None),
        Standing::Leads(term, _) => {
            (Some(term), shared.configuration.replica().map(|replica| replica.name.clone()))
        }
        Standing::Follows(leader) => {
            (leader.as_ref().map(|leader| leader.term), leader.map(|leader| leader.name))
        }
    };
    Json(About {
        name: shared.configuration.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        replica: shared.configuration.replica().map(|replica| replica.name.clone()),
        leader,
        term,
    })
}

/// The nodes, in the order of the configuration.
#[utoipa::path(
    get,
    path = "/v1/nodes",
    responses((status = 200, description = "The nodes", body = Vec<Node>)),
)]
pub async fn list(State(shared): State<Shared>) -> Result<Json<Vec<Node>>, Failure> {
    let nodes = shared.handle.ask(|engine| engine.nodes()).await?;
    Ok(Json(nodes.into_iter().map(|view| node(&shared, view)).collect()))
}

fn node(shared: &Shared, view: NodeView) -> Node {
    Node {
        name: view.name,
        number: view.number.0,
        address: view.address,
        connected: view.connected,
        last_heard: view.last_heard.map(|time| time.as_millis() as u64),
        incarnation: view.incarnation,
        successor: view.successor.map(|node| shared.name(node)),
        cordoned: view.cordoned,
        capacity: Some(view.capacity).filter(|capacity| *capacity > 0),
        load: view.load.map(load),
        version: Some(view.version).filter(|version| !version.is_empty()),
        registered: view.has_registered,
        expired: view.has_expired,
        users: view.users,
        moving: view.moving,
    }
}

fn load(said: NodeLoad) -> Load {
    Load {
        received: said.received,
        dropped: said.dropped,
        received_per_second: said.rates.map(|[received, _]| received),
        dropped_per_second: said.rates.map(|[_, dropped]| dropped),
        busy: said.busy,
    }
}

/// A node does not come back: its successor takes its users.
#[utoipa::path(
    post,
    path = "/v1/nodes/{name}/gone",
    params(("name" = String, Path, description = "The name of the node")),
    request_body = Gone,
    responses(
        (status = 200, description = "The nodes", body = Vec<Node>),
        (status = 400, description = "The body cannot be read"),
        (status = 404, description = "There is no such node"),
        (status = 413, description = "The body is too long"),
        (status = 503, description = "The successor is not connected, or the controller stops"),
    ),
)]
pub async fn gone(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    Text(text): Text,
) -> Result<Json<Vec<Node>>, Failure> {
    let Gone { successor } = body(&text)?;
    let (node, successor) = (shared.node(&name)?, shared.node(&successor)?);
    if node == successor {
        return Err(Failure::bad("a node cannot be its own successor"));
    }
    let told = shared.handle.ask(move |engine| engine.node_gone(node, successor)).await?;
    told.map_err(refused)?;
    list(State(shared)).await
}

/// A node takes no further users. Those that it has stay.
#[utoipa::path(
    put,
    path = "/v1/nodes/{name}/cordon",
    params(("name" = String, Path, description = "The name of the node")),
    responses(
        (status = 200, description = "The nodes", body = Vec<Node>),
        (status = 404, description = "There is no such node"),
    ),
)]
pub async fn cordon(
    State(shared): State<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Vec<Node>>, Failure> {
    let node = shared.node(&name)?;
    shared.handle.ask(move |engine| engine.cordon(node, true)).await?;
    list(State(shared)).await
}

/// A node takes users again.
#[utoipa::path(
    delete,
    path = "/v1/nodes/{name}/cordon",
    params(("name" = String, Path, description = "The name of the node")),
    responses(
        (status = 200, description = "The nodes", body = Vec<Node>),
        (status = 404, description = "There is no such node"),
    ),
)]
pub async fn uncordon(
    State(shared): State<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Vec<Node>>, Failure> {
    let node = shared.node(&name)?;
    shared.handle.ask(move |engine| engine.cordon(node, false)).await?;
    list(State(shared)).await
}

/// A node that had registered is one no longer.
#[utoipa::path(
    delete,
    path = "/v1/nodes/{name}",
    params(("name" = String, Path, description = "The name of the node")),
    responses(
        (status = 204, description = "It is not one of the nodes any more"),
        (status = 404, description = "There is no such node"),
        (status = 409, description = "It is connected, has users, or is in the file"),
    ),
)]
pub async fn remove(
    State(shared): State<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Failure> {
    let node = shared.node(&name)?;
    let removed = shared.handle.ask(move |engine| engine.remove_node(node)).await?;
    removed.map(|()| StatusCode::NO_CONTENT).map_err(Failure::conflict)
}

/// Cordons a node and hands its users over, each to the station that has the fewest then.
#[utoipa::path(
    post,
    path = "/v1/nodes/{name}/drain",
    params(("name" = String, Path, description = "The name of the node")),
    request_body = DrainOrder,
    responses(
        (status = 202, description = "An order for each station", body = Vec<Handover>),
        (status = 400, description = "The body cannot be read"),
        (status = 404, description = "There is no such node"),
        (status = 413, description = "The body is too long"),
        (status = 503, description = "No other node can take the users, or the controller stops"),
    ),
)]
pub async fn drain(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    Text(text): Text,
) -> Result<(StatusCode, Json<Vec<Handover>>), Failure> {
    let node = shared.node(&name)?;
    let DrainOrder { until_restart } = match text.is_empty() {
        true => DrainOrder::default(),
        false => body(&text)?,
    };
    let orders = shared.handle.ask(move |engine| engine.drain(node, until_restart)).await??;
    let orders = orders.into_iter().map(|order| handover(&shared, order)).collect();
    Ok((StatusCode::ACCEPTED, Json(orders)))
}

/// Hands users over so that all stations carry the same, as far as users are alike.
#[utoipa::path(
    post,
    path = "/v1/rebalance",
    request_body = RebalanceOrder,
    responses(
        (status = 202, description = "What stations carry, and the orders", body = Rebalance),
        (status = 400, description = "The body cannot be read"),
        (status = 413, description = "The body is too long"),
        (status = 503, description = "There are no two stations, or the controller stops"),
    ),
)]
pub async fn rebalance(
    State(shared): State<Shared>,
    Text(text): Text,
) -> Result<(StatusCode, Json<Rebalance>), Failure> {
    let RebalanceOrder { by, dry_run } = body(&text)?;
    let level = shared.handle.ask(move |engine| engine.level(by, dry_run)).await??;
    let share = |[before, then]: &[Station<NodeId>; 2]| Share {
        node: shared.name(before.key),
        users: before.users,
        load: before.load,
        users_then: then.users,
        load_then: then.load,
    };
    let answer = Rebalance {
        measure: level.measure,
        stations: level.stations.iter().map(share).collect(),
        orders: level.orders.into_iter().map(|order| handover(&shared, order)).collect(),
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
