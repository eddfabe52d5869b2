//! The server of one node: claimed before the node is built, then run in a
//! thread of its own until it is stopped.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use weft_bgp::Watch;
use weft_compose::Kind;
use weft_http::connection::{self, Persistence};
use weft_http::socket::{Claim, Refused};
use weft_model::Calibration;
use weft_node::Handle;
use weft_page::PageError;
use weft_pfcp::ServerHandle;

use crate::live::Live;
use crate::requests::function_move::Moves;
use crate::routes;
use crate::state::{Readiness, State};
use crate::upgrades::{Starter, UpgradeRequest, Upgrades};

/// How long a connection over TCP may last.
const REMOTE: Duration = Duration::from_secs(10);

/// Paths that cost the agent nothing, however often they are asked for.
const READY: [&str; 7] = [
    "/v1/live",
    "/v1/snapshot",
    "/v1/history",
    "/v1/model",
    "/v1/events",
    "/v1/function-moves",
    "/v1/openapi.json",
];

/// Other requests a second of the page, of all clients together.
const RATE: f64 = 50.0;

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
    /// Where and for whom the page is served.
    pub page: Option<weft_page::Options>,
    /// Functions that a configuration may use.
    pub kinds: &'static [Kind],
    /// What packets cost on this machine, for the model.
    pub calibration: Option<Calibration>,
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
    /// The page cannot be served.
    #[error(transparent)]
    Page(#[from] PageError),
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
    page: Option<weft_page::Listening>,
    node: String,
    kinds: &'static [Kind],
    calibration: Option<Calibration>,
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
        let page = options.page.as_ref().map(weft_page::Listening::claim).transpose()?;
        let (node, kinds) = (options.node.clone(), options.kinds);
        let calibration = options.calibration.clone();
        Ok(Listening { claim, local, metrics, page, node, kinds, calibration })
    }

    /// The address where metrics will be served, with the port that the system
    /// chose where 0 was asked for.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// Where the page will be found.
    pub fn page(&self) -> Option<String> {
        self.page.as_ref()?.url()
    }

    /// Serves the node behind `handle` until [`Serving::stop`].
    ///
    /// # Errors
    /// [`ControlError::Thread`], [`ControlError::Page`].
    pub fn serve(self, handle: Handle) -> Result<Serving, ControlError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING_THREADS)
            .build()
            .map_err(ControlError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let Listening { claim, local, metrics, page, node, kinds, calibration } = self;
        let moves = Arc::new(Moves::new(&node));
        let listed = moves.clone();
        let live = Live::new(handle.clone(), Box::new(move || listed.views()), calibration);
        let state = State::new(handle, kinds, live.clone());
        let (pfcp, upgrades) = (state.pfcp.clone(), state.upgrades.clone());
        let (readiness, bgp) = (state.readiness.clone(), state.bgp.clone());
        let api = routes::all(&moves, state.clone());
        let serve_page = |page: weft_page::Listening| {
            live.begin();
            page.serve(weft_page::Api {
                kind: weft_page::Kind::Node,
                routes: routes::all(&moves, state.for_many()),
                ready: &READY,
                rate: RATE,
                runtime: runtime.handle().clone(),
            })
        };
        let page = page.map(serve_page).transpose()?;
        let thread = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || serve(runtime, (local, api), metrics, state, stopped))
            .map_err(ControlError::Thread)?;
        Ok(Serving { claim, page, stop, thread, pfcp, bgp, readiness, upgrades })
    }
}

/// A node that is served.
#[derive(Debug)]
pub struct Serving {
    claim: Claim,
    page: Option<weft_page::Serving>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    pfcp: Arc<OnceLock<ServerHandle>>,
    bgp: Arc<OnceLock<Watch>>,
    readiness: Arc<OnceLock<Readiness>>,
    upgrades: Arc<OnceLock<Upgrades>>,
}

impl Serving {
    /// Shows what this server of control planes does.
    pub fn show_pfcp(&self, server: ServerHandle) {
        // A second one is not shown.
        let _ = self.pfcp.set(server);
    }

    /// Shows what is announced by BGP.
    pub fn show_bgp(&self, speaker: Watch) {
        // A second one is not shown.
        let _ = self.bgp.set(speaker);
    }

    /// `GET /readyz` says that the node is not ready while `reason` gives one.
    pub fn ready_unless(&self, reason: impl Fn() -> Option<&'static str> + Send + Sync + 'static) {
        // The first one counts.
        let _ = self.readiness.set(Readiness(Box::new(reason)));
    }

    /// Tells of other processes that are to have the node, from now on; with what those ask by
    /// that are in this one.
    pub fn upgrades(&self) -> (Receiver<UpgradeRequest>, Starter) {
        let (requests, receiver) = sync_channel(1);
        let (socket, numbers) = (self.socket().to_owned(), AtomicU64::new(0));
        let starter = Starter::new(requests.clone());
        // One who asks again is told nothing.
        let _ = self.upgrades.set(Upgrades { socket, requests, numbers });
        (receiver, starter)
    }

    /// The node's socket.
    pub fn socket(&self) -> &Path {
        self.claim.path()
    }

    /// The thread that serves, if it has ended by itself.
    pub fn dead(&self) -> Option<&'static str> {
        let page = self.page.as_ref().and_then(weft_page::Serving::dead);
        page.or_else(|| self.thread.is_finished().then_some("control"))
    }

    /// Ends all connections and gives the socket back.
    pub fn stop(self) {
        if let Some(page) = self.page {
            page.stop();
        }
        // The thread may have ended by itself.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn serve(
    runtime: Runtime,
    (local, api): (UnixListener, Router),
    metrics: Option<TcpListener>,
    state: State,
    stopped: oneshot::Receiver<()>,
) {
    let started = runtime.block_on(async {
        local.set_nonblocking(true)?;
        let local = tokio::net::UnixListener::from_std(local)?;
        let mut serving = JoinSet::new();
        serving.spawn(connection::serve_local(local, api));
        if let Some(metrics) = metrics {
            metrics.set_nonblocking(true)?;
            let metrics = tokio::net::TcpListener::from_std(metrics)?;
            serving.spawn(connection::serve_remote(
                metrics,
                None,
                routes::metrics_and_probes(state),
                (Persistence::OneRequest, REMOTE),
            ));
        }
        // A task that serves ends by a panic only, and the thread with it.
        tokio::select! {
            _ = stopped => {}
            _ = serving.join_next() => {}
        }
        io::Result::Ok(())
    });
    if let Err(error) = started {
        tracing::error!(%error, "the node cannot be served");
    }
    // Threads that wait for the agent end with the node.
    runtime.shutdown_background();
}
