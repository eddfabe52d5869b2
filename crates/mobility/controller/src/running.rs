//! A controller that runs: alone, or as one of several replicas.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_etcd::{Cluster, EtcdError};
use weft_http::tls::{Mutual, TlsError};
use weft_mobility_transport::{Security, Token, TokenError, TransportError};

use crate::api::{Listening, ServeError, Serving};
use crate::config::{Configuration, Records};
use crate::engine::Handle;
use crate::journal::{Journal, JournalError};
use crate::lead::{Lead, LeadError, Means};
use crate::members::Members;
use crate::n4::N4Shown;
use crate::replica::Running;
use crate::standing::Site;

/// Why a controller does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A token cannot be had.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The records cannot be had.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// etcd cannot be asked.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// Nodes cannot connect.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The API cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The machine has no thread for it.
    #[error("no thread for the controller: {0}")]
    Thread(io::Error),
}

impl From<LeadError> for StartError {
    fn from(error: LeadError) -> StartError {
        match error {
            LeadError::Transport(error) => error.into(),
            LeadError::Thread(error) => StartError::Thread(error),
        }
    }
}

/// A controller, until it is stopped.
#[derive(Debug)]
pub struct Controller {
    handle: Handle,
    work: Work,
    serving: Serving,
    listen: SocketAddr,
    n4: N4Shown,
}

/// What it does besides serving its API.
#[derive(Debug)]
enum Work {
    /// It leads, as there is no other.
    Alone(Lead),
    /// It leads or follows.
    Replica(Running),
}

impl Controller {
    /// Starts a controller: its API at `socket`, and where the configuration says; and a page.
    /// One with records in a folder leads from then on, and `ended` is called when it has to
    /// stop by itself, with the reason. One with records in etcd campaigns.
    ///
    /// # Errors
    /// [`StartError`]; above all when another one runs.
    pub fn start(
        configuration: Configuration,
        socket: PathBuf,
        page: Option<&weft_page::Options>,
        ended: impl FnOnce(JournalError) + Send + 'static,
    ) -> Result<Controller, StartError> {
        let token = Token::load(&configuration.token_file)?;
        let security = security(&configuration)?;
        let listening = Listening::claim(&configuration, socket, page)?;
        let (handle, configuration) = (Handle::default(), Arc::new(configuration));
        let members = Members::new(&configuration);
        let means = Means {
            configuration: configuration.clone(),
            token,
            security,
            handle: handle.clone(),
            members: members.clone(),
        };
        let listen = configuration.listen;
        let (work, site, listen) = match &configuration.records {
            Records::Folder(folder) => {
                let (journal, recovered) = Journal::open(folder)?;
                let lead = means.lead(journal, recovered, 0, ended)?;
                let listen = lead.address();
                (Work::Alone(lead), Site::alone(), listen)
            }
            Records::Etcd(replica) => {
                let cluster = Cluster::new(replica.etcd.clone())?;
                let site = Site::replica();
                let running = Running::start(replica.clone(), cluster, means, site.clone());
                (Work::Replica(running.map_err(StartError::Thread)?), site, listen)
            }
        };
        let n4 = N4Shown::default();
        let serving = listening.serve(handle.clone(), configuration, members, site, n4.clone())?;
        Ok(Controller { handle, work, serving, listen, n4 })
    }

    /// The thread of it that has ended by itself, if one has.
    pub fn dead(&self) -> Option<&'static str> {
        let dead = match &self.work {
            Work::Alone(lead) => lead.dead(),
            Work::Replica(running) => running.is_finished().then_some("replica"),
        };
        dead.or_else(|| self.serving.dead())
    }

    /// Where nodes connect, while it leads.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// Where the API is served over TCP.
    pub fn api(&self) -> Option<SocketAddr> {
        self.serving.remote()
    }

    /// Where the page is found.
    pub fn page(&self) -> Option<&str> {
        self.serving.page()
    }

    /// Where the API is served.
    pub fn socket(&self) -> &Path {
        self.serving.socket()
    }

    /// Asks the engine.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// What is shown of N4, to be said by the one who serves it.
    pub fn n4(&self) -> N4Shown {
        self.n4.clone()
    }

    /// Stops it. What is under way goes on when it starts again, or another replica leads.
    pub fn stop(self) {
        self.serving.stop();
        match self.work {
            Work::Alone(lead) => lead.stop(),
            Work::Replica(running) => running.stop(),
        }
    }
}

fn security(configuration: &Configuration) -> Result<Option<Security>, TlsError> {
    let name = &configuration.name;
    let load = |files| Mutual::load(name, files);
    let mutual = configuration.tls.as_ref().map(load).transpose()?;
    Ok(mutual.map(|mutual| Security { mutual, controller: name.clone() }))
}
