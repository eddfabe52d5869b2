//! A controller that runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::{io, mem};

use weft_http::tls::{Mutual, TlsError};
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::{
    Options, PeerAddress, Security, Token, TokenError, Transport, TransportError,
};

use crate::api::{Listening, ServeError, Serving};
use crate::config::Configuration;
use crate::engine::{Engine, Handle, inputs};
use crate::journal::{Journal, JournalError};

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

/// A controller, until it is stopped.
#[derive(Debug)]
pub struct Controller {
    handle: Handle,
    engine: JoinHandle<()>,
    transport: Transport,
    serving: Serving,
}

impl Controller {
    /// Starts a controller: its API at `socket`, and where the configuration says.
    /// `ended` is called when it has to stop by itself, with the reason.
    ///
    /// # Errors
    /// [`StartError`]; above all when another one runs.
    pub fn start(
        configuration: Configuration,
        socket: PathBuf,
        ended: impl FnOnce(JournalError) + Send + 'static,
    ) -> Result<Controller, StartError> {
        let token = Token::load(&configuration.token_file)?;
        let security = security(&configuration)?;
        let listening = Listening::claim(&configuration, socket)?;
        let (journal, mut recovered) = Journal::open(&configuration.records)?;
        if recovered.cut_off > 0 {
            let octets = recovered.cut_off;
            tracing::warn!(octets, "records: what was being written at the last stop was cut off");
        }
        let (handle, received) = inputs();
        let deliver = handle.clone();
        let transport = Transport::start(options(&configuration, token, security), move |event| {
            deliver.deliver(event)
        })?;
        let configuration = Arc::new(configuration);
        let engine = {
            let (configuration, sender) = (configuration.clone(), transport.sender());
            let recovered = mem::take(&mut recovered);
            let waiting = handle.waiting();
            let work = move || {
                let engine = Engine::new(configuration, journal, &recovered, sender, waiting);
                drop(recovered);
                if let Err(error) = engine.run(&received) {
                    ended(error);
                }
            };
            let thread = thread::Builder::new().name("controller".to_owned());
            thread.spawn(work).map_err(StartError::Thread)?
        };
        let serving = listening.serve(handle.clone(), configuration)?;
        Ok(Controller { handle, engine, transport, serving })
    }

    /// The thread of it that has ended by itself, if one has.
    pub fn dead(&self) -> Option<&'static str> {
        let engine = self.engine.is_finished().then_some("controller");
        let handover = || self.transport.is_finished().then_some("handover");
        engine.or_else(handover).or_else(|| self.serving.dead())
    }

    /// Where nodes connect.
    pub fn address(&self) -> SocketAddr {
        self.transport.address()
    }

    /// Where the API is served over TCP.
    pub fn api(&self) -> Option<SocketAddr> {
        self.serving.remote()
    }

    /// Where the API is served.
    pub fn socket(&self) -> &Path {
        self.serving.socket()
    }

    /// Asks the engine.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops it. What is under way goes on when it starts again.
    pub fn stop(self) {
        self.serving.stop();
        self.handle.stop();
        // The engine may have ended by itself.
        let _ = self.engine.join();
    }
}

fn security(configuration: &Configuration) -> Result<Option<Security>, TlsError> {
    let name = &configuration.name;
    let load = |files| Mutual::load(name, files);
    let mutual = configuration.tls.as_ref().map(load).transpose()?;
    Ok(mutual.map(|mutual| Security { mutual, controller: name.clone() }))
}

fn options(configuration: &Configuration, token: Token, security: Option<Security>) -> Options {
    let place = |node: &crate::config::Node| PeerAddress {
        node: node.number,
        name: node.name.clone(),
        address: node.address.clone(),
    };
    Options {
        node: NodeId::CONTROLLER,
        name: configuration.name.clone(),
        listen: configuration.listen,
        token,
        controller: None,
        places: configuration.nodes.iter().map(place).collect(),
        timing: configuration.timing,
        security,
    }
}
