//! Connections: accepted as long as there are places, and ended when they take too long.

pub mod permits;
mod stream;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::{Error, Router};
use hyper::Request;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use self::permits::{ConnectionPermit, ConnectionPermits, Limits};
use self::stream::ClientStream;
use crate::problem::Failure;
use crate::tls::{Greeted, Identity};

/// Connections at once. Each may take [`HEAD_BYTES`] of memory and some more.
const LIMITS: Limits = Limits { all: 64, of_source: 32 };

/// How long the head of a request may take, the greeting before it, and the pause between two
/// requests of a connection.
const HEAD: Duration = Duration::from_secs(5);

/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// Pause after a connection could not be accepted, for example because the
/// process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a client over TCP may take nothing of what waits for it. The kernel lets a server
/// write again when a third of the buffer is free, so a client cannot stretch this octet by
/// octet.
const UNREAD: Duration = Duration::from_secs(10);

/// Requests of one connection that lasts: a client that wants more connects again, and takes
/// its turn among those that wait for a place.
const MOST_REQUESTS: u32 = 1000;

/// How many requests a connection over TCP may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// One: the connection ends with its answer.
    OneRequest,
    /// One after another (RFC 9112 §9.3), at most 1,000, with at most 5 s between them.
    ManyRequests,
}

/// What a connection may do.
#[derive(Clone, Copy)]
struct Terms {
    /// Requests that it may carry.
    requests: u32,
    /// How long its client may take nothing of what is written.
    unread: Option<Duration>,
}

/// Who opens the socket is trusted, and may stop a capture for a while to look at it.
const LOCAL: Terms = Terms { requests: u32::MAX, unread: None };

impl From<Persistence> for Terms {
    fn from(persistence: Persistence) -> Terms {
        let requests = match persistence {
            Persistence::OneRequest => 1,
            Persistence::ManyRequests => MOST_REQUESTS,
        };
        Terms { requests, unread: Some(UNREAD) }
    }
}

/// Serves on a Unix socket.
pub async fn serve_local(listener: UnixListener, app: Router) {
    let places = ConnectionPermits::new(LIMITS);
    loop {
        let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
        let app = app.clone();
        let connection = |place| serve(stream, app, place, LOCAL);
        places.admit(None, connection).await;
    }
}

/// Serves over TCP. No connection keeps its place longer than `longest`, since every host of
/// the network may open one. With an identity, only clients that speak TLS are served.
pub async fn serve_remote(
    listener: TcpListener,
    identity: Option<Identity>,
    app: Router,
    (persistence, longest): (Persistence, Duration),
) {
    let places = ConnectionPermits::new(LIMITS);
    loop {
        let Some((stream, from)) = accepted(listener.accept().await).await else { continue };
        let (app, identity) = (app.clone(), identity.clone());
        let connection = |place| async move {
            let served = greet(stream, identity, app, place, persistence);
            // A connection that takes longer ends without an answer.
            let _ = tokio::time::timeout(longest, served).await;
        };
        places.admit(Some(from.ip()), connection).await;
    }
}

async fn greet(
    stream: TcpStream,
    identity: Option<Identity>,
    app: Router,
    place: Arc<ConnectionPermit>,
    persistence: Persistence,
) {
    // An answer that is written in two parts does not wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let terms = persistence.into();
    let Some(identity) = identity else {
        return serve(stream, app, place, terms).await;
    };
    match tokio::time::timeout(HEAD, identity.greet(stream)).await {
        Ok(Ok(Greeted::Secure(stream))) => serve(*stream, app, place, terms).await,
        Ok(Ok(Greeted::Plain(stream))) => {
            let refuse = Router::new().fallback(refuse);
            serve(stream, refuse, place, Persistence::OneRequest.into()).await;
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

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    app: Router,
    place: Arc<ConnectionPermit>,
    Terms { requests, unread }: Terms,
) {
    let app = TowerToHyperService::new(app);
    let left = AtomicU32::new(requests);
    let answer = |request: Request<Incoming>| {
        let is_last = left.fetch_sub(1, Ordering::Relaxed) == 1;
        let answering = Answering::begin(place.clone(), is_last);
        let version = request.version();
        let answered = app.call(request);
        async move {
            let mut response = answered.await?;
            if is_last {
                // The server ends the connection behind an answer with this (RFC 9112 §9.6).
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                // Beside an answer of HTTP/1.1 to a client of HTTP/1.0 it says `keep-alive`.
                *response.version_mut() = version;
            }
            let answer = |body| ResponseBody { body, _until_sent: answering };
            Ok::<Response<ResponseBody>, Infallible>(response.map(answer))
        }
    };
    let stream = ClientStream::new(stream, place.clone(), unread);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(requests > 1)
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A connection is busy until this is dropped, and what it has written is sent.
struct Answering {
    place: Arc<ConnectionPermit>,
    is_last: bool,
}

impl Answering {
    fn begin(place: Arc<ConnectionPermit>, is_last: bool) -> Answering {
        place.busy();
        Answering { place, is_last }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // A connection that ends is busy to its end.
        if !self.is_last {
            self.place.answered();
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
