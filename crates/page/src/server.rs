//! The server: an address that is claimed before anything else is, then a thread of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use weft_http::connection::{Persistence, serve_remote};
use weft_http::tls::{Identity, TlsError};
use weft_mobility_transport::Token;

use crate::access::Access;
use crate::assets::{self, Kind};

/// How long a connection may last: a page that listens comes again.
const LONGEST: Duration = Duration::from_secs(3600);

/// Threads that wait for the node.
const WAITING_THREADS: usize = 8;

/// Politeness of the thread, as nice(2) has it: all others come first.
const LAST: i32 = 19;

/// Where and for whom a page is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address.
    pub listen: SocketAddr,
    /// The token for requests that change something, or show packets.
    pub token: Option<Token>,
    /// Certificate and key, both in PEM, where TLS is spoken.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Names of this machine by which clients may call it.
    pub names: Vec<String>,
}

/// Why a page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The address cannot be used.
    #[error("page address {address}: {reason}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        reason: io::Error,
    },
    /// The token would be read on the way.
    #[error(
        "a token at {0} would go without encryption: serve the page at a loopback address, or \
         give --http-certificate and --http-key"
    )]
    Plain(SocketAddr),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The machine has no thread for it.
    #[error("no thread to serve the page in: {0}")]
    Thread(io::Error),
}

/// What the page reads.
#[derive(Debug)]
pub struct Api {
    /// Whose it is.
    pub kind: Kind,
    /// Its routes.
    pub routes: Router,
    /// Paths whose answers are ready, so that they may be asked for at any rate.
    pub ready: &'static [&'static str],
    /// Other requests a second, of all clients together; twice as many may come at once.
    pub rate: f64,
    /// Where requests that change something are carried out.
    pub runtime: Handle,
}

/// An address, taken but not served yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    token: Option<Token>,
    identity: Option<Identity>,
    names: Vec<String>,
}

impl Listening {
    /// Takes the address.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn claim(options: &Options) -> Result<Listening, PageError> {
        let address = options.listen;
        let token = options.token.clone();
        let identity =
            options.tls.as_ref().map(|(certificate, key)| Identity::load(certificate, key));
        let identity = identity.transpose()?;
        if token.is_some() && identity.is_none() && !address.ip().is_loopback() {
            return Err(PageError::Plain(address));
        }
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|reason| PageError::Address { address, reason })?;
        let mut names = options.names.clone();
        names.extend(rustix::system::uname().nodename().to_str().map(str::to_owned));
        Ok(Listening { listener, token, identity, names })
    }

    /// Where the page will be found, with the port that the system chose where 0 was asked
    /// for.
    pub fn url(&self) -> Option<String> {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{}/", self.listener.local_addr().ok()?))
    }

    /// Serves the page and what it reads until [`Serving::stop`].
    ///
    /// # Errors
    /// [`PageError::Thread`].
    pub fn serve(self, api: Api) -> Result<Serving, PageError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING_THREADS)
            .build()
            .map_err(PageError::Thread)?;
        let Listening { listener, token, identity, names } = self;
        let access = Arc::new(Access::new(token, names, (api.ready, api.rate), api.runtime));
        let grant = from_fn(move |request, next| {
            let access = access.clone();
            async move { access.admit(request, next).await }
        });
        let app = assets::routes(api.kind).merge(api.routes).layer(grant);
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("page".to_owned())
            .spawn(move || run(runtime, listener, identity, app, stopped))
            .map_err(PageError::Thread)?;
        Ok(Serving { stop, thread })
    }
}

/// A page that is served.
#[derive(Debug)]
pub struct Serving {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Serving {
    /// The thread that serves, if it has ended by itself.
    pub fn dead(&self) -> Option<&'static str> {
        self.thread.is_finished().then_some("page")
    }

    /// Ends all connections.
    pub fn stop(self) {
        // The thread may have ended by itself.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn run(
    runtime: Runtime,
    listener: TcpListener,
    identity: Option<Identity>,
    app: Router,
    stopped: oneshot::Receiver<()>,
) {
    // On Linux each thread has a priority of its own.
    if let Err(error) = rustix::process::nice(LAST) {
        tracing::debug!(%error, "the page has the priority of all threads");
    }
    let started = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let terms = (Persistence::ManyRequests, LONGEST);
        tokio::select! {
            _ = stopped => {}
            () = serve_remote(listener, identity, app, terms) => {}
        }
        io::Result::Ok(())
    });
    if let Err(error) = started {
        tracing::error!(%error, "the page cannot be served");
    }
    // Threads that wait for the node end with it.
    runtime.shutdown_background();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(listen: &str) -> Options {
        let listen = listen.parse().unwrap();
        Options { listen, token: None, tls: None, names: Vec::new() }
    }

    #[test]
    fn a_token_does_not_go_without_encryption() {
        let token = Token::new("0123456789abcdef");
        let with_token = |listen| Options { token: token.clone(), ..options(listen) };
        for near in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may be without IPv6.
            match Listening::claim(&with_token(near)) {
                Ok(_) | Err(PageError::Address { .. }) => {}
                Err(error) => panic!("{near}: {error}"),
            }
        }
        let refused = Listening::claim(&with_token("0.0.0.0:0"));
        assert!(matches!(refused, Err(PageError::Plain(_))));
        let open = Listening::claim(&options("0.0.0.0:0")).unwrap();
        assert!(open.url().unwrap().starts_with("http://0.0.0.0:"));
    }

    #[test]
    fn an_address_in_use_is_said_in_one_line() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let refused = Listening::claim(&options(&address.to_string())).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("page address {address}: ")), "{refused}");
    }
}
