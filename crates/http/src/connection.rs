//! Connections: accepted a few at a time, and ended when they take too long.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;

use crate::problem::Problem;
use crate::tls::{Greeted, Identity};

/// Connections at once; more of them wait.
const CONNECTIONS: usize = 32;

/// How long the head of a request may take, and the greeting before it.
const HEAD: Duration = Duration::from_secs(5);

/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// Pause after a connection could not be accepted, for example because the
/// process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves on a Unix socket.
pub async fn serve_local(listener: UnixListener, app: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = places.clone().acquire_owned().await {
        let Some(stream) = accepted(listener.accept().await).await else { continue };
        let connection = serve(stream, app.clone(), true);
        tokio::spawn(async move {
            connection.await;
            drop(place);
        });
    }
}

/// Serves over TCP, one request a connection: any client may be there, so none
/// keeps a place longer than `longest`. With an identity, only those who speak TLS are
/// served.
pub async fn serve_remote(
    listener: TcpListener,
    identity: Option<Identity>,
    app: Router,
    longest: Duration,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = places.clone().acquire_owned().await {
        let Some(stream) = accepted(listener.accept().await).await else { continue };
        let greeted = greet(stream, identity.clone(), app.clone());
        let connection = tokio::time::timeout(longest, greeted);
        tokio::spawn(async move {
            let _ = connection.await;
            drop(place);
        });
    }
}

async fn greet(stream: TcpStream, identity: Option<Identity>, app: Router) {
    let Some(identity) = identity else { return serve(stream, app, false).await };
    match tokio::time::timeout(HEAD, identity.greet(stream)).await {
        Ok(Ok(Greeted::Secure(stream))) => serve(*stream, app, false).await,
        Ok(Ok(Greeted::Plain(stream))) => {
            serve(stream, Router::new().fallback(refuse), false).await
        }
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
        Err(_) => tracing::debug!("a connection was not greeted in time"),
    }
}

/// Answers who does not speak TLS where it is spoken.
async fn refuse() -> (StatusCode, Json<Problem>) {
    let error = "TLS is spoken here: use https://".to_owned();
    (StatusCode::BAD_REQUEST, Json(Problem { error, mistakes: Vec::new() }))
}

async fn accepted<S, A>(accepted: io::Result<(S, A)>) -> Option<S> {
    match accepted {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::debug!(%error, "a connection was not accepted");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, app: Router, keep_alive: bool) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(keep_alive)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}
