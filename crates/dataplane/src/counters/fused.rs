//! What fused functions cost, fused and called, and which was chosen.

use super::Counter;

/// How functions that can be fused run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusedChoice {
    /// As one loop of machine code.
    Fused,
    /// Called, one after the other.
    Called,
}

/// The last choice of a worker between both, and why; kept at the first of the functions.
#[derive(Debug, Default)]
pub struct FusedCosts {
    /// 0 before anything was measured, 1 for fused, 2 for called.
    choice: Counter,
    /// Cycles per packet, as bits of a float.
    fused: Counter,
    called: Counter,
}

impl FusedCosts {
    /// Notes what was found out, in cycles per packet; for the worker's own thread.
    pub fn set(&self, choice: FusedChoice, fused: f64, called: f64) {
        self.fused.set(fused.to_bits());
        self.called.set(called.to_bits());
        self.choice.set(match choice {
            FusedChoice::Fused => 1,
            FusedChoice::Called => 2,
        });
    }

    /// Nothing is known yet.
    pub fn clear(&self) {
        self.choice.set(0);
    }

    /// The choice, and cycles per packet fused and called; none before anything was measured.
    pub fn get(&self) -> Option<(FusedChoice, f64, f64)> {
        let choice = match self.choice.get() {
            1 => FusedChoice::Fused,
            2 => FusedChoice::Called,
            _ => return None,
        };
        Some((choice, f64::from_bits(self.fused.get()), f64::from_bits(self.called.get())))
    }
}
