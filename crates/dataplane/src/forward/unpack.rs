//! Packets that come back from a stage.

use weft_compose::{Burst, Outcome, Positions};

use super::{Element, Forwarding, LookupMode, VisitContext, one};
use crate::counters::DropReason;
use crate::offload::stage::Parcel;

impl Element {
    /// Walks packets on that came back from a stage, each from its place, and does what
    /// a function there asked for.
    #[inline]
    pub(crate) fn unpack(
        &mut self,
        burst: &mut Burst,
        parcel: &mut Parcel,
        around: &mut VisitContext<'_>,
    ) {
        let is_usual = parcel.places[0].plan != 0;
        let left = Positions::first(burst.packets.len()).without(parcel.dropped);
        self.begin_again(&parcel.lengths, burst.packets.len(), is_usual);
        if let Some((function, slot)) = parcel.timer {
            if parcel.asked.is_some() {
                self.swap_outcome(&mut parcel.outcome);
                self.emit_timer(burst, function, slot, around);
            }
            return self.resume(burst, function, around);
        }
        if !parcel.looped.is_empty() {
            self.drop(burst, parcel.looped, DropReason::Loop, around);
        }
        let of_group = |all: Positions, (_, some): &(u32, Positions)| all.or(*some);
        let asked = match parcel.asked {
            Some(_) => parcel.group.iter().fold(Positions::NONE, of_group),
            None => Positions::NONE,
        };
        let waiting = parcel.waiting;
        let done = left.without(asked).without(waiting).without(parcel.looped);
        for position in waiting {
            self.push(parcel.places[position].state, one(position));
        }
        let mut rest = done;
        while let Some(first) = rest.lowest() {
            let state = parcel.places[first].state;
            let alike = |position: &usize| parcel.places[*position].state == state;
            let run = rest.filter(alike).fold(0, |run, position| run | 1u64 << position);
            rest = rest.without(Positions(run));
            self.route(burst, state, Positions(run), around);
        }
        if let Some(function) = parcel.asked {
            self.swap_outcome(&mut parcel.outcome);
            self.finish_visit(burst, function, &mut parcel.group, around);
        }
        self.walk_on(burst, around);
    }

    /// Begins to walk packets on that were weighed as they came in.
    #[inline]
    fn begin_again(&mut self, lengths: &[u16], count: usize, is_usual: bool) {
        self.clear();
        self.mode = match (&self.plan.forwarding, is_usual) {
            (_, false) => LookupMode::Interpreted,
            (Forwarding::Compiled { .. }, true) => LookupMode::Compiled,
            (Forwarding::Lookup(_), true) => LookupMode::Cached,
        };
        self.lengths[..count].copy_from_slice(&lengths[..count]);
        self.total = lengths[..count].iter().map(|length| u64::from(*length)).sum();
    }

    /// What came of a visit elsewhere is to be finished here.
    fn swap_outcome(&mut self, outcome: &mut Outcome) {
        std::mem::swap(&mut self.outcome, outcome);
    }
}
