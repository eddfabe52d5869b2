//! The way to the engine, from other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};

use tokio::sync::oneshot;
use weft_mobility_protocol::{Message, Step};
use weft_mobility_transport::Event;

use super::Engine;

/// Messages that wait for the engine; further ones are lost, and said again.
const MOST_WAITING: usize = 1 << 18;

/// Gives an answer to the thread that has asked.
pub(crate) type Answer = Box<dyn FnOnce() + Send>;

type Question = Box<dyn FnOnce(&mut Engine) -> Answer + Send>;

/// What the engine is given.
pub(crate) enum Input {
    /// By the transport.
    Arrived(Event),
    /// By a thread that wants to know or change something.
    Ask(Question),
    /// It is over.
    Stop,
}

/// The engine has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller is stopping")]
pub struct Stopped;

/// Asks the engine.
#[derive(Clone)]
pub struct Handle {
    inputs: mpsc::Sender<Input>,
    waiting: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// A way to an engine, and where it comes out.
pub(crate) fn inputs() -> (Handle, Receiver<Input>) {
    let (inputs, received) = mpsc::channel();
    (Handle { inputs, waiting: Arc::default() }, received)
}

impl Handle {
    /// Lets the engine do something, and waits for what comes of it: until that is durable.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, answered) = oneshot::channel();
        let question = move |engine: &mut Engine| {
            let said = question(engine);
            // The asker may have gone.
            Box::new(move || drop(answer.send(said))) as Answer
        };
        self.inputs.send(Input::Ask(Box::new(question))).map_err(|_| Stopped)?;
        answered.await.map_err(|_| Stopped)
    }

    /// Gives the engine what has arrived; false when too much waits, and for
    /// contexts, which are nothing to a controller and may be long.
    pub(crate) fn deliver(&self, event: Event) -> bool {
        let message = match &event {
            Event::Message(envelope) => Some(&envelope.message),
            Event::Connected(_) | Event::Lost(_) => None,
        };
        if matches!(message, Some(Message::Handover { step: Step::Contexts(_), .. })) {
            return false;
        }
        if message.is_some() && self.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            return false;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.inputs.send(Input::Arrived(event)).is_ok()
    }

    /// What waits of that which has arrived.
    pub(crate) fn waiting(&self) -> Arc<AtomicUsize> {
        self.waiting.clone()
    }

    pub(crate) fn stop(&self) {
        // It may have stopped by itself.
        let _ = self.inputs.send(Input::Stop);
    }
}
