//! What a worker tells a function process about contexts.
//!
//! Orders go over the control socket, packets over the ring. An order has a
//! number, and every packet carries that of the last order before it, so that the
//! process handles both in the order in which the worker did.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;

use weft_compose::Settings;
use weft_dataplane::offload::ContextOrders;
use weft_function::ContextError;

use crate::process::inquiry::Question;

/// One order.
#[derive(Clone, Debug)]
pub struct Order {
    /// The worker that gives it.
    pub worker: u16,
    /// Its number among those of this worker, from 1; it wraps.
    pub number: u32,
    /// Slot of the context.
    pub slot: u32,
    /// What becomes of the context.
    pub change: Change,
}

/// What becomes of a context.
#[derive(Clone, Debug)]
pub enum Change {
    /// It gets settings, those of the `nth` user that they were written for.
    Configure {
        /// Which user, from 0.
        nth: u32,
        /// The settings, as they were written (JSON).
        settings: Arc<str>,
    },
    /// It starts afresh.
    Release,
    /// It becomes what was exported, with version and time in front.
    Import(Vec<u8>),
}

/// What a supervisor is told and asked, one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// By a worker.
    Order(Order),
    /// By the agent.
    Question(Question),
    /// The ring lies there now, and the socket beside it.
    Placed(PathBuf),
}

/// Changes of the contexts of one function, as one worker orders them of its supervisor.
#[derive(Debug)]
pub(crate) struct ProcessOrders {
    worker: u16,
    orders: Sender<Request>,
    last: Arc<AtomicU32>,
}

impl ProcessOrders {
    /// Orders of one worker; `last` has the number of the last.
    pub(crate) fn new(worker: u16, orders: Sender<Request>, last: Arc<AtomicU32>) -> ProcessOrders {
        ProcessOrders { worker, orders, last }
    }

    fn order(&self, slot: u32, change: Change) {
        let number = self.last.load(Ordering::Relaxed).wrapping_add(1);
        self.last.store(number, Ordering::Relaxed);
        // The supervisor lives as long as the node.
        let order = Order { worker: self.worker, number, slot, change };
        let _ = self.orders.send(Request::Order(order));
    }
}

impl ContextOrders for ProcessOrders {
    fn configure(&self, slot: u32, settings: &Settings, nth: u32) {
        self.order(slot, Change::Configure { nth, settings: settings.text() });
    }

    fn release(&self, slot: u32) {
        self.order(slot, Change::Release);
    }

    fn import(&self, slot: u32, octets: &[u8]) -> Result<(), ContextError> {
        self.order(slot, Change::Import(octets.to_vec()));
        Ok(())
    }
}
