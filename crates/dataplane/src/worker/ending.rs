//! What ends before the functions: packets that are malformed, for the node itself, of
//! no user, or not to be carried now.

use arrayvec::ArrayVec;
use weft_compose::{Burst, Positions};
use weft_dpdk::Batch;
use weft_function::Tunnel;

use super::{BurstState, Worker};
use crate::command::Punt;
use crate::counters::{DropReason, WorkerCounters};
use crate::gates::tunnel::is_moving_tunnel;
use crate::parse::local::Divided;
use crate::parse::reason_of;
use crate::trace::{Point, Taps};

impl Worker {
    /// Gives the agent what is for the node, and drops what is for others or
    /// came in a tunnel that it should not have come in.
    #[cold]
    pub(super) fn not_for_users(&mut self, divided: &Divided) {
        let BurstState { burst, taps, .. } = &mut self.state;
        let mut local = ArrayVec::<_, { Batch::CAPACITY }>::new();
        for position in divided.local {
            // The agent gets a copy: the burst keeps its packet to the end.
            if let Err(reason) = self.departure.agent.take(&burst.packets[position], burst.now) {
                local.push((reason, one(position)));
            }
        }
        for position in divided.refused {
            let packet = &burst.packets[position];
            if reason_of(packet) == DropReason::GtpuExtensionUnknown {
                self.departure.agent.owe(packet, Punt::UnknownExtension, 0, burst.now);
            }
            drop_malformed(position, burst, &self.counters, taps);
        }
        if let Some(taps) = taps {
            taps.admit(divided.ending().without(divided.refused), burst);
            for (reason, position) in local {
                taps.at(Point::Dropped(reason), position, burst);
            }
        }
        let reasons =
            [(DropReason::NotForUs, divided.foreign), (DropReason::Martian, divided.martian)];
        for (reason, positions) in reasons {
            self.counters.dropped(reason, positions.len());
            if let Some(taps) = taps {
                taps.at(Point::Dropped(reason), positions, burst);
            }
        }
    }

    /// What is rare after classification: taps, packets without a user, and packets
    /// of bearers that do not forward now.
    #[cold]
    pub(super) fn after_classification(&mut self, transit: Positions) {
        let BurstState { burst, classified, taps, .. } = &mut self.state;
        let unknown = classified.unknown;
        let (mut tunnelled, mut stale) = (Positions::NONE, Positions::NONE);
        for position in unknown.filter(|position| burst.packets[*position].is_tunnelled()) {
            // A tunnel of a user that has moved on is not unheard of.
            if self.gates.is_some() && is_moving_tunnel(&burst.packets[position]) {
                stale.insert(position);
                continue;
            }
            tunnelled.insert(position);
            // A flood is not copied: few are answered, and the others end here.
            let packet = &burst.packets[position];
            if !packet.is_end_marker() {
                self.departure.agent.owe(packet, Punt::UnknownTeid, 0, burst.now);
            }
        }
        let reasons = [
            (DropReason::UnknownUser, unknown.without(tunnelled).without(stale)),
            (DropReason::UnknownTeid, tunnelled),
            (DropReason::StaleEpoch, stale),
        ];
        for (reason, positions) in reasons {
            self.counters.dropped(reason, positions.len());
        }
        if let Some(taps) = taps {
            taps.admit(transit.without(classified.elsewhere), burst);
            for (reason, positions) in reasons {
                taps.at(Point::Dropped(reason), positions, burst);
            }
            taps.at(Point::Classified, transit.without(unknown), burst);
        }
        if !self.state.classified.held.is_empty() {
            self.hold();
        }
    }
}

/// Counts a packet that the parser refused.
#[cold]
pub(super) fn drop_malformed(
    position: usize,
    burst: &Burst,
    counters: &WorkerCounters,
    taps: &mut Option<Box<Taps>>,
) {
    let reason = reason_of(&burst.packets[position]);
    counters.dropped(reason, 1);
    if let Some(taps) = taps {
        taps.admit(one(position), burst);
        taps.at(Point::Dropped(reason), one(position), burst);
    }
}

/// Drops what a router has no way for.
#[cold]
pub(super) fn refuse_sessions(
    burst: &Burst,
    session: Positions,
    counters: &WorkerCounters,
    taps: &mut Option<Box<Taps>>,
) {
    counters.dropped(DropReason::EtherTypeUnknown, session.len());
    if let Some(taps) = taps {
        taps.admit(session, burst);
        taps.at(Point::Dropped(DropReason::EtherTypeUnknown), session, burst);
    }
}

fn one(position: usize) -> Positions {
    Positions(1 << position)
}
