//! A worker's end of what lies between it and a stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;

use rtrb::{Consumer, Producer};
use weft_compose::Settings;
use weft_dpdk::Packet;

use super::{DeployedFunction, Map, Order, Parcel, Reply};
use crate::offload::{ContextOrders, ResumePoint, WINDOW};

/// Sends orders, and knows the number of the last.
#[derive(Clone)]
pub(crate) struct Orders {
    to: Sender<(u32, Order)>,
    last: Arc<AtomicU32>,
}

impl std::fmt::Debug for Orders {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Orders").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Orders {
    pub(crate) fn new(to: Sender<(u32, Order)>, last: Arc<AtomicU32>) -> Orders {
        Orders { to, last }
    }

    pub(crate) fn send(&self, order: Order) {
        let number = self.last.load(Ordering::Relaxed).wrapping_add(1);
        self.last.store(number, Ordering::Relaxed);
        // The stage lives as long as the node.
        let _ = self.to.send((number, order));
    }
}

/// Changes of the contexts of one function that a stage runs, as orders to the stage.
#[derive(Debug)]
pub(crate) struct FunctionOrders {
    /// Number of the function.
    pub(crate) function: u16,
    /// The way to the stage.
    pub(crate) orders: Orders,
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

/// Where the instances of a worker's functions are that stages run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deployment {
    /// Here: they are called.
    #[default]
    Local,
    /// At their stages.
    Deployed,
    /// At their stages, but no packets go there any more.
    Draining,
    /// On their way back.
    Recalled,
}

/// A worker's way to one stage.
pub struct StageQueue {
    parcels: Producer<Box<Parcel>>,
    answers: Producer<Box<Parcel>>,
    replies: Consumer<Reply>,
    pub(crate) orders: Orders,
    free: Vec<Box<Parcel>>,
    /// What goes there of the burst at hand.
    open: Option<Box<Parcel>>,
    /// Packets that are there.
    away: usize,
    reserved: usize,
    admitted: usize,
    /// Whether the stage waits for the answer to what is unpacked.
    pub(crate) is_asked: bool,
    /// Which states lead where, for the stage.
    pub(crate) map: Option<Arc<Map>>,
    /// Whether instances are there.
    pub(crate) has_functions: bool,
}

impl StageQueue {
    pub(crate) fn new(
        (parcels, answers, replies): (
            Producer<Box<Parcel>>,
            Producer<Box<Parcel>>,
            Consumer<Reply>,
        ),
        orders: Orders,
        free: Vec<Box<Parcel>>,
    ) -> StageQueue {
        StageQueue {
            parcels,
            answers,
            replies,
            orders,
            free,
            open: None,
            away: 0,
            reserved: 0,
            admitted: 0,
            is_asked: false,
            map: None,
            has_functions: false,
        }
    }

    /// What the stage is to know of the rules from now on.
    pub fn set_map(&mut self, map: Arc<Map>) {
        self.map = Some(map);
    }

    /// Packets that are there or leave with the burst at hand.
    #[inline]
    pub fn away(&self) -> usize {
        self.away
    }

    /// A burst begins: nothing of it was let in yet.
    #[inline]
    pub fn begin(&mut self) {
        self.admitted = 0;
    }

    /// Packets that may still be let in at the entry of a chain that leads here.
    #[inline]
    pub fn credit(&self) -> usize {
        (WINDOW - self.away).saturating_sub(self.reserved + self.admitted)
    }

    /// Lets packets in.
    #[inline]
    pub fn admit(&mut self, count: usize) {
        self.admitted += count;
    }

    /// A packet that is elsewhere may come here.
    #[inline]
    pub fn reserve_credit(&mut self) {
        self.reserved += 1;
    }

    /// It came, or it will not.
    #[inline]
    pub fn release_credit(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }

    /// Takes a packet away, with the burst. False, and it is dropped, when there is no
    /// room.
    #[inline]
    pub fn take(
        &mut self,
        packet: Packet,
        place: ResumePoint,
        length: u16,
        original: Option<Packet>,
        now: u64,
    ) -> bool {
        if self.away >= WINDOW {
            return false;
        }
        let Some(mut parcel) = self.open.take().or_else(|| self.free.pop()) else { return false };
        parcel.burst.now = now;
        let position = parcel.burst.packets.len();
        let taken = parcel.burst.packets.push(packet).is_ok();
        if taken {
            parcel.places[position] = place;
            parcel.lengths[position] = length;
            parcel.originals.extend(original.map(|original| (position, original)));
            self.away += 1;
        }
        self.open = Some(parcel);
        taken
    }

    /// Lets the stage call a timer. False when there is no room.
    pub fn wake(&mut self, function: u16, slot: u32, now: u64) -> bool {
        if self.away >= WINDOW {
            return false;
        }
        self.flush();
        let Some(mut parcel) = self.free.pop() else { return false };
        (parcel.timer, parcel.burst.now) = (Some((function, slot)), now);
        self.away += 1;
        self.open = Some(parcel);
        self.flush();
        true
    }

    /// Sends what leaves with the burst.
    #[inline]
    pub fn flush(&mut self) {
        if self.is_asked {
            return;
        }
        let Some(mut parcel) = self.open.take() else { return };
        parcel.order = self.orders.last.load(Ordering::Relaxed);
        if let Err(rtrb::PushError::Full(parcel)) = self.parcels.push(parcel) {
            // There are no more parcels than the ring has room.
            self.open = Some(parcel);
        }
    }

    /// Answers the stage that asked: with what goes on there.
    #[cold]
    pub(crate) fn answer(&mut self) {
        self.is_asked = false;
        let parcel = self.open.take().or_else(|| self.free.pop());
        // A stage that waits has no other answer, and there is a parcel for it.
        let sent = parcel.map(|parcel| self.answers.push(parcel));
        debug_assert!(matches!(sent, Some(Ok(()))));
    }

    /// What has come back; instances go to `recalled`.
    #[inline]
    pub(crate) fn collect(&mut self, recalled: &mut Vec<DeployedFunction>) -> Option<Box<Parcel>> {
        loop {
            match self.replies.pop().ok()? {
                Reply::Parcel(parcel) => return Some(parcel),
                Reply::Recalled(mut functions) => {
                    self.has_functions = false;
                    recalled.append(&mut functions);
                }
            }
        }
    }

    /// Takes an empty parcel back, of which so many packets were away.
    #[inline]
    pub(crate) fn settle(&mut self, mut parcel: Box<Parcel>, weight: usize) {
        self.away -= weight;
        parcel.clear();
        self.free.push(parcel);
    }
}
