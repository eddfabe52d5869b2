//! The workers as the agent sees them: what it shares with each, and what they have yet to do.

mod assignment;
mod sharing;

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use rtrb::{Consumer as Inbox, Producer as Outbox};
use weft_compose::SlotShift;
use weft_dataplane::classify::UserKey;
use weft_dataplane::command::{Command, Replacement, Report, UserChange};
use weft_dataplane::counters::{DropReason, WorkerCounters};
use weft_dataplane::worker::Worker;
use weft_dpdk::{Consumer, Wakeup};

pub(crate) use self::assignment::{Assignment, Numbered};
use self::sharing::{improve, share};

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
    /// Ends its sleep, where it sleeps until something comes.
    pub wakeup: Option<Wakeup>,
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
        if any && let Some(wakeup) = &self.wakeup {
            wakeup.ring();
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
    /// None where they have no threads.
    threads: Option<Threads>,
}

/// The threads that run workers, as the agent deals workers out to them.
struct Threads {
    assignment: Arc<Assignment>,
    /// The first so many run; workers of the others are parked at these.
    count: usize,
    /// By the number of the worker: what it had carried at the last look, and since then.
    carried: Vec<u64>,
    loads: Vec<u64>,
    last_look: u64,
    /// By the number of the worker: looks until it may go to another thread again.
    rests: Vec<u32>,
}

/// How often it is looked whether threads have the same to do, in nanoseconds.
const LOOK_AT_LOADS: u64 = 10_000_000_000;
/// Looks at which a worker stays that has gone to another thread.
const RESTS: u32 = 6;
/// Time of sampled bursts in ten seconds, in nanoseconds, below which no thread has too much to
/// do: a hundredth of a core, of which one burst of sixteen is timed.
const WORTH_SHARING: u64 = LOOK_AT_LOADS / 100 / 16;

/// Why a node does not have so many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThreadsError {
    /// Not from one to as many as there are workers.
    #[error("the node has {workers} workers; from 1 to {workers} can have threads, not {wanted}")]
    Number {
        /// How many workers there are.
        workers: usize,
        /// How many threads were asked for.
        wanted: usize,
    },
    /// Who drives the node does so in a thread of its own.
    #[error("the node's workers have no threads of their own")]
    NoThreads,
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
        Workers { links, shift, changing: 0, waiting: 0, news: None, threads: None }
    }

    /// They have threads from now on, each its own.
    pub fn run_by(&mut self, assignment: Arc<Assignment>) {
        let count = self.links.len();
        self.threads = Some(Threads {
            assignment,
            count,
            carried: vec![0; count],
            loads: vec![0; count],
            last_look: 0,
            rests: vec![0; count],
        });
    }

    /// Has the first `count` threads run all workers from now on, each its own and some of the
    /// others: those are parked.
    ///
    /// # Errors
    /// [`ThreadsError`]; nothing has changed then.
    pub fn park(&mut self, count: usize) -> Result<(), ThreadsError> {
        let workers = self.links.len();
        let threads = self.threads.as_mut().ok_or(ThreadsError::NoThreads)?;
        if !(1..=workers).contains(&count) {
            return Err(ThreadsError::Number { workers, wanted: count });
        }
        threads.count = count;
        threads.rests.fill(0);
        threads.assignment.assign(&share(&threads.loads, count));
        Ok(())
    }

    /// By the number of the worker: the thread that is to run it. Empty where they have none.
    pub fn threads(&self) -> Vec<usize> {
        self.threads.as_ref().map_or_else(Vec::new, |threads| threads.assignment.wanted())
    }

    /// Whether each worker runs where it is to.
    pub fn are_assigned(&self) -> bool {
        self.threads.as_ref().is_none_or(|threads| threads.assignment.is_settled())
    }

    /// Looks whether a thread has more to do than another, and lets a parked worker go over.
    pub fn look_after_loads(&mut self, now: u64) {
        let Some(threads) = &mut self.threads else { return };
        if now.wrapping_sub(threads.last_look) < LOOK_AT_LOADS {
            return;
        }
        threads.last_look = now;
        for (worker, link) in self.links.iter().enumerate() {
            let (_, carried) = link.counters.times.get();
            threads.loads[worker] = carried.wrapping_sub(threads.carried[worker]);
            threads.carried[worker] = carried;
        }
        threads.balance();
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

impl Threads {
    /// One worker at most goes over, and stays there for some looks: a load that comes and goes
    /// does not send workers to and fro.
    fn balance(&mut self) {
        self.rests.iter_mut().for_each(|rest| *rest = rest.saturating_sub(1));
        let is_worth = self.loads.iter().any(|load| *load > WORTH_SHARING);
        if self.count == self.loads.len() || !is_worth {
            return;
        }
        let mut assigned = self.assignment.wanted();
        let may_move = |worker: usize| self.rests[worker] == 0;
        if let Some((worker, thread)) = improve(&self.loads, &assigned, self.count, may_move) {
            tracing::info!(worker, thread, "a parked worker goes to a thread with less to do");
            self.rests[worker] = RESTS;
            assigned[worker] = thread;
            self.assignment.assign(&assigned);
        }
    }
}
