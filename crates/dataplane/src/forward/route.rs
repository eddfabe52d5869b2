//! Where packets go next: by the states that rules are compiled to, or by the rules.

use weft_compose::{Burst, Positions};
use weft_function::{Metadata, TagSlot};
use weft_rules::{FunctionIndex, Next, NextHop, NextPlace, Place, StateId, To};

use super::{Element, Forwarding, LookupMode, VisitContext, one};
use crate::classify::facts::PacketFacts;
use crate::counters::DropReason;
use crate::offload::states::add_pending;

/// Where packets stand that decide themselves where they go: at an entry of the program, or
/// behind a state.
#[derive(Clone, Copy)]
pub(super) enum Fork {
    Entry(usize),
    State(u32),
}

impl Element {
    /// Sends packets on from `state`.
    #[inline]
    pub(crate) fn route(
        &mut self,
        burst: &mut Burst,
        state: u32,
        positions: Positions,
        around: &mut VisitContext<'_>,
    ) {
        if positions.is_empty() {
            return;
        }
        if self.mode != LookupMode::Compiled {
            let place = Place::Function(FunctionIndex(state as u16));
            return self.look_up(burst, place, positions, around);
        }
        let Forwarding::Compiled { program, .. } = &self.plan.forwarding else { return };
        match &program.states[state as usize].next {
            Next::Go(target) => {
                let target = *target;
                self.go(burst, target, positions, around);
            }
            Next::Branch(..) => self.branch(burst, Fork::State(state), positions, around),
        }
    }

    /// Sends packets on that decide themselves where they go. Neighbours in the burst mostly go
    /// the same way: they go at once.
    pub(super) fn branch(
        &mut self,
        burst: &mut Burst,
        fork: Fork,
        positions: Positions,
        around: &mut VisitContext<'_>,
    ) {
        let (mut left, mut known) = (positions, None);
        while let Some((target, run)) = self.next_run(burst, fork, &mut left, &mut known) {
            self.go(burst, target, run, around);
        }
    }

    /// Takes the first packets out of `left` that go one way, and says which. The arm of the
    /// first one behind them is left in `known`.
    #[inline]
    fn next_run(
        &self,
        burst: &Burst,
        fork: Fork,
        left: &mut Positions,
        known: &mut Option<usize>,
    ) -> Option<(NextHop, Positions)> {
        let Forwarding::Compiled { program, .. } = &self.plan.forwarding else { return None };
        let next = match fork {
            Fork::Entry(entry) => &program.entries[entry],
            Fork::State(state) => &program.states[state as usize].next,
        };
        let (arm, run) = match next.by_tag() {
            // Without a call for each packet.
            Some((slot, least, greatest)) => take_run(left, known, |position| {
                let tags = &burst.packets[position].metadata().tags;
                let value = tags.get(usize::from(slot)).copied().unwrap_or(0);
                usize::from(!(least <= value && value <= greatest))
            }),
            None => {
                take_run(left, known, |position| next.arm(&PacketFacts(&burst.packets[position])))
            }
        }?;
        Some((next.hop(arm), run))
    }

    /// The ways without states: a rule lookup for each packet.
    pub(super) fn look_up(
        &mut self,
        burst: &mut Burst,
        place: Place,
        positions: Positions,
        around: &mut VisitContext<'_>,
    ) {
        for position in positions {
            let facts = PacketFacts(&burst.packets[position]);
            let hop = match &mut self.plan.forwarding {
                Forwarding::Lookup(rules) if self.mode == LookupMode::Cached => {
                    rules.next(place, &facts)
                }
                _ => self.plan.rules.next(place, &facts),
            };
            let to = match hop.to {
                NextPlace::Function(function) => To::State(StateId(u32::from(function.0))),
                NextPlace::Port(port) => To::Port(port),
                NextPlace::Drop => To::Drop,
                NextPlace::NoRule => To::NoRule,
            };
            self.go(burst, NextHop { set_chain: hop.set_chain, to }, one(position), around);
        }
    }

    /// Takes packets one hop further.
    #[inline]
    pub(super) fn go(
        &mut self,
        burst: &mut Burst,
        target: NextHop,
        positions: Positions,
        around: &mut VisitContext<'_>,
    ) {
        if let Some(chain) = target.set_chain {
            for position in positions {
                TagSlot::CHAIN.set(burst.packets[position].metadata_mut(), chain);
            }
        }
        match target.to {
            To::State(state) => self.push(state.0, positions),
            To::Port(port) => self.leave(port.0, positions),
            To::Drop => self.drop(burst, positions, DropReason::Rule, around),
            To::NoRule => self.drop(burst, positions, DropReason::NoRule, around),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, state: u32, positions: Positions) {
        add_pending(&mut self.pending, state, positions);
    }

    #[inline]
    pub(super) fn leave(&mut self, port: u16, positions: Positions) {
        let leaving = &mut self.leaving[usize::from(port)];
        if leaving.is_empty() {
            self.ports_used.push(port);
        }
        *leaving = leaving.or(positions);
    }
}

/// Takes the first packets out of `left` that take the same arm, and says which.
#[inline(always)]
fn take_run(
    left: &mut Positions,
    known: &mut Option<usize>,
    arm_of: impl Fn(usize) -> usize,
) -> Option<(usize, Positions)> {
    let all = *left;
    let arm_of_first = left.next().map(|first| known.take().unwrap_or_else(|| arm_of(first)));
    let arm = arm_of_first?;
    let mut behind = *left;
    while let Some(position) = behind.next() {
        let other = arm_of(position);
        if other != arm {
            *known = Some(other);
            break;
        }
        *left = behind;
    }
    Some((arm, all.without(*left)))
}
