//! What the agent asks of a function process: contexts to be given away, or taken.

use super::Watch;
use super::session::Stage;
use crate::process::inquiry::{ContextsAnswer, Inquiry, InquiryKind, Question};
use crate::process::protocol::Message;

impl Watch {
    /// Asks the process, if it is there.
    pub(super) fn ask(&mut self, question: Question) {
        let session = self.session.as_mut().filter(|session| session.stage == Stage::Running);
        let Some(session) = session.filter(|_| !self.plain) else {
            return self.answer_without(question);
        };
        let (now, worker) = ((self.now)(), question.worker);
        // An error shows again as the session is looked at.
        match question.what {
            InquiryKind::Export => {
                for &slot in &question.slots {
                    let export = Message::Export { worker, slot, now };
                    let _ = session.connection.send_with_next(&export);
                }
                let _ = session.connection.flush();
            }
            InquiryKind::Import => {
                self.fences = self.fences.wrapping_add(1);
                let _ = session.connection.send(&Message::Fence(self.fences));
            }
        }
        self.inquiries.push_back(Inquiry::new(question, self.fences));
        self.answer_whole();
    }

    /// Answers what a process that is not there was asked.
    pub(super) fn answer_without(&self, question: Question) {
        let Question { ticket, worker, slots, what } = question;
        let answer = match what {
            InquiryKind::Export => {
                let known = |slot: u32| self.records.context(worker, slot).cloned();
                let contexts = slots.into_iter().map(known).collect();
                // A plain function has no contexts.
                ContextsAnswer::Exported { ticket, contexts, lost: self.was_up && !self.plain }
            }
            InquiryKind::Import => ContextsAnswer::Imported {
                ticket,
                outcome: Err("its process is not there".to_owned()),
            },
        };
        // The caller may be gone.
        let _ = self.answers.send(answer);
    }

    /// Answers what has all its contexts.
    fn answer_whole(&mut self) {
        while self.answer_first_if(Inquiry::has_all) {}
    }

    /// Answers what was asked first, if that can be; whether it could.
    fn answer_first_if(&mut self, can: impl Fn(&Inquiry) -> bool) -> bool {
        if !self.inquiries.front().is_some_and(can) {
            return false;
        }
        if let Some(inquiry) = self.inquiries.pop_front() {
            // The caller may be gone.
            let _ = self.answers.send(inquiry.answer());
        }
        true
    }

    /// A context that was asked for has come.
    pub(super) fn take_exported(&mut self, worker: u16, slot: u32, mut context: Vec<u8>) -> bool {
        let known = self.inquiries.iter_mut().any(|one| one.note(worker, slot, &mut context));
        self.answer_whole();
        known
    }

    /// A fence was passed.
    pub(super) fn pass_fence(&mut self, number: u32) -> bool {
        let known = self
            .answer_first_if(|one| one.question.what == InquiryKind::Import && one.fence == number);
        self.answer_whole();
        known
    }
}
