//! What the node wants to know of contexts that are in a process.

use std::time::{Duration, Instant};

/// How long a process may take to answer, at least.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// What the node asks, behind the orders that workers have given before.
#[derive(Clone, Debug)]
pub struct Question {
    /// Comes back with the answer.
    pub ticket: u64,
    /// The worker that the contexts belong to.
    pub worker: u16,
    /// Their slots.
    pub slots: Vec<u32>,
    /// What is to be known of them.
    pub what: InquiryKind,
}

/// What is to be known of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InquiryKind {
    /// What is in them. Packets whose traces are to be in them are back.
    Export,
    /// Whether they were imported.
    Import,
}

/// What is known of contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContextsAnswer {
    /// Contexts as they were exported.
    Exported {
        /// That of the question.
        ticket: u64,
        /// For each slot what was exported; none where nothing is known.
        contexts: Vec<Option<Vec<u8>>>,
        /// Whether the process could not be asked: these are its last checkpoints.
        lost: bool,
    },
    /// Whether contexts were imported.
    Imported {
        /// That of the question.
        ticket: u64,
        /// Why not.
        outcome: Result<(), String>,
    },
}

/// A question that the process has been asked.
#[derive(Debug)]
pub(crate) struct Inquiry {
    pub(crate) question: Question,
    /// Number of the fence behind it, where that is the answer.
    pub(crate) fence: u32,
    contexts: Vec<Option<Vec<u8>>>,
    /// Contexts that have not come yet.
    missing: usize,
    /// The one behind the last that came: a process answers in order.
    next: usize,
    refusal: Option<String>,
    asked: Instant,
}

impl Inquiry {
    pub(crate) fn new(question: Question, fence: u32) -> Inquiry {
        let missing = question.slots.len();
        let contexts = vec![None; missing];
        let (refusal, asked) = (None, Instant::now());
        Inquiry { question, fence, contexts, missing, next: 0, refusal, asked }
    }

    /// Whether the process lets the node wait for too long.
    pub(crate) fn is_late(&self, heartbeat: Duration) -> bool {
        self.asked.elapsed() > (heartbeat * 10).max(LEAST_PATIENCE)
    }

    fn waits_for(&self, what: InquiryKind, worker: u16, slot: u32) -> Option<usize> {
        let question = &self.question;
        if question.what != what || question.worker != worker {
            return None;
        }
        match question.slots.get(self.next) {
            Some(next) if *next == slot => Some(self.next),
            _ => question.slots.iter().position(|asked| *asked == slot),
        }
    }

    /// A context has come; whether it was asked for here.
    pub(crate) fn note(&mut self, worker: u16, slot: u32, context: &mut Vec<u8>) -> bool {
        match self.waits_for(InquiryKind::Export, worker, slot) {
            Some(at) if self.contexts[at].is_none() => {
                self.contexts[at] = Some(std::mem::take(context));
                (self.missing, self.next) = (self.missing - 1, at + 1);
                true
            }
            _ => false,
        }
    }

    /// A context was not imported.
    pub(crate) fn refuse(&mut self, worker: u16, slot: u32, reason: &str) {
        if self.waits_for(InquiryKind::Import, worker, slot).is_some() {
            self.refusal = Some(reason.to_owned());
        }
    }

    /// Whether all that was asked for has come.
    pub(crate) fn has_all(&self) -> bool {
        self.question.what == InquiryKind::Export && self.missing == 0
    }

    pub(crate) fn answer(self) -> ContextsAnswer {
        let ticket = self.question.ticket;
        match self.question.what {
            InquiryKind::Export => {
                ContextsAnswer::Exported { ticket, contexts: self.contexts, lost: false }
            }
            InquiryKind::Import => {
                ContextsAnswer::Imported { ticket, outcome: self.refusal.map_or(Ok(()), Err) }
            }
        }
    }
}
