//! One node posts octets to another's socket, from within a runtime.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST};
use tokio::net::UnixStream;

use crate::client::{ClientError, Server, exchange};
use crate::problem::Problem;

/// Octets of an answer at most.
const MOST: usize = 8 << 20;

/// Posts `body` to `path` of the node at `socket`, and waits for the whole answer.
///
/// # Errors
/// [`ClientError`]; the node may have had the octets all the same.
pub async fn octets(
    socket: &Path,
    path: &str,
    body: Vec<u8>,
    patience: Duration,
) -> Result<Vec<u8>, ClientError> {
    let answered = tokio::time::timeout(patience, ask(socket, path, body)).await;
    answered.unwrap_or_else(|_| Err(gone("no answer")))
}

async fn ask(socket: &Path, path: &str, body: Vec<u8>) -> Result<Vec<u8>, ClientError> {
    let server = || Server::Socket(socket.to_owned());
    let stream = UnixStream::connect(socket).await.map_err(|reason| match reason.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            ClientError::NotRunning("node", server())
        }
        _ => ClientError::Server { server: server(), reason },
    })?;
    let request = Request::post(path)
        .header(HOST, "weft")
        .header(CONTENT_TYPE, "application/octet-stream")
        .body(Full::new(body.into()))
        .map_err(gone)?;
    let response = exchange(Box::new(stream), request).await.map_err(gone)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MOST).collect().await.map_err(gone)?.to_bytes();
    if status.is_success() {
        return Ok(body.to_vec());
    }
    let problem = serde_json::from_slice(&body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        Problem { detail: format!("{status}: {text}"), ..Problem::default() }
    });
    Err(ClientError::Refused(problem))
}

fn gone(error: impl ToString) -> ClientError {
    ClientError::Gone("node", error.to_string())
}
