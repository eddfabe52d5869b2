//! What a worker tells a function process about contexts, and the place that the
//! function has in the worker.
//!
//! Orders go over the control socket, packets over the ring. An order has a
//! number, and every packet carries that of the last order before it, so that the
//! process handles both in the order in which the worker did.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;

use serde_json::Value;
use weft_compose::{Burst, Instance, Kind, Outcome, Positions, Settings};
use weft_dpdk::{Annotations, Pool};
use weft_function::{ConfigError, ContextError, Scope, TunnelEnds};

use crate::supervisor::Question;

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
        /// The settings, as they were written.
        settings: Arc<Value>,
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
}

/// A function that is away: its place in a worker. Packets never visit it here;
/// the worker's [`Lane`](weft_lane::Lane) takes them to where it is.
#[derive(Debug)]
pub struct Away {
    kind: &'static Kind,
    scope: Scope,
    worker: u16,
    orders: Sender<Request>,
    last: Arc<AtomicU32>,
}

impl Away {
    /// The place of a function of that kind and scope.
    pub(crate) fn new(
        kind: &'static Kind,
        scope: Scope,
        worker: u16,
        orders: Sender<Request>,
        last: Arc<AtomicU32>,
    ) -> Away {
        Away { kind, scope, worker, orders, last }
    }

    fn order(&self, slot: u32, change: Change) {
        let number = self.last.load(Ordering::Relaxed).wrapping_add(1);
        self.last.store(number, Ordering::Relaxed);
        // The supervisor lives as long as the node.
        let order = Order { worker: self.worker, number, slot, change };
        let _ = self.orders.send(Request::Order(order));
    }
}

impl Instance for Away {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn visit(&mut self, _: &mut Burst, _: Positions, _: &mut Outcome) {}

    fn timer(&mut self, _: u32, _: u64, _: &Pool, _: &mut Outcome) {}

    /// Settings are checked by an instance on trial.
    fn check(&self, _: &Settings, _: u32) -> Result<(), ConfigError> {
        Ok(())
    }

    fn configure(&mut self, slot: u32, settings: &Settings, nth: u32) {
        self.order(slot, Change::Configure { nth, settings: settings.written().clone() });
    }

    fn tunnels(&self, _: &Settings, _: u32) -> TunnelEnds {
        TunnelEnds::new()
    }

    /// What the context holds is not at hand here, so no tunnel is told its end.
    fn end_tunnels(
        &mut self,
        _: u32,
        _: (&Settings, u32),
        _: &[Annotations; 2],
        _: &Pool,
        _: &mut Outcome,
    ) {
    }

    fn release(&mut self, slot: u32) {
        self.order(slot, Change::Release);
    }

    /// What the process holds is not at hand here: the supervisor is asked for it.
    fn export(&self, _: u32, _: u64, _: &mut Vec<u8>) {}

    fn import(&mut self, slot: u32, _: u64, bytes: &[u8]) -> Result<(), ContextError> {
        self.order(slot, Change::Import(bytes.to_vec()));
        Ok(())
    }

    fn adopt(&mut self, _: &mut dyn Instance) -> bool {
        false
    }

    fn show(&self, _: u32) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
