//! Connections: accepted as long as there are places, and ended when they take too long.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::{Error, Router};
use hyper::Request;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::permits::{ConnectionPermit, ConnectionPermits, Limits};
use crate::problem::Failure;
use crate::tls::{Greeted, Identity};

/// Connections at once. Each may take [`HEAD_BYTES`] of memory and some more.
const LIMITS: Limits = Limits { all: 64, of_source: 32 };

/// How long the head of a request may take, and the greeting before it.
const HEAD: Duration = Duration::from_secs(5);

/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// Pause after a connection could not be accepted, for example because the
/// process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves on a Unix socket.
pub async fn serve_local(listener: UnixListener, app: Router) {
    let places = ConnectionPermits::new(LIMITS);
    loop {
        let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
        let app = app.clone();
        let connection = |place| serve(stream, app, place, Afterwards::Idle);
        places.admit(None, connection).await;
    }
}

/// Serves over TCP, one request a connection. No connection keeps its place longer than
/// `longest`, since every host of the network may open one. With an identity, only clients
/// that speak TLS are served.
pub async fn serve_remote(
    listener: TcpListener,
    identity: Option<Identity>,
    app: Router,
    longest: Duration,
) {
    let places = ConnectionPermits::new(LIMITS);
    loop {
        let Some((stream, from)) = accepted(listener.accept().await).await else { continue };
        let (app, identity) = (app.clone(), identity.clone());
        let connection = |place| async move {
            // A connection that takes longer ends without an answer.
            let _ = tokio::time::timeout(longest, greet(stream, identity, app, place)).await;
        };
        places.admit(Some(from.ip()), connection).await;
    }
}

async fn greet(
    stream: TcpStream,
    identity: Option<Identity>,
    app: Router,
    place: Arc<ConnectionPermit>,
) {
    let Some(identity) = identity else {
        return serve(stream, app, place, Afterwards::Ended).await;
    };
    match tokio::time::timeout(HEAD, identity.greet(stream)).await {
        Ok(Ok(Greeted::Secure(stream))) => serve(*stream, app, place, Afterwards::Ended).await,
        Ok(Ok(Greeted::Plain(stream))) => {
            let refuse = Router::new().fallback(refuse);
            serve(stream, refuse, place, Afterwards::Ended).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
        Err(_) => tracing::debug!("a connection was not greeted in time"),
    }
}

/// Answers a client that does not speak TLS where it is spoken.
async fn refuse() -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, "TLS is spoken here: use https://")
}

async fn accepted<C>(accepted: io::Result<C>) -> Option<C> {
    match accepted {
        Ok(connection) => Some(connection),
        Err(error) => {
            tracing::debug!(%error, "a connection was not accepted");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

/// What a connection is behind its first answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    /// Ended.
    Ended,
    /// Idle, until the next request.
    Idle,
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    app: Router,
    place: Arc<ConnectionPermit>,
    afterwards: Afterwards,
) {
    let app = TowerToHyperService::new(app);
    let answer = |request: Request<Incoming>| {
        let answering = Answering::begin(place.clone(), afterwards);
        let answered = app.call(request);
        async move {
            let response = answered.await?;
            let answer = |body| ResponseBody { body, _until_sent: answering };
            Ok::<Response<ResponseBody>, Infallible>(response.map(answer))
        }
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(afterwards == Afterwards::Idle)
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A connection is busy until this is dropped.
struct Answering {
    place: Arc<ConnectionPermit>,
    afterwards: Afterwards,
}

impl Answering {
    fn begin(place: Arc<ConnectionPermit>, afterwards: Afterwards) -> Answering {
        place.busy();
        Answering { place, afterwards }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // A connection that ends still has to send what is written, so it stays busy.
        if self.afterwards == Afterwards::Idle {
            self.place.idle();
        }
    }
}

/// The body of an answer, during which the connection is busy.
struct ResponseBody {
    body: Body,
    _until_sent: Answering,
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
