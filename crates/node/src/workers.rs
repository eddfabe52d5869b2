//! The workers as the agent sees them: what it shares with each, and what they have yet to do.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use rtrb::{Consumer as Inbox, Producer as Outbox};
use weft_compose::SlotShift;
use weft_dataplane::classify::UserKey;
use weft_dataplane::command::{Command, Replacement, Report, UserChange};
use weft_dataplane::counters::{DropReason, WorkerCounters};
use weft_dataplane::worker::Worker;
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
    /// Neighbour messages that the worker has received.
    pub neighbours: Consumer,
    /// Other packets of the worker for the agent.
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

/// All workers, by number.
pub(crate) struct Workers {
    links: Vec<Link>,
    shift: SlotShift,
    /// Commands about users that some worker has not finished.
    changing: usize,
    /// How many changes those are.
    waiting: usize,
    /// None where nothing asks.
    news: Option<KeyNews>,
}

/// What has changed of what users are found by.
#[derive(Debug, Default)]
pub(crate) struct KeyNews {
    /// Keys, and the slots of users that have them now; in order. They are bounded by the changes
    /// that workers are told of in one turn of the agent.
    pub keys: Vec<(UserKey, Option<u32>)>,
    /// The users of the configuration are others.
    pub is_reconfigured: bool,
    /// Nothing was taken yet: there may be users from the node's last life.
    pub is_first: bool,
}

impl Workers {
    /// These, in the order of their numbers.
    pub fn new(links: Vec<Link>) -> Workers {
        let shift = SlotShift::for_workers(links.len());
        Workers { links, shift, changing: 0, waiting: 0, news: None }
    }

    /// These workers do what they were sent, before they have threads.
    pub fn apply_commands(&mut self, workers: &mut [Worker]) {
        for (link, worker) in self.links.iter_mut().zip(workers) {
            while link.push_on() | worker.apply_commands() {}
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.links.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    /// All of them, to send to.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut()
    }

    /// Packets that they have dropped for any of these reasons.
    pub fn dropped(&self, reasons: &[DropReason]) -> u64 {
        let by = |link: &Link| {
            reasons.iter().map(|reason| link.counters.drops[*reason as usize].get()).sum::<u64>()
        };
        self.links.iter().map(by).sum()
    }

    /// How slots are dealt out to them.
    pub fn shift(&self) -> SlotShift {
        self.shift
    }

    /// The worker that owns a slot.
    pub fn owner(&self, slot: u32) -> usize {
        self.shift.worker(slot)
    }

    /// Sends a command to the worker that owns a slot.
    pub fn send_to_owner(&mut self, slot: u32, command: Command) {
        let owner = self.owner(slot);
        self.links[owner].send(command);
    }

    /// Keys that change from now on are kept to be taken.
    pub fn watch_keys(&mut self) {
        self.news = Some(KeyNews { is_reconfigured: true, is_first: true, ..KeyNews::default() });
    }

    /// What has changed of keys since they were last taken.
    pub fn take_key_news(&mut self) -> KeyNews {
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Tells a worker of users that change.
    pub fn change_users(&mut self, worker: usize, changes: Vec<UserChange>) {
        // All workers are told of keys.
        if let Some(news) = self.news.as_mut().filter(|_| worker == 0) {
            news.keys.extend(changes.iter().filter_map(|change| match change {
                UserChange::Key(key, slot) => Some((*key, Some(*slot))),
                UserChange::Unkey(key) => Some((*key, None)),
                _ => None,
            }));
        }
        if !changes.is_empty() {
            self.changing += 1;
            self.waiting += changes.len();
            self.links[worker].send(Command::Users(changes.into_boxed_slice()));
        }
    }

    /// Gives each worker, in this order: the users that leave, rules and functions in one
    /// piece, and the users that come or change.
    pub fn replace(
        &mut self,
        replacements: impl Iterator<Item = Replacement>,
        changes: Vec<Vec<UserChange>>,
    ) {
        if let Some(news) = &mut self.news {
            news.is_reconfigured = true;
        }
        for ((link, replacement), changes) in self.links.iter_mut().zip(replacements).zip(changes) {
            let leaves = |change: &UserChange| {
                matches!(
                    change,
                    UserChange::Unkey(_)
                        | UserChange::Remove { .. }
                        | UserChange::RemoveGroup { .. }
                )
            };
            let (leaving, coming): (Vec<_>, Vec<_>) = changes.into_iter().partition(leaves);
            self.waiting += leaving.len() + coming.len();
            link.send(Command::Users(leaving.into_boxed_slice()));
            link.send(Command::Replace(Box::new(replacement)));
            link.send(Command::Users(coming.into_boxed_slice()));
            self.changing += 2;
        }
    }

    /// A worker has made so many changes of users.
    pub fn note_changed(&mut self, changes: usize) {
        self.changing -= 1;
        self.waiting = self.waiting.saturating_sub(changes);
    }

    /// Whether users change that some worker has not finished with.
    pub fn is_changing(&self) -> bool {
        self.changing > 0
    }

    /// How many changes of users wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether all have taken everything that was sent, and have made all changes.
    pub fn is_settled(&self) -> bool {
        self.changing == 0 && self.links.iter().all(Link::is_idle)
    }
}

impl Index<usize> for Workers {
    type Output = Link;

    fn index(&self, worker: usize) -> &Link {
        &self.links[worker]
    }
}

impl IndexMut<usize> for Workers {
    fn index_mut(&mut self, worker: usize) -> &mut Link {
        &mut self.links[worker]
    }
}
