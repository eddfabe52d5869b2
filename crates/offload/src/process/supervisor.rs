//! The thread that looks after one function process: starts it, tells it what it
//! needs, and sees when it dies or stands still.

mod cgroup;
mod context_records;
mod gate;
mod plan;
mod process;
mod watch;

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use context_records::ContextRecords;
use gate::Gate;
pub use plan::{Plan, ResourceLimits, Restart, Start, StartError, Status, View};
use watch::Watch;
use weft_compose::SlotShift;
use weft_dataplane::offload::{Carrier, Options, Placeholder, RemoteQueue, Shared, WINDOW};
use weft_dataplane::service_path::VfPath;
use weft_dpdk::watchdog::{self, Watch as Watched};
use weft_dpdk::{Batch, Eal, Pool, Port, PortOptions};
use weft_function::{Setup, TagTable, TagValues, tags_written};

use crate::frame::{Form, ROOM};
use crate::process::carrier::{Frames, Sent};
use crate::process::inquiry::{ContextsAnswer, Question};
use crate::process::order::{ProcessOrders, Request};
use crate::process::protocol::{VERSION, Welcome};
use crate::vf::direct_path::Line;
use crate::vf::fabric;

/// Looks after one function process; ends it when dropped.
#[derive(Debug)]
pub struct Supervisor {
    instance: String,
    shared: Vec<Arc<Shared>>,
    view: Arc<Mutex<View>>,
    requests: Sender<Request>,
    answers: Receiver<ContextsAnswer>,
    /// Odd while the function is to be there; every change adds one.
    wanted: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The place of a function at one worker.
#[derive(Debug)]
pub struct WorkerEnd {
    /// What takes packets there and back.
    pub remote_queue: RemoteQueue,
    /// What stands for it in the rules.
    pub away: Placeholder,
    /// The other end of the queue, at the node's ports, where packets go through a NIC.
    pub endpoint: Option<VfPath>,
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
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let at = |path: &Path, error| StartError::Socket { path: path.to_owned(), error };
        eal.contain_truncation().map_err(|error| at(&plan.ring, error))?;
        let (instance, tags) = (plan.instance, plan.tags);
        let setup =
            Setup { instance, tags, contexts: 1, worker: 0, tsc_hz: 1, trial: true, events: None };
        let trial = plan.kind.make(plan.config, &setup, SlotShift::default())?;
        let (kind, scope) = (trial.kind(), trial.scope());
        let control = crate::process::control_path(&plan.ring);
        if let Some(folder) = plan.ring.parent() {
            std::fs::create_dir_all(folder).map_err(|error| at(folder, error))?;
        }
        let inner = crate::process::inner_path(&plan.ring);
        for path in [&plan.ring, &inner, &control] {
            process::remove_stale(path).map_err(|error| at(path, error))?;
        }
        let listener = UnixListener::bind(&control).map_err(|error| at(&control, error))?;
        listener.set_nonblocking(true).map_err(|error| at(&control, error))?;
        let now: Arc<dyn Fn() -> u64 + Send + Sync> = Arc::new(now);
        let number = 1000 + SERIAL.fetch_add(1, Ordering::Relaxed);
        let workers = plan.workers as u16;
        let device = format!("net_vhost{number},iface={},queues={workers}", inner.display());
        let options = PortOptions {
            rx_queues: workers,
            tx_queues: workers,
            descriptors: WINDOW as u16,
            steering: None,
            mtu: PortOptions::MAX_MTU,
        };
        // What comes back has a header around it, and every packet may come back.
        let buffers = 4 * WINDOW as u32 * u32::from(workers) - 1;
        let ring_pool = Pool::with_room(eal, plan.instance, buffers, ROOM)?;
        let port = match plan.fabric {
            Some(_) => None,
            None => Some(Port::open(eal, &device, &options, &ring_pool)?),
        };
        // Behind the port: what it listens at must be there when a function connects.
        let gate = port.as_ref().map(|_| Gate::start(plan.instance, &plan.ring, inner));
        let gate = gate.transpose().map_err(|error| at(&plan.ring, error))?;
        let sockets = [&plan.ring, &control];
        for path in &sockets[usize::from(port.is_none())..] {
            // A process that may write to a socket may attach.
            chown(path, plan.user, plan.user).map_err(|error| at(path, error))?;
        }
        let (orders, given) = channel();
        let (answer, answers) = channel();
        let path = match plan.fabric {
            Some(_) => fabric::PATHS + plan.number,
            None => plan.number,
        };
        let form = Form::new(path, plan.tags.iter().count());
        let writes = tags_written(plan.kind.writes, plan.tags);
        let mut ends = Vec::new();
        let mut shared = Vec::new();
        for worker in 0..workers {
            let ours = Arc::new(Shared::default());
            let last = Arc::new(AtomicU32::new(0));
            let (carrier, endpoint): (Box<dyn Carrier>, _) = match (&port, &plan.fabric) {
                (_, Some(fabric)) => {
                    let (carriage, endpoint) = fabric::new(fabric::Parts {
                        line: Line::new(
                            plan.number as u16,
                            tags.iter().count(),
                            (fabric.ends, fabric.peers.clone()),
                            worker,
                        ),
                        function: instance.to_owned(),
                        path,
                        orders: last.clone(),
                        pool: ring_pool.clone(),
                        timeout: fabric.timeout,
                        now: now.clone(),
                    });
                    (Box::new(carriage), Some(endpoint))
                }
                (Some(port), None) => {
                    let Some((rx, tx)) = port.take_rx(worker).zip(port.take_tx(worker)) else {
                        let error = io::Error::other("too many workers for one ring");
                        return Err(at(&plan.ring, error));
                    };
                    let frames = Frames {
                        rx,
                        tx,
                        form: (!plan.plain).then(|| form.clone()),
                        sent: Sent::new(plan.heartbeat),
                        orders: last.clone(),
                        pool: ring_pool.clone(),
                        leaving: Batch::new(),
                        coming: Batch::new(),
                    };
                    (Box::new(frames), None)
                }
                (None, None) => return Err(at(&plan.ring, io::ErrorKind::NotConnected.into())),
            };
            let options = Options { writes, policy: plan.policy, shared: ours.clone() };
            let remote_queue = RemoteQueue::new(carrier, options);
            let orders = ProcessOrders::new(worker, orders.clone(), last);
            let away = Placeholder::new(kind, scope, Box::new(orders));
            ends.push(WorkerEnd { remote_queue, away, endpoint });
            shared.push(ours);
        }
        let view = Arc::new(Mutex::new(View { heard: plan.wanted.into(), ..View::default() }));
        let wanted = Arc::new(AtomicU32::new(plan.wanted.into()));
        let stop = Arc::new(AtomicBool::new(false));
        let watch = Watch {
            kind,
            welcome: Welcome {
                version: VERSION,
                instance: plan.instance.to_owned(),
                config: plan.config.clone(),
                tags: written_tags(plan.tags),
                contexts: plan.contexts,
                workers,
                descriptors: match &plan.fabric {
                    Some(fabric) => fabric.descriptors,
                    None => WINDOW as u16,
                },
                path,
                fabric: plan.fabric.as_ref().map(|fabric| fabric.ends),
                peers: plan.fabric.iter().flat_map(|fabric| fabric.peers.to_vec()).collect(),
                max_sleep_us: plan.max_sleep_us,
            },
            ring: plan.ring.clone(),
            own_folder: plan.own_folder,
            plain: plan.plain,
            user: plan.user,
            limits: plan.limits.clone(),
            start: plan.start.clone(),
            heartbeat: plan.heartbeat,
            checkpoint: plan.checkpoint,
            port,
            _gate: gate,
            devices: plan.fabric.iter().flat_map(|one| one.devices.clone()).collect(),
            listener,
            requests: given,
            answers: answer,
            shared: shared.clone(),
            view: view.clone(),
            now: Box::new(move || now()),
            records: ContextRecords::new(workers, plan.contexts, kind.rollback),
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
            .map_err(|error| at(&plan.ring, error))?;
        let instance = plan.instance.to_owned();
        let requests = orders;
        let thread = Some(thread);
        let ours = Supervisor { instance, shared, view, requests, answers, wanted, stop, thread };
        Ok((ours, ends))
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
