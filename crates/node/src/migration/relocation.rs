//! A function on its way into a process or to another node, or back.

use std::collections::HashMap;

use weft_compose::Instance;
use weft_dataplane::command::Replacement;
use weft_offload::process::{ContextsAnswer, InquiryKind, Question};

use super::transfer::Transfers;
use crate::functions::Functions;

/// A function on its way.
pub(crate) struct Relocation {
    pub function: usize,
    pub name: String,
    pub remote_queue: u16,
    /// Whether it goes to where the queue leads.
    pub goes: bool,
    /// What each worker gets in the end.
    pub replacements: Vec<Replacement>,
    /// What each worker had, and the slots of contexts there.
    pub lifted: Vec<Option<Box<dyn Instance>>>,
    pub slots: Vec<Vec<u32>>,
    pub copying: Copying,
    /// Why it stays where it was.
    pub refusal: Option<String>,
}

/// How its contexts get to where it goes.
pub(crate) enum Copying {
    /// Into its process, or out of it.
    Process(Pieces),
    /// To another node, or back.
    MigrationSession(MigrationSession),
}

impl Relocation {
    /// The instance that a worker is to have.
    pub(crate) fn instance(&mut self, worker: usize) -> Option<&mut Box<dyn Instance>> {
        self.replacements[worker].parts[self.function].instance.as_mut()
    }

    /// Whether a process of this machine has to do with it.
    pub(crate) fn is_by_process(&self) -> bool {
        matches!(self.copying, Copying::Process(_))
    }

    /// Whether all workers have handed their instances over.
    pub(crate) fn is_lifted(&self) -> bool {
        self.lifted.iter().all(Option::is_some)
    }
}

/// How long a gate stays closed for a carrier that says nothing, in nanoseconds.
const PATIENCE: u64 = 5_000_000_000;

/// Contexts that are copied at once, and so many times that without an answer.
const PIECE: usize = 512;
const PIECES: usize = 4;

/// A process that was asked for.
pub(crate) struct Called {
    pub function: String,
    pub failures: u64,
    pub since: u64,
}

/// How far contexts are copied.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The next context to be copied: worker, and number among its slots.
    pub next: (usize, usize),
    /// Questions that the process has not answered.
    pub asked: HashMap<u64, (usize, usize)>,
    /// Some were those of the last checkpoint.
    pub lost: bool,
}

impl Pieces {
    /// The slots of the next piece, with their worker.
    pub(crate) fn piece(&mut self, all: &[Vec<u32>]) -> Option<(usize, usize, Vec<u32>)> {
        loop {
            let (worker, from) = self.next;
            let slots = all.get(worker)?;
            if from >= slots.len() {
                self.next = (worker + 1, 0);
                continue;
            }
            let to = slots.len().min(from + PIECE);
            self.next = (worker, to);
            return Some((worker, from, slots[from..to].to_vec()));
        }
    }

    /// Whether all contexts are copied or asked for.
    pub(crate) fn is_last(&self, all: &[Vec<u32>]) -> bool {
        let (worker, from) = self.next;
        all.iter().skip(worker).enumerate().all(|(at, slots)| {
            let from = if at == 0 { from } else { 0 };
            from >= slots.len()
        })
    }
}

impl Relocation {
    pub(crate) fn pieces(&mut self) -> Option<(&mut Pieces, &[Vec<u32>])> {
        match &mut self.copying {
            Copying::Process(pieces) => Some((pieces, &self.slots)),
            Copying::MigrationSession(_) => None,
        }
    }

    /// Whether the process has taken or given all contexts, or does not take them.
    pub(crate) fn is_copied(&self) -> bool {
        let Copying::Process(pieces) = &self.copying else { return true };
        pieces.asked.is_empty() && (self.refusal.is_some() || pieces.is_last(&self.slots))
    }
}

/// Carries contexts between two nodes: the one who carries them sees both.
pub(crate) struct MigrationSession {
    /// When it has gone, unless it is heard before.
    until: u64,
    /// What it has said in the end.
    pub word: Option<Result<(), String>>,
}

impl MigrationSession {
    /// It is heard for the first time.
    pub(crate) fn new(now: u64) -> MigrationSession {
        MigrationSession { until: now + PATIENCE, word: None }
    }

    /// What it has said in the end, or what its silence says.
    pub(crate) fn outcome(&self, now: u64) -> Option<Result<(), String>> {
        let silence = || Err("the node that carried its contexts said nothing for 5 s".to_owned());
        self.word.clone().or_else(|| (now > self.until).then(silence))
    }
}

impl Relocation {
    /// Copies what can be copied now, once all workers have handed over; whether there was
    /// anything.
    pub(crate) fn copy_some(
        &mut self,
        functions: &Functions,
        transfers: &mut Transfers,
        now: u64,
    ) -> bool {
        let mut busy = false;
        while self.is_lifted() && self.refusal.is_none() {
            let Some((pieces, slots)) = self.pieces() else { break };
            if pieces.asked.len() >= PIECES {
                break;
            }
            let Some((worker, from, slots)) = pieces.piece(slots) else { break };
            self.copy((worker, from, slots), functions, transfers, now);
            busy = true;
        }
        busy
    }

    /// Copies some contexts into the process, or asks it for them.
    fn copy(
        &mut self,
        (worker, from, slots): (usize, usize, Vec<u32>),
        functions: &Functions,
        transfers: &mut Transfers,
        now: u64,
    ) {
        let what = if self.goes { InquiryKind::Import } else { InquiryKind::Export };
        if self.goes {
            let part = self.replacements[worker].parts[self.function].instance.as_mut();
            let (Some(old), Some(away)) = (&self.lifted[worker], part) else { return };
            for &slot in &slots {
                let mut context = Vec::new();
                old.export(slot, now, &mut context);
                if let Err(error) = away.import(slot, now, &context) {
                    self.refusal = Some(not_taken(&error));
                }
            }
        }
        let ticket = transfers.next();
        if let Some(supervisor) = functions.supervisor(&self.name)
            && let Some((pieces, _)) = self.pieces()
        {
            supervisor.ask(Question { ticket, worker: worker as u16, slots, what });
            pieces.asked.insert(ticket, (worker, from));
        }
    }

    /// Takes an answer about a function that moves; gives back any other.
    pub(crate) fn take(&mut self, answer: ContextsAnswer, now: u64) -> Option<ContextsAnswer> {
        let (ContextsAnswer::Exported { ticket, .. } | ContextsAnswer::Imported { ticket, .. }) =
            &answer;
        let Some((pieces, _)) = self.pieces() else { return Some(answer) };
        let Some((worker, from)) = pieces.asked.remove(ticket) else { return Some(answer) };
        match answer {
            ContextsAnswer::Imported { outcome: Err(reason), .. } => {
                self.refusal = Some(not_taken(&reason));
            }
            ContextsAnswer::Imported { .. } => {}
            ContextsAnswer::Exported { contexts, lost, .. } => {
                pieces.lost |= lost;
                let slots = self.slots[worker][from..].to_vec();
                let name = self.name.clone();
                let instance = self.instance(worker)?;
                for (slot, context) in slots.into_iter().zip(contexts) {
                    let Some(context) = context.filter(|context| !context.is_empty()) else {
                        continue;
                    };
                    if let Err(error) = instance.import(slot, now, &context) {
                        tracing::warn!(function = name, slot, %error, "a context begins anew");
                    }
                }
            }
        }
        None
    }

    /// The carrier has been heard; false where no carrier has to do with it.
    pub(crate) fn note_carrier(&mut self, now: u64) -> bool {
        let Copying::MigrationSession(session) = &mut self.copying else { return false };
        session.until = now + PATIENCE;
        true
    }
}

fn not_taken(reason: &impl ToString) -> String {
    format!("its process did not take its contexts ({})", reason.to_string())
}
