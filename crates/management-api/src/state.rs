//! What all requests share: the way to the node's agent.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};
use weft_bgp::Watch;
use weft_compose::Kind;
use weft_http::prepared::Prepared;
use weft_http::problem::Failure;
use weft_node::show::{ExtendedView, Snapshot};
use weft_node::{Agent, Answer, Handle};
use weft_pfcp::ServerHandle;
use weft_pfcp::user_plane::show::PfcpView;

use crate::live::Live;
use crate::upgrades::Upgrades;

/// Traces and captures at once.
const WATCHERS: usize = 8;
/// Clients that are told once a second what the node does.
const LISTENERS: usize = 24;

/// How often drivers are asked for all that they count.
const EXTENDED_EVERY: Duration = Duration::from_secs(1);

/// What drivers have counted, and when they were asked.
type Extended = (Instant, Vec<ExtendedView>);

/// Says why others cannot rely on the node, if they cannot.
pub(crate) struct Readiness(pub Box<dyn Fn() -> Option<&'static str> + Send + Sync>);

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readiness")
    }
}

/// A node as requests see it.
#[derive(Clone)]
pub(crate) struct State {
    pub handle: Handle,
    /// Functions that a configuration may use.
    pub kinds: &'static [Kind],
    /// Looks at the node, once a second.
    pub live: Arc<Live>,
    /// Whether the last look will do for a snapshot.
    from_last_look: bool,
    /// The server of control planes, once there is one.
    pub pfcp: Arc<OnceLock<ServerHandle>>,
    /// What is announced by BGP, once there is a speaker.
    pub bgp: Arc<OnceLock<Watch>>,
    /// What else the node is to do for others to rely on it.
    pub readiness: Arc<OnceLock<Readiness>>,
    /// What drivers have counted, and when they were asked.
    extended: Arc<Mutex<Option<Extended>>>,
    /// Where requests for an upgrade go, at a process of its own.
    pub upgrades: Arc<OnceLock<Upgrades>>,
    /// Free places for traces and captures.
    watchers: Arc<Semaphore>,
    /// Free places for those who listen to looks.
    listeners: Arc<Semaphore>,
}

impl State {
    pub fn new(handle: Handle, kinds: &'static [Kind], live: Arc<Live>) -> State {
        let [watchers, listeners] =
            [WATCHERS, LISTENERS].map(|places| Arc::new(Semaphore::new(places)));
        State {
            handle,
            kinds,
            live,
            from_last_look: false,
            pfcp: Arc::default(),
            bgp: Arc::default(),
            readiness: Arc::default(),
            extended: Arc::default(),
            upgrades: Arc::default(),
            watchers,
            listeners,
        }
    }

    /// The same for clients that are not trusted: however often they ask for a snapshot, the
    /// agent is asked once a second. They start no upgrade.
    pub fn for_many(&self) -> State {
        State { from_last_look: true, upgrades: Arc::default(), ..self.clone() }
    }

    /// What was counted at the last look, as it is sent to clients that are not trusted.
    pub fn snapshot_of_late(&self) -> Option<Prepared> {
        self.from_last_look.then(|| self.live.snapshot_answer()).flatten()
    }

    /// Everything that is counted.
    pub async fn snapshot(&self) -> Result<Snapshot, Failure> {
        match self.live.snapshot().filter(|_| self.from_last_look) {
            Some(snapshot) => Ok((*snapshot).clone()),
            None => self.ask(|agent| agent.snapshot()).await,
        }
    }

    /// What control planes and the node have said; the server is asked once a second, however
    /// many clients ask. None where no control plane drives the node.
    pub async fn pfcp_of_late(&self) -> Option<PfcpView> {
        let server = self.pfcp.get()?.clone();
        tokio::task::spawn_blocking(move || server.view_of_late()).await.ok().flatten()
    }

    /// What the drivers of ports count by their own names; they are asked once a second,
    /// however many clients ask.
    pub async fn extended_of_late(&self) -> Result<Vec<ExtendedView>, Failure> {
        let mut last = self.extended.lock().await;
        match &*last {
            Some((when, views)) if when.elapsed() < EXTENDED_EVERY => Ok(views.clone()),
            _ => {
                let views = self.ask(|agent| agent.extended_ports()).await?;
                *last = Some((Instant::now(), views.clone()));
                Ok(views)
            }
        }
    }

    /// Asks the agent.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Agent) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel::<Answer>();
        let told = self.handle.tell(move |agent| {
            // The client that asked may have gone.
            let _ = answer.send(Answer::of(question(agent)));
        });
        told.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?.take().map_err(|_| stopped())
    }

    /// Takes a place for one who listens to looks.
    pub fn listener(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.listeners.clone().try_acquire_owned().map_err(|_| {
            Failure::new(StatusCode::TOO_MANY_REQUESTS, "too many clients listen already")
        })
    }

    /// The same for what changes something: answers once it is durable, where the node keeps
    /// what commands set.
    pub async fn ask_durable<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Agent) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel::<(Answer, Result<(), Arc<str>>)>();
        let told = self.handle.tell(move |agent| {
            let value = Answer::of(question(agent));
            agent.when_durable(Box::new(move |kept| drop(answer.send((value, kept)))));
        });
        told.map_err(|_| stopped())?;
        let (value, kept) = answered.await.map_err(|_| stopped())?;
        kept.map_err(|why| {
            let detail = format!("changed, and not durable yet: {why}");
            Failure::new(StatusCode::INSUFFICIENT_STORAGE, detail)
        })?;
        value.take().map_err(|_| stopped())
    }

    /// Asks the server of control planes, away from the thread that serves.
    pub async fn ask_pfcp<T: Send + 'static>(
        &self,
        question: impl FnOnce(&ServerHandle) -> Option<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(server) = self.pfcp.get().cloned() else {
            let detail = "the configuration has no `pfcp`";
            return Err(Failure::new(StatusCode::NOT_FOUND, detail));
        };
        let answer = tokio::task::spawn_blocking(move || question(&server)).await;
        answer.ok().flatten().ok_or(stopped())
    }

    /// Takes a place for a trace, a capture or a listener.
    pub fn watcher(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.watchers.clone().try_acquire_owned().map_err(|_| {
            let detail = "too many traces, captures and listeners at once";
            Failure::new(StatusCode::TOO_MANY_REQUESTS, detail)
        })
    }
}

/// The node cannot answer any more.
pub(crate) fn stopped() -> Failure {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping")
}
