//! Functions on a thread of their own: a chain that is split over processor cores.
//!
//! A *stage* is one more thread. Each worker deploys instances of functions there and
//! sends it packets, in [`Parcel`]s: what of a burst goes there. The stage lets them visit its
//! functions, from one to the next as long as they stay there, and sends the parcel
//! back, and the worker lets packets go on. Between worker and stage lie rings with one
//! producer and one consumer each, and each parcel names the last order before it, so
//! settings and packets keep one order.
//!
//! What a function asks for beyond a verdict is the worker's to do, who keeps packets. A
//! stage whose function asked for something that concerns the order of packets waits for
//! the worker's answer, in which packets come back that go on there, and only then turns
//! to the worker's next parcel: so none of them is overtaken.
//!
//! Whatever else a worker does with its functions, it does with those that are at hand:
//! it stops receiving, waits until nothing is away, and recalls its instances. While
//! they are there they are called. So a change of rules, a move to another core or
//! another composition, a user that leaves with its contexts, and a trace all find the
//! node as if there were no stages.

mod map;
mod parcel;
mod queue;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, channel};

use rtrb::{Consumer, Producer};
use weft_compose::{Instance, Settings};
use weft_dpdk::Pool;

pub use self::map::{Map, State};
pub use self::parcel::Parcel;
pub use self::queue::{Deployment, StageQueue};
pub(crate) use self::queue::{FunctionOrders, Orders};
use crate::counters::FunctionCounters;
use crate::offload::WINDOW;

/// A function's instance, and what is counted for it.
pub struct DeployedFunction {
    /// Number of the function.
    pub function: u16,
    /// The instance.
    pub instance: Box<dyn Instance>,
    /// What is counted for it. The thread that has the instance counts.
    pub counters: Arc<FunctionCounters>,
}

/// What a worker tells a stage.
pub enum Order {
    /// Run these functions.
    Deploy(Vec<DeployedFunction>, Arc<Map>),
    /// Give them back.
    Recall,
    /// Give a context its settings.
    Configure {
        /// Number of the function.
        function: u16,
        /// Slot of the context.
        slot: u32,
        /// The settings.
        settings: Settings,
        /// Which of the users they were written for this is, from 0.
        nth: u32,
    },
    /// A context starts afresh.
    Release {
        /// Number of the function.
        function: u16,
        /// Slot of the context.
        slot: u32,
    },
}

/// What a stage has for a worker.
pub enum Reply {
    /// What was handled.
    Parcel(Box<Parcel>),
    /// Functions that come back.
    Recalled(Vec<DeployedFunction>),
}

/// The stage's end of what lies between a worker and a stage.
pub struct StageEnd {
    /// What is to be handled.
    pub parcels: Consumer<Box<Parcel>>,
    /// Answers of the worker to what functions asked for.
    pub answers: Consumer<Box<Parcel>>,
    /// Orders, each with its number.
    pub orders: Receiver<(u32, Order)>,
    /// What goes back.
    pub back: Producer<Reply>,
}

/// Makes the two ends of what lies between a worker and a stage.
pub fn connect(pool: &Pool) -> (StageQueue, StageEnd) {
    // Each parcel that is away has a packet or a timer at least, so none waits for room.
    let (put, parcels) = rtrb::RingBuffer::new(WINDOW);
    let (answer, answers) = rtrb::RingBuffer::new(1);
    let (back, replies) = rtrb::RingBuffer::new(WINDOW + 2);
    let (orders, given) = channel();
    let last = Arc::new(AtomicU32::new(0));
    // One is filled meanwhile, and one is an answer.
    let free = (0..WINDOW + 2).map(|_| Box::new(Parcel::new(pool))).collect();
    let remote_queue = StageQueue::new((put, answer, replies), Orders::new(orders, last), free);
    (remote_queue, StageEnd { parcels, answers, orders: given, back })
}
