//! Where packets go next: by the states that rules are compiled to, or by the rules.

use weft_compose::{Burst, Positions};
use weft_function::{Metadata, TagSlot};
use weft_rules::{FunctionIndex, Next, NextHop, NextPlace, Place, StateId, To};

use super::{Element, Forwarding, LookupMode, VisitContext, one};
use crate::classify::facts::PacketFacts;
use crate::counters::DropReason;
use crate::offload::states::add_pending;

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
            Next::Branch(..) => {
                for position in positions {
                    let Forwarding::Compiled { program, .. } = &self.plan.forwarding else {
                        return;
                    };
                    let next = &program.states[state as usize].next;
                    let target = next.choose(&PacketFacts(&burst.packets[position]));
                    self.go(burst, target, one(position), around);
                }
            }
        }
    }

    pub(super) fn choose_entry(
        &mut self,
        burst: &mut Burst,
        entry: usize,
        positions: Positions,
        around: &mut VisitContext<'_>,
    ) {
        for position in positions {
            let Forwarding::Compiled { program, .. } = &self.plan.forwarding else { return };
            let target = program.entries[entry].choose(&PacketFacts(&burst.packets[position]));
            self.go(burst, target, one(position), around);
        }
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
