//! What a worker does while the redirection table of a port is changed.

use super::Worker;
use super::moving::FULL_QUEUE;
use crate::command::{Redirect, Report};

impl Worker {
    #[cold]
    pub(super) fn redirect(&mut self, step: Redirect) {
        let number = match step {
            Redirect::Hold { port, number } => {
                // They have other numbers among the inlets then.
                self.carry_all_waiting();
                let all = std::mem::take(&mut self.inlets);
                let (held, rest) = all.into_iter().partition(|inlet| inlet.port == port);
                self.inlets = rest;
                self.state.held = held;
                number
            }
            Redirect::Drain { port, number } => {
                self.carry_all_waiting();
                for inlet in 0..self.inlets.len() {
                    let mut bursts = 0..FULL_QUEUE;
                    while self.inlets[inlet].port == port
                        && bursts.next().is_some()
                        && self.carry(inlet)
                    {}
                }
                number
            }
            Redirect::TakeOver { number } => {
                self.take_all_over();
                number
            }
            Redirect::Release { number } => {
                self.take_all_over();
                self.inlets.append(&mut self.state.held);
                number
            }
        };
        self.answer_transfer(Report::Redirected(number));
    }

    /// Carries what other workers have handed over by now.
    fn take_all_over(&mut self) {
        let mut bursts = 0..FULL_QUEUE;
        while bursts.next().is_some() && self.take_over() {}
    }
}
