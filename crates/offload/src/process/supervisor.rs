//! The thread that looks after one function process: starts it, tells it what it
//! needs, and sees when it dies or stands still.

mod cgroup;
mod context_records;
mod ends;
mod gate;
mod plan;
mod process;
mod sockets;
mod watch;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use context_records::ContextRecords;
pub use ends::WorkerEnd;
use ends::WorkerEnds;
pub use plan::{Plan, ResourceLimits, Restart, Start, StartError, Status, View};
use sockets::Sockets;
use watch::Watch;
use weft_compose::{Instance, SlotShift};
use weft_dataplane::offload::{Shared, WINDOW};
use weft_dpdk::Eal;
use weft_dpdk::watchdog::{self, Watch as Watched};
use weft_function::{Setup, TagTable, TagValues};

use crate::process::inner_path;
use crate::process::inquiry::{ContextsAnswer, Question};
use crate::process::order::Request;
use crate::process::protocol::{VERSION, Welcome};

/// Looks after one function process; ends it when dropped.
#[derive(Debug)]
pub struct Supervisor {
    instance: String,
    ring: PathBuf,
    shared: Vec<Arc<Shared>>,
    view: Arc<Mutex<View>>,
    requests: Sender<Request>,
    answers: Receiver<ContextsAnswer>,
    /// Odd while the function is to be there; every change adds one.
    wanted: Arc<AtomicU32>,
    /// Another process of the node has the places of the sockets.
    given_away: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// Makes ring and socket and starts looking after them. `now` is the clock of
    /// the node, in nanoseconds.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        eal: &Eal,
        plan: &Plan<'_>,
        now: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<(Supervisor, Vec<WorkerEnd>), StartError> {
        let trial = on_trial(plan)?;
        let (kind, scope) = (trial.kind(), trial.scope());
        let sockets = Sockets::open(eal, plan)?;
        let now: Arc<dyn Fn() -> u64 + Send + Sync> = Arc::new(now);
        let (requests, asked) = channel();
        let (answer, answers) = channel();
        let ends =
            WorkerEnds { plan, kind, scope, sockets: &sockets, requests: &requests, now: &now };
        let (ends, shared): (Vec<_>, Vec<_>) = ends.make()?.into_iter().unzip();
        let view = Arc::new(Mutex::new(View { heard: plan.wanted.into(), ..View::default() }));
        let wanted = Arc::new(AtomicU32::new(plan.wanted.into()));
        let [given_away, stop] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let watch = Watch {
            kind,
            welcome: welcome(plan),
            ring: plan.ring.clone(),
            inner: inner_path(&plan.ring),
            given_away: given_away.clone(),
            own_folder: plan.own_folder,
            plain: plan.plain,
            user: plan.user,
            limits: plan.limits.clone(),
            start: plan.start.clone(),
            heartbeat: plan.heartbeat,
            checkpoint: plan.checkpoint,
            port: sockets.port,
            _gate: sockets.gate,
            devices: plan.fabric.iter().flat_map(|one| one.devices.clone()).collect(),
            listener: sockets.listener,
            requests: asked,
            answers: answer,
            shared: shared.clone(),
            view: view.clone(),
            now: Box::new(move || now()),
            records: ContextRecords::new(plan.workers as u16, plan.contexts, kind.rollback),
            inquiries: VecDeque::new(),
            fences: 0,
            was_up: false,
            wanted: wanted.clone(),
            heard: plan.wanted.into(),
            process: None,
            session: None,
            restart: plan.restart,
            pause: plan.restart.first,
            next_start: Instant::now(),
        };
        let told = stop.clone();
        let thread = thread::Builder::new()
            .name(format!("function-{}", plan.number))
            .spawn(move || watchdog::watched(Watched::Life, || watch.run(&told)))
            .map_err(|error| StartError::at(&plan.ring, error))?;
        let (instance, ring) = (plan.instance.to_owned(), plan.ring.clone());
        let thread = Some(thread);
        let ours = Supervisor {
            instance,
            ring,
            shared,
            view,
            requests,
            answers,
            wanted,
            given_away,
            stop,
            thread,
        };
        Ok((ours, ends))
    }

    /// The function's sockets lie at `ring` from now on, in place of those that another process
    /// of the node has there.
    ///
    /// # Errors
    /// When the file system does not let us; they lie where they were.
    pub fn put_in_place(&mut self, ring: &Path) -> io::Result<()> {
        sockets::put_in_place(&self.ring, ring)?;
        self.ring = ring.to_owned();
        // The thread lives as long as we do.
        let _ = self.requests.send(Request::Placed(ring.to_owned()));
        Ok(())
    }

    /// Another process of the node has put its sockets in place of those of this function: they
    /// are left alone.
    pub fn give_away(&self) {
        self.given_away.store(true, Ordering::Release);
    }

    /// Whether the function is to be in its process. One that the node starts does not run
    /// while it is not.
    pub fn want(&self, wanted: bool) {
        let before = self.wanted.load(Ordering::Relaxed);
        if (before & 1 == 1) != wanted {
            self.wanted.store(before.wrapping_add(1), Ordering::Release);
        }
    }

    /// Whether it is there, and stays: what was wanted last has been heard.
    pub fn is_there(&self) -> bool {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.status == Status::Running && view.heard == self.wanted.load(Ordering::Relaxed)
    }

    /// Name of the instance.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Asks for contexts, behind all orders that workers have given. The answer is one of
    /// [`answers`](Self::answers), whatever becomes of the process.
    pub fn ask(&self, question: Question) {
        // The thread lives as long as we do.
        let _ = self.requests.send(Request::Question(question));
    }

    /// Answers that have come.
    pub fn answers(&self) -> impl Iterator<Item = ContextsAnswer> + '_ {
        self.answers.try_iter()
    }

    /// What is known of the process.
    pub fn view(&self) -> View {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for shared in &self.shared {
            view.away += u64::from(shared.away());
            view.lost += u64::from(shared.lost());
            view.strays += u64::from(shared.strays());
        }
        view
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there was logged.
            let _ = thread.join();
        }
    }
}

/// The function, made to see what it is.
fn on_trial(plan: &Plan<'_>) -> Result<Box<dyn Instance>, StartError> {
    let (instance, tags) = (plan.instance, plan.tags);
    let setup =
        Setup { instance, tags, contexts: 1, worker: 0, tsc_hz: 1, trial: true, events: None };
    Ok(plan.kind.make(plan.config, &setup, SlotShift::default())?)
}

/// What the process is told when it attaches.
fn welcome(plan: &Plan<'_>) -> Welcome {
    let fabric = plan.fabric.as_ref();
    Welcome {
        version: VERSION,
        instance: plan.instance.to_owned(),
        config: plan.config.clone(),
        tags: written_tags(plan.tags),
        contexts: plan.contexts,
        workers: plan.workers as u16,
        descriptors: fabric.map_or(WINDOW as u16, |fabric| fabric.descriptors),
        path: plan.path(),
        fabric: fabric.map(|fabric| fabric.ends),
        peers: fabric.iter().flat_map(|fabric| fabric.peers.to_vec()).collect(),
        max_sleep_us: plan.max_sleep_us,
    }
}

/// The tags with the names of their values, as they go over the socket.
fn written_tags(tags: &TagTable) -> Vec<(String, Option<Vec<String>>)> {
    let written = |(name, values): (&str, &TagValues)| {
        let values = match values {
            TagValues::Named(names) => Some(names.clone()),
            TagValues::Number => None,
        };
        (name.to_owned(), values)
    };
    tags.iter().map(written).collect()
}
