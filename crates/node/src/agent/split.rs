//! Moves functions between the workers and a thread as their loads call for.

use super::Agent;
use crate::migration::split::Running;

impl Agent {
    /// Splits chains as if a packet took these cycles at its worker beside the functions, and at
    /// each function. A test of the choice needs it: what it would measure depends on what else
    /// the machine does.
    pub fn assume_cycles(&mut self, worker: u64, functions: &[u64]) {
        self.migration.split.assume(worker, functions);
    }

    /// Looks at loads, and moves functions where that is worth it.
    pub(super) fn look_after_split(&mut self, now: u64) {
        let Agent { blueprint, classes, functions, workers, migration, .. } = &mut *self;
        let running = Running { blueprint, classes, functions, workers };
        let Some(proposal) = migration.split.look(now, &running) else { return };
        // What is refused, or comes in the middle of another change, is tried with the next look.
        if !self.workers.is_changing()
            && !self.migration.has_function()
            && self.change(proposal.blueprint, None).is_ok()
        {
            let (thread, why) = (proposal.thread, proposal.why);
            tracing::info!(thread, why, "functions were split anew");
            self.migration.split.adopt(now, why);
        }
    }
}
