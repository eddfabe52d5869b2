//! The server: claimed before anything else is, then run in a thread of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use weft_http::connection::{Persistence, serve_local, serve_remote};
use weft_http::problem::Failure;
use weft_http::socket::{Claim, Refused};
use weft_http::tls::{Identity, TlsError};
use weft_mobility_transport::{Token, TokenError};
use weft_page::PageError;

use super::leader;
use super::routes;
use super::state::{Pace, Shared};
use crate::config::{Configuration, Tls};
use crate::engine::Handle;
use crate::members::Members;
use crate::n4::N4Shown;
use crate::standing::Site;

/// How long a connection over TCP may last: those who listen to events come again.
const REMOTE: Duration = Duration::from_secs(3600);
/// Paths that cost the controller nothing, however often they are asked for.
const READY: [&str; 2] = ["/v1/controller", "/v1/openapi.json"];
/// Other requests a second of the page, of all clients together: some count all users.
const RATE: f64 = 20.0;
/// Clients that listen to events.
const WATCHERS: usize = 16;

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket belongs to a controller that runs.
    #[error("another controller named {name} is running (socket {})", .socket.display())]
    Running {
        /// Its name.
        name: String,
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
    /// The address cannot be used.
    #[error("API address {address}: {reason}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        reason: io::Error,
    },
    /// The page cannot be served.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The token cannot be had.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The machine has no thread for it.
    #[error("no thread to serve in: {0}")]
    Thread(io::Error),
}

/// The places of the API, taken but not served yet.
#[derive(Debug)]
pub struct Listening {
    claim: Claim,
    local: UnixListener,
    remote: Option<Remote>,
    page: Option<weft_page::Listening>,
}

/// The place over TCP.
#[derive(Debug)]
struct Remote {
    listener: TcpListener,
    token: Token,
    identity: Option<Identity>,
}

impl Listening {
    /// Takes the controller's socket, the address over TCP, and that of the page.
    ///
    /// # Errors
    /// [`ServeError`], above all when a controller of that name runs already.
    pub fn claim(
        configuration: &Configuration,
        socket: PathBuf,
        page: Option<&weft_page::Options>,
    ) -> Result<Listening, ServeError> {
        let (claim, local) = Claim::take(&socket).map_err(|refused| match refused {
            Refused::InUse => ServeError::Running { name: configuration.name.clone(), socket },
            Refused::Io(reason) => ServeError::Socket { socket, reason },
        })?;
        let remote = match &configuration.api {
            None => None,
            Some(api) => {
                let address = api.listen;
                let token = Token::load(&api.token_file)?;
                let load = |tls: &Tls| Identity::load(&tls.certificate, &tls.key);
                let identity = api.tls.as_ref().map(load).transpose()?;
                let listener = TcpListener::bind(address)
                    .map_err(|reason| ServeError::Address { address, reason })?;
                Some(Remote { listener, token, identity })
            }
        };
        let page = page.map(weft_page::Listening::claim).transpose()?;
        Ok(Listening { claim, local, remote, page })
    }

    /// Serves the API until [`Serving::stop`].
    ///
    /// # Errors
    /// [`ServeError::Thread`], [`ServeError::Page`].
    pub fn serve(
        self,
        handle: Handle,
        configuration: Arc<Configuration>,
        members: Members,
        site: Site,
        n4: N4Shown,
    ) -> Result<Serving, ServeError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(ServeError::Thread)?;
        let Listening { claim, local, remote, page } = self;
        let address = remote.as_ref().and_then(|remote| remote.listener.local_addr().ok());
        let (stop, stopped) = oneshot::channel();
        let watchers = Arc::new(Semaphore::new(WATCHERS));
        let pace = Pace::default();
        let shared = Shared { handle, watchers, configuration, members, site, n4, pace };
        let url = page.as_ref().and_then(weft_page::Listening::url);
        let serve_page = |page: weft_page::Listening| {
            page.serve(weft_page::Api {
                kind: weft_page::Kind::Controller,
                routes: served(&shared),
                ready: &READY,
                rate: RATE,
                runtime: runtime.handle().clone(),
            })
        };
        let page = page.map(serve_page).transpose()?;
        let thread = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || run(runtime, local, remote, &shared, stopped))
            .map_err(ServeError::Thread)?;
        Ok(Serving { claim, address, url, page, stop, thread })
    }
}

/// An API that is served.
#[derive(Debug)]
pub struct Serving {
    claim: Claim,
    address: Option<SocketAddr>,
    url: Option<String>,
    page: Option<weft_page::Serving>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Serving {
    /// The controller's socket.
    pub fn socket(&self) -> &Path {
        self.claim.path()
    }

    /// Where it is served over TCP, with the port that the system chose where 0
    /// was asked for.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where the page is found.
    pub fn page(&self) -> Option<&str> {
        self.url.as_deref()
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

fn run(
    runtime: Runtime,
    local: UnixListener,
    remote: Option<Remote>,
    shared: &Shared,
    stopped: oneshot::Receiver<()>,
) {
    let started = runtime.block_on(async {
        local.set_nonblocking(true)?;
        let local = tokio::net::UnixListener::from_std(local)?;
        let mut serving = JoinSet::new();
        serving.spawn(serve_local(local, served(shared)));
        if let Some(Remote { listener, token, identity }) = remote {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let token = Arc::new(token);
            let known = served(shared).layer(from_fn_with_state(token, authorised));
            let terms = (Persistence::OneRequest, REMOTE);
            serving.spawn(serve_remote(listener, identity, known, terms));
        }
        // A task that serves ends by a panic only, and the thread with it.
        tokio::select! {
            _ = stopped => {}
            _ = serving.join_next() => {}
        }
        io::Result::Ok(())
    });
    if let Err(error) = started {
        tracing::error!(%error, "the API cannot be served");
    }
    runtime.shutdown_background();
}

/// All routes; what only the leader can answer is sent there.
fn served(shared: &Shared) -> Router {
    let routes = routes::all().layer(from_fn_with_state(shared.clone(), leader::follow));
    routes.with_state(shared.clone())
}

/// Lets requests with the token through, and probes.
async fn authorised(State(token): State<Arc<Token>>, request: Request, next: Next) -> Response {
    let said = request.headers().get(AUTHORIZATION).and_then(|said| {
        let (scheme, said) = said.as_bytes().split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(said)
    });
    let is_probe = leader::PROBES.contains(&request.uri().path());
    if is_probe || said.is_some_and(|said| token.is(said)) {
        return next.run(request).await;
    }
    Failure::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong").into_response()
}
