//! The way to the engine, from other threads.

use std::any::Any;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use weft_mobility_protocol::{Message, Step};
use weft_mobility_transport::Event;

use super::Engine;

/// Messages that wait for the engine; further ones are lost, and said again.
const MOST_WAITING: usize = 1 << 18;

/// Gives an answer to the thread that has asked.
pub type Answer = Box<dyn FnOnce() + Send>;

/// Asks or changes something, and says what came of it once that is durable.
pub type Question = Box<dyn FnOnce(&mut Engine) -> Answer + Send>;

/// What the engine is given.
pub enum Input {
    /// By the transport.
    Arrived(Event),
    /// By a thread that wants to know or change something.
    Ask(Question),
    /// It is over.
    Stop,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Input")
    }
}

/// There is no engine: it has stopped, or another replica leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller is stopping")]
pub struct Stopped;

/// Asks the engine, while there is one.
#[derive(Clone, Default)]
pub struct Handle(Arc<Mutex<Option<Way>>>);

/// The way to one engine.
#[derive(Clone)]
struct Way {
    inputs: mpsc::Sender<Input>,
    waiting: Arc<AtomicUsize>,
    number: u64,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

impl Handle {
    /// Connects the handle to a new engine. The engine reads inputs from the receiver; the
    /// counter says how many of them it has not read yet.
    pub(crate) fn begin(&self) -> (Receiver<Input>, Arc<AtomicUsize>) {
        let (inputs, received) = mpsc::channel();
        let waiting: Arc<AtomicUsize> = Arc::default();
        static ENGINES: AtomicU64 = AtomicU64::new(0);
        let number = ENGINES.fetch_add(1, Ordering::Relaxed);
        *self.way() = Some(Way { inputs, waiting: waiting.clone(), number });
        (received, waiting)
    }

    /// Disconnects the handle, and stops the engine.
    pub(crate) fn stop(&self) {
        if let Some(way) = self.way().take() {
            // It may have stopped by itself.
            let _ = way.inputs.send(Input::Stop);
        }
    }

    /// Which engine there is, if there is one: each has another number.
    pub fn engine(&self) -> Option<u64> {
        self.way().as_ref().map(|way| way.number)
    }

    fn way(&self) -> MutexGuard<'_, Option<Way>> {
        // What is locked is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the engine do something, and waits for what comes of it: until that is durable.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        // One channel for answers of all types, so that the compiler makes the code of one.
        let (answer, answered) = oneshot::channel::<Box<dyn Any + Send>>();
        let question = move |engine: &mut Engine| {
            let said = Box::new(question(engine));
            // The asker may have gone.
            Box::new(move || drop(answer.send(said))) as Answer
        };
        self.pass_on(Box::new(question))?;
        let said = answered.await.map_err(|_| Stopped)?;
        said.downcast().map(|said| *said).map_err(|_| Stopped)
    }

    /// Lets the engine do something, and does not wait for what comes of it: `done` is called
    /// once it is durable.
    ///
    /// # Errors
    /// [`Stopped`]; `done` is not called then.
    pub fn tell(
        &self,
        order: impl FnOnce(&mut Engine) + Send + 'static,
        done: Box<dyn FnOnce() + Send>,
    ) -> Result<(), Stopped> {
        self.pass_on(Box::new(move |engine: &mut Engine| {
            order(engine);
            done as Answer
        }))
    }

    /// Asks the engine from a thread that may wait.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn ask_and_wait<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, answered) = mpsc::sync_channel(1);
        let question = move |engine: &mut Engine| {
            let said = question(engine);
            // The asker may have gone.
            Box::new(move || drop(answer.send(said))) as Answer
        };
        self.pass_on(Box::new(question))?;
        answered.recv().map_err(|_| Stopped)
    }

    fn pass_on(&self, question: Question) -> Result<(), Stopped> {
        let way = self.way().clone().ok_or(Stopped)?;
        way.inputs.send(Input::Ask(question)).map_err(|_| Stopped)
    }

    /// Gives the engine what has arrived; false when too much waits, and for
    /// contexts, which are nothing to a controller and may be long.
    pub(crate) fn deliver(&self, event: Event) -> bool {
        let message = match &event {
            Event::Message(envelope) => Some(&envelope.message),
            Event::Connected(_) | Event::Lost(_) => None,
            // Said again when the node comes again.
            Event::Registered(_)
            | Event::Reported(..)
            | Event::Loaded(..)
            | Event::Process(..)
            | Event::Share(..)
            | Event::N4(..)
            | Event::Sessions(..) => {
                return self.deliver_unless_full(event);
            }
            // Of a node only.
            Event::Settings(..) | Event::Upgrade(_) | Event::Asked(_) => return false,
        };
        if matches!(message, Some(Message::Handover { step: Step::Contexts(_), .. })) {
            return false;
        }
        let is_message = message.is_some();
        self.pass(event, is_message)
    }

    /// Passes on what may be lost.
    fn deliver_unless_full(&self, event: Event) -> bool {
        self.pass(event, true)
    }

    fn pass(&self, event: Event, may_be_lost: bool) -> bool {
        let Some(way) = self.way().clone() else { return false };
        if may_be_lost && way.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            return false;
        }
        way.waiting.fetch_add(1, Ordering::Relaxed);
        way.inputs.send(Input::Arrived(event)).is_ok()
    }
}
