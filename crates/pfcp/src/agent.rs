//! The agent of a node as what sessions are changed by.

use std::sync::mpsc::Receiver;

use weft_node::bearer::Event;
use weft_node::bearer::session::{Keep, Kept, SessionCommand, SessionEvent, SessionsChanged};
use weft_node::{Done, Handle, Stopped};

use crate::server::DataPlane;

impl DataPlane for Handle {
    fn change(&self, commands: Vec<SessionCommand>) -> Result<SessionsChanged, Stopped> {
        self.ask(move |agent| agent.change_sessions(&commands))
    }

    fn session_events(&self) -> Result<Receiver<SessionEvent>, Stopped> {
        self.ask(|agent| agent.listen_to_sessions())
    }

    fn peer_events(&self) -> Result<Receiver<Event>, Stopped> {
        self.ask(|agent| agent.listen())
    }

    fn kept(&self) -> Result<Kept, Stopped> {
        self.ask(|agent| agent.kept())
    }

    fn keep(&self, keep: Vec<Keep>, reported: u64, done: Done) -> Result<(), Stopped> {
        self.tell(move |agent| agent.keep(keep, reported, done))
    }

    fn hold(&self, is_held: bool) -> Result<bool, Stopped> {
        self.ask(move |agent| agent.hold_sessions(is_held))
    }

    fn now(&self) -> Result<u64, Stopped> {
        self.ask(|agent| agent.snapshot().uptime)
    }
}
