//! What a page shows that changes by itself: one look at the node a second, for all clients
//! together.
//!
//! A thread asks the agent once a second, however many clients there are and whatever they
//! do. It keeps the history of the last quarter of an hour. While a client listens it also
//! watches some packets, a few bursts a second, which say how packets are shared
//! between rules and users. It begins with the first request for any of this, or at once
//! where the node serves a page.

mod answers;
mod flows;
mod history;
mod predicted;

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;
use weft_http::prepared::Prepared;
use weft_model::Calibration;
use weft_node::bearer::Event;
use weft_node::show::Snapshot;
use weft_node::{Handle, Stopped};

use self::answers::Answers;
use self::flows::Sample;
pub use self::flows::{Flow, Flows, UserRate};
use self::history::History;
pub use self::history::Past;
pub use self::predicted::{CalibrationView, ModelChange, ModelStep, ModelView, busy};
use crate::api::FunctionMoveView;

/// Time between two looks.
const SECOND: Duration = Duration::from_secs(1);
/// How often in a second packets are watched.
const SLICES: u32 = 8;
/// How long each time, at most: a tap ends by itself with its last packet.
const WATCHED: Duration = Duration::from_millis(10);
/// Seconds between two times where functions are on threads: while there is a tap they are
/// back at their workers.
const WITH_THREADS: u64 = 10;
/// Events that are remembered.
const EVENTS: usize = 256;
/// Seconds that the model predicts from.
const MODELLED: usize = 10;

/// One look at the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Look {
    /// Milliseconds since the beginning of 1970.
    pub time: u64,
    /// The counters.
    pub snapshot: Snapshot,
    /// How packets are shared between rules and users, from a sample; nothing before a client
    /// listens.
    pub flows: Flows,
    /// The last move of each function that has moved between this node and another.
    pub moves: Vec<FunctionMoveView>,
    /// What has happened since the look before.
    pub events: Vec<Event>,
    /// What the model says that the node could carry.
    #[serde(default)]
    pub model: ModelView,
}

/// What functions have moved; the live thread does not know where that is kept.
type Moves = Box<dyn Fn() -> Vec<FunctionMoveView> + Send + Sync>;

/// The looks at one node.
pub(crate) struct Live {
    handle: Handle,
    moves: Moves,
    calibration: Option<Calibration>,
    begun: Once,
    kept: Mutex<Kept>,
    /// The last look, as an event of a stream; empty before the first.
    told: watch::Sender<Bytes>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

#[derive(Default)]
struct Kept {
    /// The last looks, the newest at the end.
    looks: VecDeque<Arc<Snapshot>>,
    history: History,
    events: VecDeque<Event>,
    /// What the model said, and when on the node's clock.
    model: Option<(u64, Arc<ModelView>)>,
    /// What was answered since the last look.
    answers: Answers,
}

impl Live {
    /// Looks at the node behind `handle`, not before [`Live::begin`].
    pub fn new(handle: Handle, moves: Moves, calibration: Option<Calibration>) -> Arc<Live> {
        let (begun, kept) = (Once::new(), Mutex::default());
        let told = watch::Sender::new(Bytes::new());
        Arc::new(Live { handle, moves, calibration, begun, kept, told })
    }

    /// Looks at the node from now on, once a second.
    pub fn begin(self: &Arc<Self>) {
        self.begun.call_once(|| {
            let live = Arc::downgrade(self);
            let handle = self.handle.clone();
            let looking = thread::Builder::new().name("live".to_owned()).spawn(move || {
                // The node has stopped, or is served no more.
                let _ = look_on(&live, &handle);
            });
            if let Err(error) = looking {
                tracing::error!(%error, "no thread that looks at the node");
            }
        });
    }

    /// The last look, as the bytes of an event; what is there now counts as seen.
    pub fn listen(self: &Arc<Self>) -> watch::Receiver<Bytes> {
        self.begin();
        self.told.subscribe()
    }

    /// The counters at the last look, if there was one.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.kept().looks.back().cloned()
    }

    /// The same as an answer.
    pub fn snapshot_answer(&self) -> Option<Prepared> {
        let mut kept = self.kept();
        let Kept { looks, answers, .. } = &mut *kept;
        let look = looks.back()?;
        Some(answers.snapshot.get_or_insert_with(|| Prepared::json(&**look)).clone())
    }

    /// What the model says of the last seconds; computed once for each look.
    pub fn model_answer(self: &Arc<Self>) -> Prepared {
        self.begin();
        let mut kept = self.kept();
        let model = self.predict(&mut kept);
        kept.answers.model.get_or_insert_with(|| Prepared::json(&*model)).clone()
    }

    fn predict(&self, kept: &mut Kept) -> Arc<ModelView> {
        let Some(now) = kept.looks.back().cloned() else { return Arc::default() };
        if let Some((at, model)) = &kept.model
            && *at == now.uptime
        {
            return model.clone();
        }
        let before = kept.looks.front().filter(|before| before.uptime < now.uptime);
        let model = predicted::predict(before.map(|it| &**it), &now, self.calibration.as_ref());
        let model = Arc::new(model);
        kept.model = Some((now.uptime, model.clone()));
        model
    }

    /// What was seen of the node, a port or a function in the last quarter of an hour; none
    /// where there is no such place.
    pub fn past_answer(self: &Arc<Self>, of: Option<&str>) -> Option<Prepared> {
        self.begin();
        let Kept { history, answers, .. } = &mut *self.kept();
        answers.past(of, || history.of(of))
    }

    /// The last events, oldest first.
    pub fn events_answer(self: &Arc<Self>) -> Prepared {
        self.begin();
        let Kept { events, answers, .. } = &mut *self.kept();
        answers.events.get_or_insert_with(|| Prepared::json(events)).clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // No code panics while it has the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what was seen, and tells those that listen.
    fn tell(&self, snapshot: Snapshot, sample: &mut Sample, events: Vec<Event>) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut kept = self.kept();
        kept.answers = Answers::default();
        let before = kept.looks.back().cloned();
        kept.history.enter(time, before.as_deref(), &snapshot);
        kept.events.extend(events.iter().cloned());
        let old = kept.events.len().saturating_sub(EVENTS);
        kept.events.drain(..old);
        if before.as_ref().is_some_and(|before| before.uptime > snapshot.uptime) {
            kept.looks.clear();
        }
        kept.looks.push_back(Arc::new(snapshot.clone()));
        if kept.looks.len() > MODELLED + 1 {
            kept.looks.pop_front();
        }
        drop(kept);
        if self.told.receiver_count() == 0 {
            return;
        }
        let flows = sample.flows(before.as_deref(), &snapshot);
        let model = (*self.predict(&mut self.kept())).clone();
        let look = Look { time, snapshot, flows, moves: (self.moves)(), events, model };
        let mut event = b"event: look\ndata: ".to_vec();
        // Writing to memory cannot fail, and JSON has no line feeds.
        let _ = serde_json::to_writer(&mut event, &look);
        event.extend(b"\n\n");
        self.told.send_replace(event.into());
    }
}

/// Looks at the node until it stops, or until no server is left.
fn look_on(live: &Weak<Live>, handle: &Handle) -> Result<(), Stopped> {
    let events: Receiver<Event> = handle.ask(|agent| agent.listen())?;
    let mut sample = Sample::default();
    let mut next = Instant::now();
    for second in 0.. {
        let snapshot = handle.ask(|agent| agent.snapshot())?;
        let has_threads = snapshot.functions.iter().any(|function| function.stage.is_some());
        let Some(live) = live.upgrade() else { break };
        live.tell(snapshot, &mut sample, events.try_iter().take(EVENTS).collect());
        let watched = live.told.receiver_count() > 0;
        drop(live);
        next = (next + SECOND).max(Instant::now());
        match (watched, has_threads) {
            (false, _) => sample.clear(),
            (true, false) => watch_in_slices(handle, &mut sample, next)?,
            // As many packets at once as otherwise in a second.
            (true, true) if second % WITH_THREADS == 1 => {
                watch_packets(handle, &mut sample, SLICES)?;
                name_users(handle, &mut sample)?;
            }
            (true, true) => {}
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Watches a few bursts in each part of the second that ends at `end`.
fn watch_in_slices(handle: &Handle, sample: &mut Sample, end: Instant) -> Result<(), Stopped> {
    let begin = Instant::now();
    let part = end.saturating_duration_since(begin) / SLICES;
    for slice in 0..SLICES {
        watch_packets(handle, sample, 1)?;
        // Ports and users that send in step with the slices would be seen too often or never.
        let until = begin + part * slice + part.mul_f64(0.1 + 0.8 * sample.chance());
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }
    name_users(handle, sample)
}

/// Watches so many bursts at each worker.
fn watch_packets(handle: &Handle, sample: &mut Sample, bursts: u32) -> Result<(), Stopped> {
    let watching = handle.ask(move |agent| agent.watch(&flows::watch(bursts)))?;
    thread::sleep(WATCHED);
    let number = watching.number;
    handle.tell(move |agent| agent.unwatch(number))?;
    sample.enter(watching.sightings.try_iter());
    Ok(())
}

/// Asks for the names of the users that were seen most: once for all of them.
fn name_users(handle: &Handle, sample: &mut Sample) -> Result<(), Stopped> {
    let unknown = sample.unknown_users();
    if !unknown.is_empty() {
        let asked = unknown.clone();
        let names = handle.ask(move |agent| agent.user_names(&asked))?;
        sample.name_users(&unknown, names);
    }
    Ok(())
}
