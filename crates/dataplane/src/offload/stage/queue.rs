//! A worker's end of what lies between it and a stage.

use std::sync::Arc;

use weft_dpdk::{Packet, Pool};

use super::{DeployedFunction, Map, Parcel, ParcelCarrier, Reply};
use crate::offload::{Credits, ResumePoint, WINDOW};

/// Parcels of a queue: each that is away has a packet or a timer at least; one is filled
/// meanwhile, and one is an answer.
const PARCELS: usize = WINDOW + 2;

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

/// A worker's queue to one stage.
pub struct StageQueue {
    pub(crate) carrier: Box<dyn ParcelCarrier>,
    free: Vec<Box<Parcel>>,
    /// What goes there of the burst at hand.
    open: Option<Box<Parcel>>,
    /// Packets that are there.
    away: usize,
    /// Who may send packets there.
    pub credits: Credits,
    /// Whether the stage waits for the answer to what is unpacked.
    pub(crate) is_asked: bool,
    /// Which states lead where, for the stage.
    pub(crate) map: Option<Arc<Map>>,
    /// Whether instances are there.
    pub(crate) has_functions: bool,
}

impl StageQueue {
    /// A queue without packets. Packets that functions emit there come from `pool`.
    pub fn new(carrier: Box<dyn ParcelCarrier>, pool: &Pool) -> StageQueue {
        StageQueue {
            carrier,
            free: (0..PARCELS).map(|_| Box::new(Parcel::new(pool))).collect(),
            open: None,
            away: 0,
            credits: Credits::default(),
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

    /// Packets that may still be let in at the entry of a chain that leads here.
    #[inline]
    pub fn credit(&self) -> usize {
        self.credits.of(WINDOW - self.away)
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
        parcel.order = self.carrier.last_order();
        // What finds no room, which is there for all parcels, goes with the next burst.
        self.open = self.carrier.send(parcel).err();
    }

    /// Answers the stage that asked: with what goes on there.
    #[cold]
    pub(crate) fn answer(&mut self) {
        self.is_asked = false;
        let parcel = self.open.take().or_else(|| self.free.pop());
        // A stage that waits has no other answer, and there is a parcel for it.
        let sent = parcel.map(|parcel| self.carrier.answer(parcel));
        debug_assert_eq!(sent, Some(true));
    }

    /// What has come back; instances go to `recalled`.
    #[inline]
    pub(crate) fn collect(&mut self, recalled: &mut Vec<DeployedFunction>) -> Option<Box<Parcel>> {
        loop {
            match self.carrier.receive()? {
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
