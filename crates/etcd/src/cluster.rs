//! The members of etcd: one is asked, and another one when it does not answer.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use std::{fs, thread};

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::timeout;
use weft_http::tls::CertificateFiles;

use crate::error::{EtcdError, Outcome, sort};

/// How long one member may take for an answer: longer than any write that a healthy one takes,
/// and short enough that two may be silent before a lease ends.
const PATIENCE: Duration = Duration::from_millis(800);

/// Which etcd, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// URLs of its members, `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Own certificate, which etcd asks for (`--client-cert-auth`), and the authority of those
    /// of its members.
    pub tls: Option<CertificateFiles>,
    /// What all keys begin with; ends with `/`.
    pub prefix: String,
}

/// A cluster of etcd; clones are the same one.
#[derive(Clone)]
pub struct Cluster(Arc<Shared>);

struct Shared {
    options: Options,
    connect: ConnectOptions,
    runtime: Handle,
    /// Which member is asked, and the connection with it.
    current: Mutex<(usize, Option<Client>)>,
    requests: AtomicU64,
    /// Ends the thread of the runtime when the last clone goes.
    _stop: oneshot::Sender<()>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cluster").field(&self.0.options.endpoints).finish()
    }
}

impl Cluster {
    /// Prepares to reach a cluster; that it answers is not asked for.
    ///
    /// # Errors
    /// [`EtcdError::Tls`] when certificates cannot be used, [`EtcdError::Refused`] when the
    /// machine has no thread for it.
    pub fn new(options: Options) -> Result<Cluster, EtcdError> {
        let mut connect = ConnectOptions::new()
            .with_connect_timeout(PATIENCE)
            .with_require_leader(true)
            .with_keep_alive(Duration::from_secs(2), Duration::from_secs(2));
        if let Some(files) = &options.tls {
            connect = connect.with_tls(tls(files)?);
        }
        let no_thread = |error: io::Error| EtcdError::Refused(format!("no thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let work = move || {
            // Ends when the other end is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new().name("etcd".to_owned()).spawn(work).map_err(no_thread)?;
        Ok(Cluster(Arc::new(Shared {
            options,
            connect,
            runtime: handle,
            current: Mutex::default(),
            requests: AtomicU64::new(0),
            _stop: stop,
        })))
    }

    /// What all keys begin with.
    pub fn prefix(&self) -> &str {
        &self.0.options.prefix
    }

    /// Requests that were sent.
    pub fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// Waits for something that is done in the thread of this cluster; for other threads only.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (done, result) = mpsc::sync_channel(1);
        self.0.runtime.spawn(async move {
            // Who waits does so until this is said.
            let _ = done.send(work.await);
        });
        // It ends without a word by a panic only.
        result.recv().ok()
    }

    /// Asks one member after another, from the one that answered last.
    pub(crate) async fn ask<T, F>(&self, request: impl Fn(Client) -> F) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let mut last = String::new();
        for _ in 0..self.0.options.endpoints.len() {
            let (nth, endpoint) = self.member();
            let asked = async {
                let client = self.client(nth, &endpoint).await?;
                self.0.requests.fetch_add(1, Ordering::Relaxed);
                request(client).await
            };
            last = match timeout(PATIENCE, asked).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => match sort(&error) {
                    Outcome::Final(error) => return Err(error),
                    Outcome::Elsewhere(said) => format!("{endpoint}: {said}"),
                },
                Err(_) => format!("{endpoint}: no answer in {} ms", PATIENCE.as_millis()),
            };
            self.leave(nth);
        }
        Err(EtcdError::Unreachable(last))
    }

    /// Which member is to be asked.
    fn member(&self) -> (usize, String) {
        let nth = self.current().0;
        (nth, self.0.options.endpoints[nth].clone())
    }

    async fn client(&self, nth: usize, endpoint: &str) -> Result<Client, etcd_client::Error> {
        let known = self.current().1.clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let client = Client::connect([endpoint], Some(self.0.connect.clone())).await?;
        let mut current = self.current();
        if current.0 == nth {
            current.1 = Some(client.clone());
        }
        Ok(client)
    }

    /// The next request goes to another member.
    fn leave(&self, nth: usize) {
        let mut current = self.current();
        // Another request may have left it already.
        if current.0 == nth {
            *current = ((nth + 1) % self.0.options.endpoints.len(), None);
        }
    }

    fn current(&self) -> MutexGuard<'_, (usize, Option<Client>)> {
        // What is locked is whole at any time.
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tls(files: &CertificateFiles) -> Result<TlsOptions, EtcdError> {
    let read = |path: &PathBuf| fs::read(path).map_err(|error| EtcdError::file(path, error));
    let authority = Certificate::from_pem(read(&files.authority)?);
    let identity = Identity::from_pem(read(&files.certificate)?, read(&files.key)?);
    Ok(TlsOptions::new().ca_certificate(authority).identity(identity))
}
