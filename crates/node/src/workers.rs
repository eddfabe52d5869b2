//! The agent's ends of what it shares with the workers.

use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::{Consumer as Inbox, Producer as Outbox};
use weft_dataplane::command::{Command, Report};
use weft_dataplane::counters::WorkerCounters;
use weft_dpdk::Consumer;

/// The agent's end of what it shares with one worker.
pub struct Link {
    /// Commands to the worker.
    pub commands: Outbox<Command>,
    /// Commands that found no room yet, in order.
    pub backlog: VecDeque<Command>,
    /// Commands that wait for a function to arrive, while one moves.
    pub aside: Option<VecDeque<Command>>,
    /// Reports of the worker.
    pub reports: Inbox<Report>,
    /// Packets of the worker.
    pub punts: Consumer,
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
}

impl Link {
    /// Sends a command, behind all that was sent before.
    pub fn send(&mut self, command: Command) {
        match &mut self.aside {
            Some(aside) if !command.passes() => aside.push_back(command),
            _ => self.send_first(command),
        }
    }

    /// The same, before commands that wait for a function.
    pub fn send_first(&mut self, command: Command) {
        self.backlog.push_back(command);
        self.push_on();
    }

    /// Lets commands wait that have to do with functions.
    pub fn hold(&mut self) {
        self.aside.get_or_insert_default();
    }

    /// Sends those that have waited.
    pub fn let_go(&mut self) {
        self.backlog.extend(self.aside.take().into_iter().flatten());
        self.push_on();
    }

    pub(crate) fn push_on(&mut self) -> bool {
        let mut any = false;
        while let Some(command) = self.backlog.pop_front() {
            match self.commands.push(command) {
                Ok(()) => any = true,
                Err(rtrb::PushError::Full(command)) => {
                    self.backlog.push_front(command);
                    break;
                }
            }
        }
        any
    }

    /// Whether the worker has taken everything that was sent.
    pub fn is_idle(&self) -> bool {
        self.backlog.is_empty()
            && self.aside.is_none()
            && self.commands.slots() == self.commands.buffer().capacity()
    }
}
