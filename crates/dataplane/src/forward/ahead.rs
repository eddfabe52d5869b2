//! Contexts are asked for before they are needed: memory is as far away as a
//! function takes for some packets.

use weft_compose::{Burst, Positions};
use weft_rules::{Next, NextHop, To};

use super::{Element, Forwarding, LookupMode, VisitContext};

impl Element {
    /// Asks for contexts of packets whose users have just been found, at the
    /// function that packets met first of late: mostly they will, too.
    #[inline]
    pub fn expect(&mut self, burst: &Burst, selected: Positions) {
        self.ahead = self.first;
        if let Some(first) = self.first {
            self.prefetch(burst, first, selected);
        }
    }

    /// Before packets that stand in `state` are handled by `function`: asks for
    /// their contexts there, if that was not done, and where they will go next.
    #[inline]
    pub(super) fn look_ahead(
        &mut self,
        burst: &Burst,
        function: u16,
        state: u32,
        selected: Positions,
        around: &VisitContext<'_>,
    ) {
        if self.ahead != Some(function) {
            self.prefetch(burst, function, selected);
        }
        self.ahead = self.behind(state).filter(|next| !self.is_fused_at(*next, around));
        if let Some(next) = self.ahead {
            self.prefetch(burst, next, selected);
        }
    }

    /// The function that most packets go to from `state`.
    #[inline]
    fn behind(&self, state: u32) -> Option<u16> {
        let Forwarding::Compiled { program, .. } = &self.plan.forwarding else { return None };
        if self.mode != LookupMode::Compiled {
            return None;
        }
        match program.states[state as usize].next {
            Next::Go(NextHop { to: To::State(next), .. })
            | Next::Branch(_, NextHop { to: To::State(next), .. }) => {
                Some(program.states[next.0 as usize].function.0)
            }
            _ => None,
        }
    }

    #[inline]
    fn prefetch(&self, burst: &Burst, function: u16, selected: Positions) {
        if let Some(function) = self.plan.functions.get(usize::from(function)) {
            function.instance.prefetch(&burst.packets, selected);
        }
    }
}
