//! Functions move to another node, or come back: `/v1/functions/NAME/move` asks for it,
//! `/v1/function-moves` is where the other node's messages come.
//!
//! The machines of [`weft_mobility_protocol::function_move`] decide; here they are given what
//! comes, and what they ask for is done: by the agent, by timers, and by messages over the other
//! node's control socket. All of it goes on when the client that asked has gone.

mod coordinator;
pub(crate) mod participant;
mod pieces;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_mobility_protocol::function_move::{
    Coordinator, Destination, MoveKey, Order, OrderOutcome, Outcome, Participant, Settings,
};
use weft_mobility_protocol::{Epoch, Incarnation, NodeId};
use weft_node::Agent;
use weft_node::contexts::NotCarried;
use weft_node_config::Composition;

use self::coordinator::{Coordinating, Record};
use self::participant::Serving;
use crate::api::{FunctionMove, FunctionMoved};
use crate::state::{State, stopped};
use weft_http::extract::{Json, Path};
use weft_http::problem::Failure;

/// How long an answer waits for a move that is under way.
const WAIT: Duration = Duration::from_secs(20);

/// Functions on their way from this node, and to it.
pub(crate) struct Moves {
    coordinating: Mutex<Coordinating>,
    serving: Mutex<Serving>,
    /// A move has ended.
    changed: watch::Sender<()>,
}

impl Moves {
    pub fn new(node: &str) -> Moves {
        let (node, life) = (number(node), Incarnation(RandomState::new().hash_one(()) as u32 | 1));
        let settings = Settings::default();
        // Epochs rise with the clock from one life of a node to the next.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let first = Epoch(u64::try_from(since.as_micros()).unwrap_or(1).max(1));
        let coordinator = Coordinator::new(node, life, first, settings);
        Moves {
            coordinating: Mutex::new(Coordinating::new(coordinator)),
            serving: Mutex::new(Serving::new(Participant::new(node, life, settings))),
            changed: watch::Sender::new(()),
        }
    }

    fn coordinating(&self) -> MutexGuard<'_, Coordinating> {
        self.coordinating.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node, and the functions on their way from and to it, as requests about moves see them.
#[derive(Clone)]
pub(crate) struct Context {
    node: State,
    moves: Arc<Moves>,
}

impl Deref for Context {
    type Target = State;

    fn deref(&self) -> &State {
        &self.node
    }
}

impl FromRequestParts<State> for Context {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, node: &State) -> Result<Context, Failure> {
        let moves = parts.extensions.get::<Arc<Moves>>().cloned().ok_or_else(stopped)?;
        Ok(Context { node: node.clone(), moves })
    }
}

/// The number of a node, from its name (FNV-1a).
fn number(name: &str) -> NodeId {
    let step = |hash: u32, octet: u8| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193);
    NodeId(name.bytes().fold(0x811c_9dc5, step).max(1))
}

/// Timers of moves, the latest of each.
#[derive(Default)]
struct Timers {
    next: u64,
    running: HashMap<MoveKey, u64>,
}

impl Timers {
    fn set(&mut self, key: MoveKey) -> u64 {
        self.next += 1;
        self.running.insert(key, self.next);
        self.next
    }

    fn cancel(&mut self, key: &MoveKey) {
        self.running.remove(key);
    }

    /// Whether this one fires: no other was set since.
    fn fires(&mut self, key: &MoveKey, number: u64) -> bool {
        let fires = self.running.get(key) == Some(&number);
        if fires {
            self.running.remove(key);
        }
        fires
    }
}

/// Asks the agent; why not is a reason like any other.
async fn ask<T: Send + 'static>(
    state: &Context,
    question: impl FnOnce(&mut Agent) -> T + Send + 'static,
) -> Result<T, String> {
    state.ask(question).await.map_err(|failure| failure.reason().to_owned())
}

/// Moves a function to another node or back. The node goes on with the move when the client has
/// gone; the same request again joins the move that is under way.
#[utoipa::path(
    post,
    path = "/v1/functions/{name}/move",
    params(("name" = String, Path, description = "The name of the function")),
    request_body = FunctionMove,
    responses(
        (status = 200, description = "The move has ended, or is still under way", body = FunctionMoved),
        (status = 400, description = "The body is not JSON, or the other node is not named"),
        (status = 404, description = "There is no such function"),
        (status = 409, description = "The function stays where it is"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is not announced as JSON"),
        (status = 422, description = "The body is not an order"),
    ),
)]
pub(crate) async fn begin(
    state: Context,
    Path(function): Path<String>,
    Json(request): Json<FunctionMove>,
) -> Result<Json<FunctionMoved>, Failure> {
    let destination = match request.composition {
        Composition::Remote => Destination::Peer,
        _ => Destination::Here,
    };
    if destination == Destination::Peer && request.peer.is_none() {
        return Err(Failure::bad("a function that goes to another node needs its `peer`"));
    }
    let name = function.clone();
    let named = state.ask(move |agent| agent.contexts_named(&name).map(|(kind, _)| kind)).await?;
    let kind = named.map_err(unknown)?.to_owned();
    let order = Order { destination, peer: request.peer.clone(), kind };
    order_move(&state, &function, request, order)?;
    wait(&state, &function).await
}

fn order_move(
    state: &Context,
    function: &str,
    request: FunctionMove,
    order: Order,
) -> Result<(), Failure> {
    let refuse = |what: &str| Err(Failure::conflict(format!("`{function}` {what}")));
    let mut own = state.moves.coordinating();
    let last = own.records.get(function);
    let is_same = last.is_some_and(|last| last.request == request);
    if last.is_some_and(|last| last.result.is_none()) {
        return if is_same { Ok(()) } else { refuse("is on its way already; ask again later") };
    }
    let destination = order.destination;
    let mut out = Vec::new();
    match own.machine.order(function, order, &mut out) {
        OrderOutcome::Begun => {
            own.records.insert(function.to_owned(), Record::new(request));
            own.carry_out(state, out);
        }
        OrderOutcome::Done if !is_same => {
            let here = destination == Destination::Here;
            return refuse(if here { "is at this node" } else { "is at the other node" });
        }
        OrderOutcome::Done => own.finish_again(state, function),
        OrderOutcome::Joined | OrderOutcome::Busy => {}
    }
    Ok(())
}

/// Waits for the end of the last move of a function.
#[utoipa::path(
    get,
    path = "/v1/functions/{name}/move",
    params(("name" = String, Path, description = "The name of the function")),
    responses(
        (status = 200, description = "The move has ended, or is still under way", body = FunctionMoved),
        (status = 404, description = "The function has not moved"),
        (status = 409, description = "The function stays where it was"),
    ),
)]
pub(crate) async fn outcome(
    state: Context,
    Path(function): Path<String>,
) -> Result<Json<FunctionMoved>, Failure> {
    wait(&state, &function).await
}

async fn wait(state: &Context, function: &str) -> Result<Json<FunctionMoved>, Failure> {
    let mut changed = state.moves.changed.subscribe();
    let until = Instant::now() + WAIT;
    loop {
        let step = {
            let own = state.moves.coordinating();
            let record = own.records.get(function);
            let never = || Failure::unknown(format!("`{function}` has not moved"));
            match &record.ok_or_else(never)?.result {
                Some(Ok(moved)) => return Ok(Json(moved.clone())),
                Some(Err(reason)) => return Err(Failure::conflict(reason)),
                None => match own.machine.outcome(function) {
                    Some(Outcome::Moving(state)) => state.name().to_owned(),
                    _ => "Composing".to_owned(),
                },
            }
        };
        if tokio::time::timeout_at(until, changed.changed()).await.is_err() {
            return Ok(Json(FunctionMoved::Moving { step }));
        }
    }
}

fn unknown(error: NotCarried) -> Failure {
    match error {
        NotCarried::Unknown(_) => Failure::unknown(error),
        _ => Failure::conflict(error),
    }
}
