//! The other end: asks a node over its socket, and waits for the answer.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

use crate::api::Problem;

/// Longest wait for an answer to begin.
const ANSWER: Duration = Duration::from_secs(40);

/// What can go wrong between client and node.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no node is running at {}", .0.display())]
    NoNode(PathBuf),
    /// The socket is there and cannot be opened.
    #[error("socket {}: {reason}", .socket.display())]
    Socket {
        /// Its path.
        socket: PathBuf,
        /// What is wrong.
        reason: io::Error,
    },
    /// The node did not grant the request.
    #[error("{}", .0.error)]
    Refused(Problem),
    /// The conversation broke off.
    #[error("the node went away: {0}")]
    Gone(String),
    /// The answer is not what was expected of it.
    #[error("cannot read the node's answer: {0}")]
    Answer(#[from] serde_json::Error),
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> ClientError {
        ClientError::Gone(error.to_string())
    }
}

/// A client of one node; waits for answers in the calling thread.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    runtime: Runtime,
}

impl Client {
    /// A client of the node at `socket`, which is not asked yet.
    ///
    /// # Errors
    /// [`ClientError::Socket`] when the machine has no room for it.
    pub fn new(socket: &Path) -> Result<Client, ClientError> {
        let failed = |reason| ClientError::Socket { socket: socket.to_owned(), reason };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        Ok(Client { socket: socket.to_owned(), runtime })
    }

    /// Gets what is at `path`, as JSON.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        Ok(serde_json::from_slice(&self.exchange(Method::GET, path, Bytes::new())?)?)
    }

    /// Gets what is at `path`, as text.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.exchange(Method::GET, path, Bytes::new())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends `body` to `path`; the answer is JSON.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: String) -> Result<T, ClientError> {
        Ok(serde_json::from_slice(&self.exchange(Method::POST, path, body.into())?)?)
    }

    /// Sends `question` to `path` as JSON and gives each piece of the answer to
    /// `take` as it comes, until there is no more or `take` returns false.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn stream(
        &self,
        path: &str,
        question: &impl Serialize,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ClientError> {
        let body = serde_json::to_vec(question)?;
        self.runtime.block_on(async {
            let mut response = self.send(Method::POST, path, body.into()).await?;
            while let Some(frame) = response.frame().await {
                if let Ok(piece) = frame?.into_data()
                    && !take(&piece)
                {
                    break;
                }
            }
            Ok(())
        })
    }

    fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
        self.runtime.block_on(async {
            let response = self.send(method, path, body).await?;
            Ok(response.into_body().collect().await?.to_bytes())
        })
    }

    /// Sends a request; returns a response that grants it.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|reason| {
            let socket = self.socket.clone();
            match reason.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    ClientError::NoNode(socket)
                }
                _ => ClientError::Socket { socket, reason },
            }
        })?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "weft")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| ClientError::Gone(error.to_string()))?;
        let answered = tokio::time::timeout(ANSWER, sender.send_request(request)).await;
        let response = answered.map_err(|_| ClientError::Gone("no answer".to_owned()))??;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let status = response.status();
        let said = response.into_body().collect().await?.to_bytes();
        let problem = serde_json::from_slice(&said).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&said).trim().to_owned();
            Problem { error: format!("{status}: {text}"), mistakes: Vec::new() }
        });
        Err(ClientError::Refused(problem))
    }
}
