//! The rings between a worker and a thread that functions stand on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use rtrb::{Consumer, Producer, RingBuffer};
use weft_compose::Settings;
use weft_dataplane::offload::stage::{Order, Parcel, ParcelCarrier, Reply, StageQueue};
use weft_dataplane::offload::{ContextOrders, WINDOW};
use weft_dpdk::Pool;

/// The worker's end: parcels are pointers in rings.
struct ThreadCarrier {
    parcels: Producer<Box<Parcel>>,
    answers: Producer<Box<Parcel>>,
    replies: Consumer<Reply>,
    orders: Orders,
}

impl ParcelCarrier for ThreadCarrier {
    #[inline]
    fn send(&mut self, parcel: Box<Parcel>) -> Result<(), Box<Parcel>> {
        self.parcels.push(parcel).map_err(|rtrb::PushError::Full(parcel)| parcel)
    }

    fn answer(&mut self, parcel: Box<Parcel>) -> bool {
        self.answers.push(parcel).is_ok()
    }

    #[inline]
    fn receive(&mut self) -> Option<Reply> {
        self.replies.pop().ok()
    }

    fn order(&mut self, order: Order) {
        self.orders.send(order);
    }

    #[inline]
    fn last_order(&self) -> u32 {
        self.orders.last.load(Ordering::Relaxed)
    }

    fn context_orders(&self, function: u16) -> Box<dyn ContextOrders> {
        Box::new(FunctionOrders { function, orders: self.orders.clone() })
    }
}

/// Sends orders, and knows the number of the last.
#[derive(Clone)]
struct Orders {
    to: Sender<(u32, Order)>,
    last: Arc<AtomicU32>,
}

impl std::fmt::Debug for Orders {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Orders").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Orders {
    fn send(&self, order: Order) {
        let number = self.last.load(Ordering::Relaxed).wrapping_add(1);
        self.last.store(number, Ordering::Relaxed);
        // The thread lives as long as the node.
        let _ = self.to.send((number, order));
    }
}

/// Changes of the contexts of one function on a thread, as orders to the thread.
#[derive(Debug)]
struct FunctionOrders {
    /// Number of the function.
    function: u16,
    /// The way to the thread.
    orders: Orders,
}

impl ContextOrders for FunctionOrders {
    fn configure(&self, slot: u32, settings: &Settings, nth: u32) {
        let (function, settings) = (self.function, settings.clone());
        self.orders.send(Order::Configure { function, slot, settings, nth });
    }

    fn release(&self, slot: u32) {
        self.orders.send(Order::Release { function: self.function, slot });
    }
}

/// The thread's end.
pub struct ThreadEnd {
    /// What is to be handled.
    pub parcels: Consumer<Box<Parcel>>,
    /// Answers of the worker to what functions asked for.
    pub answers: Consumer<Box<Parcel>>,
    /// Orders, each with its number.
    pub orders: Receiver<(u32, Order)>,
    /// What goes back.
    pub back: Producer<Reply>,
}

/// Makes the two ends of what lies between a worker and a thread.
pub fn connect(pool: &Pool) -> (StageQueue, ThreadEnd) {
    // Each parcel that is away has a packet or a timer at least, so none waits for room.
    let (put, parcels) = RingBuffer::new(WINDOW);
    let (answer, answers) = RingBuffer::new(1);
    let (back, replies) = RingBuffer::new(WINDOW + 2);
    let (to, orders) = channel();
    let sent = Orders { to, last: Arc::default() };
    let carrier = ThreadCarrier { parcels: put, answers: answer, replies, orders: sent };
    (StageQueue::new(Box::new(carrier), pool), ThreadEnd { parcels, answers, orders, back })
}
