//! What a controller does while it leads: its engine, and connections with nodes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use weft_mobility_protocol::NodeId;
use weft_mobility_transport::{Options, Security, Token, Transport, TransportError};

use crate::config::Configuration;
use crate::engine::{Engine, Handle, Surroundings};
use crate::journal::{Journal, JournalError, Recovered};
use crate::members::Members;
use crate::surroundings::Clock;

/// What it takes to lead.
#[derive(Debug)]
pub struct Means {
    pub configuration: Arc<Configuration>,
    pub token: Token,
    pub security: Option<Security>,
    pub handle: Handle,
    pub members: Members,
}

/// Why it cannot lead.
#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    /// Nodes cannot connect.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The machine has no thread for it.
    #[error("no thread for the controller: {0}")]
    Thread(io::Error),
}

/// A controller that leads.
#[derive(Debug)]
pub struct Lead {
    handle: Handle,
    engine: JoinHandle<()>,
    transport: Transport,
}

impl Means {
    /// Goes on where the journal ends. Nodes refuse controllers of a lower term than the
    /// highest that they have met. `ended` is called when the engine has to stop by itself.
    pub fn lead(
        &self,
        journal: Journal,
        recovered: Recovered,
        term: u64,
        ended: impl FnOnce(JournalError) + Send + 'static,
    ) -> Result<Lead, LeadError> {
        self.members.recover(&self.configuration, &recovered.members);
        let (received, waiting) = self.handle.begin();
        let deliver = self.handle.clone();
        let transport = Transport::start(self.options(term), move |event| deliver.deliver(event))?;
        let (configuration, sender) = (self.configuration.clone(), transport.sender());
        let members = self.members.clone();
        let work = move || {
            let around =
                Surroundings { network: Arc::new(sender), clock: Clock::default(), waiting };
            let engine = Engine::new(configuration, members, journal, &recovered, around);
            drop(recovered);
            if let Err(error) = engine.run(&received) {
                ended(error);
            }
        };
        let thread = thread::Builder::new().name("controller".to_owned());
        let engine = thread.spawn(work).map_err(LeadError::Thread)?;
        Ok(Lead { handle: self.handle.clone(), engine, transport })
    }

    fn options(&self, term: u64) -> Options {
        let configuration = &self.configuration;
        Options {
            node: NodeId::CONTROLLER,
            name: configuration.name.clone(),
            listen: configuration.listen,
            token: self.token.clone(),
            controllers: Vec::new(),
            term,
            places: self.members.places(),
            registration: None,
            admits: configuration.membership.is_some(),
            timing: configuration.timing,
            security: self.security.clone(),
        }
    }
}

impl Lead {
    /// The thread of it that has ended by itself, if one has.
    pub fn dead(&self) -> Option<&'static str> {
        let engine = self.engine.is_finished().then_some("controller");
        engine.or_else(|| self.transport.is_finished().then_some("handover"))
    }

    /// Where nodes connect.
    pub fn address(&self) -> SocketAddr {
        self.transport.address()
    }

    /// Stops. Nodes are let go first, so that they look for another controller.
    pub fn stop(self) {
        drop(self.transport);
        self.handle.stop();
        // The engine may have ended by itself.
        let _ = self.engine.join();
    }
}
