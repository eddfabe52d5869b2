//! `/v1/nodes`: the nodes.

use axum::Json;
use axum::extract::{Path, State};

use super::answer::Failure;
use super::shared::Shared;
use super::types::{Gone, Node};
use crate::engine::NodeView;

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
        users: view.users,
        moving: view.moving,
    }
}

pub async fn gone(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    body: String,
) -> Result<Json<Vec<Node>>, Failure> {
    let Gone { successor } = super::shared::body(&body)?;
    let (node, successor) = (shared.node(&name)?, shared.node(&successor)?);
    if node == successor {
        return Err(Failure::bad("a node cannot be its own successor"));
    }
    shared.handle.ask(move |engine| engine.node_gone(node, successor)).await??;
    list(State(shared)).await
}
