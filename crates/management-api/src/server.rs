//! The server of one node: claimed before the node is built, then run in a
//! thread of its own until it is stopped.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use weft_compose::Kind;
use weft_http::connection;
use weft_http::socket::{Claim, Refused};
use weft_node::Handle;

use crate::answer::Failure;
use crate::state::State;
use crate::{bearers, capture, configuration, function_move, metrics, radio, trace, views};

/// Longest body of a request: that of a configuration file.
const BODY_BYTES: usize = 4 << 20;

/// How long a request may take until its answer begins.
const ANSWER: Duration = Duration::from_secs(30);

/// How long a connection over TCP may last.
const REMOTE: Duration = Duration::from_secs(10);

/// Threads that wait for the agent.
const WAITING_THREADS: usize = 16;

/// Where a node is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the node.
    pub node: String,
    /// The node's socket; see [`socket_path`](crate::socket_path).
    pub socket: PathBuf,
    /// Where metrics are served beside the socket.
    pub metrics: Option<SocketAddr>,
    /// Functions that a configuration may use.
    pub kinds: &'static [Kind],
}

/// Why a node cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket belongs to a node that runs.
    #[error("another node named {node} is running (socket {})", .socket.display())]
    Running {
        /// Name of the node.
        node: String,
        /// Its socket.
        socket: PathBuf,
    },
    /// The socket cannot be made.
    #[error("socket {}: {reason}", .socket.display())]
    Socket {
        /// Its path.
        socket: PathBuf,
        /// What is wrong.
        reason: io::Error,
    },
    /// The address for metrics cannot be used.
    #[error("metrics address {address}: {reason}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        reason: io::Error,
    },
    /// The machine has no thread for it.
    #[error("no thread to serve in: {0}")]
    Thread(io::Error),
}

/// A node's places, taken but not served yet.
#[derive(Debug)]
pub struct Listening {
    claim: Claim,
    local: UnixListener,
    metrics: Option<TcpListener>,
    node: String,
    kinds: &'static [Kind],
}

impl Listening {
    /// Takes the node's socket, and the address for metrics.
    ///
    /// # Errors
    /// [`ControlError`], above all when a node of that name runs already.
    pub fn claim(options: &Options) -> Result<Listening, ControlError> {
        let socket = options.socket.clone();
        let (claim, local) = Claim::take(&options.socket).map_err(|refused| match refused {
            Refused::InUse => ControlError::Running { node: options.node.clone(), socket },
            Refused::Io(reason) => ControlError::Socket { socket, reason },
        })?;
        let listen = |address: SocketAddr| {
            TcpListener::bind(address).map_err(|reason| ControlError::Metrics { address, reason })
        };
        let metrics = options.metrics.map(listen).transpose()?;
        let node = options.node.clone();
        Ok(Listening { claim, local, metrics, node, kinds: options.kinds })
    }

    /// The address where metrics will be served, with the port that the system
    /// chose where 0 was asked for.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// Serves the node behind `handle` until [`Serving::stop`].
    ///
    /// # Errors
    /// [`ControlError::Thread`].
    pub fn serve(self, handle: Handle) -> Result<Serving, ControlError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING_THREADS)
            .build()
            .map_err(ControlError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let Listening { claim, local, metrics, node, kinds } = self;
        let state = State::new(&node, handle, kinds);
        let thread = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || serve(runtime, local, metrics, state, stopped))
            .map_err(ControlError::Thread)?;
        Ok(Serving { claim, stop, thread })
    }
}

/// A node that is served.
#[derive(Debug)]
pub struct Serving {
    claim: Claim,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Serving {
    /// The node's socket.
    pub fn socket(&self) -> &Path {
        self.claim.path()
    }

    /// Ends all connections and gives the socket back.
    pub fn stop(self) {
        // The thread may have ended by itself.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn serve(
    runtime: Runtime,
    local: UnixListener,
    metrics: Option<TcpListener>,
    state: State,
    stopped: oneshot::Receiver<()>,
) {
    let started = runtime.block_on(async {
        local.set_nonblocking(true)?;
        let local = tokio::net::UnixListener::from_std(local)?;
        tokio::spawn(connection::serve_local(local, whole_api(state.clone())));
        if let Some(metrics) = metrics {
            metrics.set_nonblocking(true)?;
            let metrics = tokio::net::TcpListener::from_std(metrics)?;
            tokio::spawn(connection::serve_remote(metrics, None, metrics_only(state), REMOTE));
        }
        let _ = stopped.await;
        io::Result::Ok(())
    });
    if let Err(error) = started {
        tracing::error!(%error, "the node cannot be served");
    }
    // Threads that wait for the agent end with the node.
    runtime.shutdown_background();
}

fn whole_api(state: State) -> Router {
    let api = Router::new()
        .route("/v1/snapshot", get(views::snapshot))
        .route("/v1/paths", get(views::paths))
        .route("/v1/peers", get(views::peers))
        .route("/v1/fused", get(views::fused))
        .route("/v1/users", get(views::users))
        .route("/v1/users/{name}", get(views::user))
        .route("/v1/bearers", get(bearers::list).post(bearers::change))
        .route("/v1/bearers/{id}", get(bearers::one))
        .route("/v1/events", post(bearers::events))
        .route("/v1/configuration", post(configuration::apply))
        .route("/v1/functions/{name}", post(configuration::compose))
        .route("/v1/functions/{name}/move", get(function_move::outcome).post(function_move::begin))
        .route("/v1/function-moves", post(function_move::message))
        .route("/v1/radio", post(radio::note))
        .route("/v1/trace", post(trace::trace))
        .route("/v1/capture", post(capture::capture));
    bounded(api, state)
}

fn metrics_only(state: State) -> Router {
    bounded(Router::new(), state)
}

fn bounded(api: Router<State>, state: State) -> Router {
    api.route("/metrics", get(metrics::metrics))
        .fallback(async || Failure::unknown("there is nothing here"))
        .layer(from_fn(in_bounds))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(state)
}

/// Refuses a request that says itself that it is too long, and gives up one
/// that takes too long.
async fn in_bounds(request: Request, next: Next) -> Response {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.and_then(|length| length.parse().ok()).unwrap_or(0) > BODY_BYTES {
        let reason = format!("more than {BODY_BYTES} bytes");
        return Failure::new(StatusCode::PAYLOAD_TOO_LARGE, reason).into_response();
    }
    match tokio::time::timeout(ANSWER, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Failure::new(StatusCode::REQUEST_TIMEOUT, "took too long").into_response(),
    }
}
