//! Processes that take turns: each is a thread, and one of them runs at a time, until it waits.
//!
//! So code that waits for answers runs as it is, and what happens follows from the order in
//! which processes are given their turns.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The process waits for its next turn.
    Waits,
    /// It has ended.
    Over,
    /// It has ended by a panic.
    Panicked(String),
}

/// What a process that is killed unwinds with.
struct Killed;

/// The end of a process that its thread has.
struct Own {
    id: ProcessId,
    go: Receiver<bool>,
    say: Sender<Ended>,
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// The process that asks.
pub fn own() -> Option<ProcessId> {
    OWN.with_borrow(|own| own.as_ref().map(|own| own.id))
}

/// Ends the turn of the process that calls, and returns with its next one.
pub fn pause() {
    let goes_on = OWN.with_borrow(|own| {
        let own = own.as_ref()?;
        own.say.send(Ended::Waits).ok()?;
        own.go.recv().ok()
    });
    if goes_on != Some(true) {
        resume_unwind(Box::new(Killed));
    }
}

/// All processes; those that are left end when it is dropped.
#[derive(Default)]
pub struct Processes {
    next: u64,
    all: BTreeMap<ProcessId, Process>,
}

struct Process {
    go: SyncSender<bool>,
    said: Receiver<Ended>,
    thread: JoinHandle<()>,
}

impl Processes {
    /// Makes a process, which begins with its first turn.
    ///
    /// # Errors
    /// When the machine has no thread for it.
    pub fn start(&mut self, work: impl FnOnce() + Send + 'static) -> std::io::Result<ProcessId> {
        self.next += 1;
        let id = ProcessId(self.next);
        let ((go, gone), (say, said)) = (sync_channel(1), channel());
        let body = move || {
            if gone.recv() != Ok(true) {
                return;
            }
            let ended = say.clone();
            OWN.set(Some(Own { id, go: gone, say }));
            // What it logs is not of this machine.
            let quiet = tracing::subscriber::NoSubscriber::default();
            let work = || tracing::subscriber::with_default(quiet, work);
            let how = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(()) => Ended::Over,
                Err(payload) if payload.is::<Killed>() => Ended::Over,
                Err(payload) => Ended::Panicked(text(payload.as_ref())),
            };
            // Who drops all processes listens to none.
            let _ = ended.send(how);
        };
        let thread = thread::Builder::new().name("simulated".to_owned()).spawn(body)?;
        self.all.insert(id, Process { go, said, thread });
        Ok(id)
    }

    /// Gives a process its turn, and waits until that ends.
    pub fn resume(&mut self, id: ProcessId) -> Ended {
        self.turn(id, true)
    }

    /// Ends a process at the point where it waits.
    pub fn kill(&mut self, id: ProcessId) {
        self.turn(id, false);
    }

    fn turn(&mut self, id: ProcessId, goes_on: bool) -> Ended {
        let Some(process) = self.all.get(&id) else { return Ended::Over };
        let told = process.go.send(goes_on).is_ok();
        let ended = process.said.recv().ok().filter(|_| told).unwrap_or(Ended::Over);
        if ended != Ended::Waits
            && let Some(process) = self.all.remove(&id)
        {
            // How it ended is known.
            let _ = process.thread.join();
        }
        ended
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for id in self.all.keys().copied().collect::<Vec<_>>() {
            self.kill(id);
        }
    }
}

fn text(payload: &(dyn std::any::Any + Send)) -> String {
    let said = payload.downcast_ref::<String>().cloned();
    said.or_else(|| payload.downcast_ref::<&str>().map(|said| (*said).to_owned()))
        .unwrap_or_default()
}
