//! The other end: asks a node or a controller, and waits for the answer.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};

use crate::problem::Problem;
use crate::tls::Trust;

/// Longest wait for an answer to begin.
const ANSWER: Duration = Duration::from_secs(40);

/// How often a request is sent on to another server.
const MOST_HOPS: usize = 4;

/// What can go wrong between client and server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server listens there.
    #[error("no {0} is running at {1}")]
    NotRunning(&'static str, Server),
    /// The place is there and cannot be opened.
    #[error("cannot connect to {server}: {reason}")]
    Server {
        /// The place.
        server: Server,
        /// What is wrong.
        reason: io::Error,
    },
    /// The request was not granted.
    #[error("{}", .0.detail)]
    Refused(Problem),
    /// The conversation broke off.
    #[error("the {0} went away: {1}")]
    Gone(&'static str, String),
    /// Another server answers this, which cannot be asked from here.
    #[error("{}: {}", .0.detail, .1)]
    Elsewhere(Problem, &'static str),
    /// The answer is not what was expected of it.
    #[error("cannot read the answer: {0}")]
    Answer(#[from] serde_json::Error),
}

/// Where a server is reached.
#[derive(Clone)]
pub enum Server {
    /// A Unix socket.
    Socket(PathBuf),
    /// A TCP address.
    Remote {
        /// `HOST:PORT`.
        address: String,
        /// What shows who we are; empty for nothing.
        token: String,
        /// Whom to believe, where TLS is spoken.
        trust: Option<Trust>,
    },
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Socket(path) => write!(f, "{}", path.display()),
            Server::Remote { address, .. } => f.write_str(address),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token.
        write!(f, "Server({self})")
    }
}

/// A client of one server; waits for answers in the calling thread.
#[derive(Debug)]
pub struct Client {
    server: Server,
    what: &'static str,
    runtime: Runtime,
    credentials: Credentials,
}

/// What is shown to, and asked of, a server that another one has named.
#[derive(Clone, Default)]
pub struct Credentials {
    /// What shows who we are.
    pub token: Option<String>,
    /// Whom to believe, where TLS is spoken.
    pub trust: Option<Trust>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Client {
    /// A client of the node at `socket`, which is not asked yet.
    ///
    /// # Errors
    /// [`ClientError::Server`] when the machine has no room for it.
    pub fn new(socket: &Path) -> Result<Client, ClientError> {
        Client::of("node", Server::Socket(socket.to_owned()))
    }

    /// A client of a `what`, such as `controller`, which is not asked yet.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn of(what: &'static str, server: Server) -> Result<Client, ClientError> {
        match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let credentials = match &server {
                    Server::Socket(_) => Credentials::default(),
                    Server::Remote { token, trust, .. } => {
                        Credentials { token: Some(token.clone()), trust: trust.clone() }
                    }
                };
                Ok(Client { server, what, runtime, credentials })
            }
            Err(reason) => Err(ClientError::Server { server, reason }),
        }
    }

    /// Shows these to a server to which another one sends it (307). Without them, those of
    /// its own server are shown.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Client {
        Client { credentials, ..self }
    }

    /// Gets what is at `path`, as JSON.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, path, String::new())
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
        self.ask(Method::POST, path, body)
    }

    /// Puts `body` at `path`; the answer is JSON.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn put<T: DeserializeOwned>(&self, path: &str, body: String) -> Result<T, ClientError> {
        self.ask(Method::PUT, path, body)
    }

    /// Removes what is at `path`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.exchange(Method::DELETE, path, Bytes::new()).map(drop)
    }

    /// Asks by any method; the answer is JSON.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<T, ClientError> {
        Ok(serde_json::from_slice(&self.exchange(method, path, body.into())?)?)
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
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ClientError> {
        self.question(path, question)?.pieces(take)
    }

    /// Sends `question` to `path` as JSON; returns when the answer has begun,
    /// which says that the question is granted.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn question(
        &self,
        path: &str,
        question: &impl Serialize,
    ) -> Result<StreamedResponse<'_>, ClientError> {
        self.answer(Method::POST, path, serde_json::to_vec(question)?.into())
    }

    /// Gives each piece of what is at `path` to `take` as it comes, until there is
    /// no more or `take` returns false.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn listen(&self, path: &str, take: impl FnMut(&[u8]) -> bool) -> Result<(), ClientError> {
        self.answer(Method::GET, path, Bytes::new())?.pieces(take)
    }

    fn answer(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<StreamedResponse<'_>, ClientError> {
        let response = self.runtime.block_on(self.send(method, path, body))?;
        Ok(StreamedResponse { client: self, response })
    }

    fn gone(&self, error: impl ToString) -> ClientError {
        ClientError::Gone(self.what, error.to_string())
    }

    fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
        self.runtime.block_on(async {
            let response = self.send(method, path, body).await?;
            self.whole(response).await
        })
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        let body = response.into_body().collect().await;
        Ok(body.map_err(|error| self.gone(error))?.to_bytes())
    }

    /// Sends a request, to where it is answered; returns a response that grants it.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let (mut server, mut hops) = (self.server.clone(), 0);
        loop {
            let response = self.send_to(&server, method.clone(), path, body.clone()).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|at| at.to_str().ok());
            let location = location.map(str::to_owned);
            let problem = self.problem(response).await?;
            let Some(location) = location.filter(|_| status == StatusCode::TEMPORARY_REDIRECT)
            else {
                return Err(ClientError::Refused(problem));
            };
            hops += 1;
            if hops > MOST_HOPS {
                return Err(ClientError::Elsewhere(problem, "it is sent on without end"));
            }
            server = match self.named(&location) {
                Ok(server) => server,
                Err(reason) => return Err(ClientError::Elsewhere(problem, reason)),
            };
        }
    }

    /// The server of a URL that another one has named.
    fn named(&self, url: &str) -> Result<Server, &'static str> {
        let Credentials { token, trust } = self.credentials.clone();
        let (rest, trust) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => {
                (rest, Some(trust.ok_or("who signs for it is not known: give --ca-file")?))
            }
            // The token would be readable for all between.
            (_, Some(_)) if trust.is_some() => return Err("it does not speak TLS"),
            (_, Some(rest)) => (rest, None),
            _ => return Err("its address cannot be read"),
        };
        let token = token.ok_or("it asks for a token: give --token-file")?;
        let address = rest.split('/').next().unwrap_or(rest).to_owned();
        Ok(Server::Remote { address, token, trust })
    }

    async fn send_to(
        &self,
        server: &Server,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request =
            Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let (host, stream): (_, Box<dyn Stream>) = match server {
            Server::Socket(path) => {
                ("weft", Box::new(self.opened(server, UnixStream::connect(path).await)?))
            }
            Server::Remote { address, token, trust } => {
                // A server that asks for none may refuse one that is empty.
                if !token.is_empty() {
                    request = request.header(AUTHORIZATION, format!("Bearer {token}"));
                }
                let stream = self.opened(server, TcpStream::connect(address).await)?;
                let stream: Box<dyn Stream> = match trust {
                    None => Box::new(stream),
                    Some(trust) => {
                        Box::new(self.greeted(server, trust.connect(address, stream)).await?)
                    }
                };
                (address.as_str(), stream)
            }
        };
        let request = request.header(HOST, host).body(Full::new(body));
        let request = request.map_err(|error| self.gone(error))?;
        let answered = tokio::time::timeout(ANSWER, exchange(stream, request)).await;
        let answered = answered.map_err(|_| self.gone("no answer"))?;
        answered.map_err(|error| self.gone(error))
    }

    /// Why a request is not granted.
    async fn problem(&self, response: Response<Incoming>) -> Result<Problem, ClientError> {
        let status = response.status();
        let said = self.whole(response).await?;
        Ok(serde_json::from_slice(&said).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&said).trim().to_owned();
            Problem { detail: format!("{status}: {text}"), ..Problem::default() }
        }))
    }

    async fn greeted<S>(
        &self,
        server: &Server,
        greeting: impl Future<Output = io::Result<S>>,
    ) -> Result<S, ClientError> {
        let greeted = tokio::time::timeout(ANSWER, greeting).await;
        self.opened(server, greeted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
    }

    fn opened<S>(&self, server: &Server, stream: io::Result<S>) -> Result<S, ClientError> {
        stream.map_err(|reason| match reason.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NotRunning(self.what, server.clone())
            }
            _ => ClientError::Server { server: server.clone(), reason },
        })
    }
}

/// An answer that comes in pieces, for as long as the server has any.
#[derive(Debug)]
pub struct StreamedResponse<'a> {
    client: &'a Client,
    response: Response<Incoming>,
}

impl StreamedResponse<'_> {
    /// Gives each piece to `take` as it comes, until there is no more or `take`
    /// returns false. A piece ends where the connection's buffer ends, whatever
    /// the server wrote together.
    ///
    /// # Errors
    /// [`ClientError::Gone`].
    pub fn pieces(mut self, mut take: impl FnMut(&[u8]) -> bool) -> Result<(), ClientError> {
        self.client.runtime.block_on(async {
            while let Some(frame) = self.response.frame().await {
                let frame = frame.map_err(|error| self.client.gone(error))?;
                if let Ok(piece) = frame.into_data()
                    && !take(&piece)
                {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// A connection of any kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<Incoming>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}
