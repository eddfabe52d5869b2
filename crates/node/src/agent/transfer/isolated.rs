//! Contexts that are in processes: the agent asks those who look after them, behind
//! all that the worker has told them, while packets of other users go on.
//!
//! A user is taken out of the worker when nothing of it is away any more; only then the
//! process is asked. It is taken in by two steps: the process says that it has the
//! contexts before the worker gets all else, so a user that is refused has left nothing.

use weft_dataplane::command::Command;
use weft_dataplane::command::transfer::{Extract, Intake};
use weft_node_config::Blueprint;
use weft_offload::process::{ContextsAnswer, InquiryKind, Question};

use super::UserTransfers;
use crate::migration::transfer::{Asked, Export, Import, TransferError};
use crate::mobility::Done;
use crate::subscribers::Member;

/// Which functions have processes, by number.
fn isolated(blueprint: &Blueprint) -> Vec<u16> {
    let functions = blueprint.functions.iter().enumerate();
    let isolated = functions.filter(|(_, plan)| plan.is_isolated());
    isolated.map(|(number, _)| number as u16).collect()
}

/// The part of an intake that is for these functions; the rest stays. None when there is none.
fn split(intake: &mut Intake, functions: &[u16], all: usize) -> Option<Intake> {
    let is_theirs = |function: &u16| functions.contains(function);
    if !intake.contexts.iter().any(|(function, ..)| is_theirs(function)) {
        return None;
    }
    let first = Intake {
        ticket: 0,
        slots: intake.slots.clone(),
        stay: (0..all as u16).filter(|function| !is_theirs(function)).collect(),
        record: None,
        settings: intake.settings.extract_if(.., |one| is_theirs(&one.function)).collect(),
        contexts: intake.contexts.extract_if(.., |one| is_theirs(&one.0)).collect(),
        timers: Vec::new(),
        kept: Vec::new(),
        refused: None,
    };
    intake.stay.extend(functions);
    Some(first)
}

impl UserTransfers<'_> {
    /// Asks for the contexts that the worker did not have.
    pub(super) fn fetch(&mut self, asked: Asked, member: Member, extract: Extract) {
        let (ticket, mut waiting) = (extract.ticket, 0);
        let worker = self.node.subscribers.users.worker_of(member.slots[0]) as u16;
        for (function, count) in &extract.away {
            let name = &extract.functions[usize::from(*function)].0;
            let slots = extract.slots.iter().take(usize::from(*count)).copied().collect();
            // One that has gone since has no contexts.
            if let Some(supervisor) = self.functions.supervisor(name) {
                supervisor.ask(Question { ticket, worker, slots, what: InquiryKind::Export });
                waiting += 1;
            }
        }
        let export = Export { asked, member, extract, waiting, lost: None };
        if waiting == 0 {
            return self.finish_export(export);
        }
        self.migration.inquiries.exports.insert(ticket, export);
    }

    /// Gives what a user brings to its worker; first what is for processes.
    pub(super) fn take_in_by_steps(
        &mut self,
        asked: Asked,
        member: Member,
        mut intake: Intake,
        without: Option<u16>,
    ) {
        let worker = self.node.subscribers.users.worker_of(member.slots[0]);
        let functions = isolated(self.node.blueprint);
        let first = split(&mut intake, &functions, self.node.blueprint.functions.len());
        let command = match first {
            None => {
                intake.ticket = self.migration.transfers.note(asked, member);
                intake
            }
            Some(mut first) => {
                first.ticket = self.migration.transfers.next();
                let rest = Box::new(intake);
                let import = Import { asked, member, without, waiting: 0, rest, refusal: None };
                self.migration.inquiries.imports.insert(first.ticket, import);
                first
            }
        };
        self.node.workers[worker].send(Command::TakeIn(Box::new(command)));
    }

    /// The worker has passed contexts on to processes; whether it was for that.
    pub(super) fn passed_on(&mut self, intake: &Intake) -> bool {
        let ticket = intake.ticket;
        let Some(mut import) = self.migration.inquiries.imports.remove(&ticket) else {
            return false;
        };
        let worker = self.node.subscribers.users.worker_of(import.member.slots[0]) as u16;
        let mut functions: Vec<u16> = intake.contexts.iter().map(|one| one.0).collect();
        functions.dedup();
        for function in functions {
            let name = &self.node.blueprint.functions[usize::from(function)].name;
            let contexts = intake.contexts.iter().filter(|one| one.0 == function);
            let slots = contexts.map(|one| one.1).collect();
            if let Some(supervisor) = self.functions.supervisor(name) {
                supervisor.ask(Question { ticket, worker, slots, what: InquiryKind::Import });
                import.waiting += 1;
            }
        }
        if let Some((function, error)) = intake.refused {
            import.refusal = Some(self.translation().refused(&import.member, function, error));
        }
        self.migration.inquiries.imports.insert(ticket, import);
        true
    }

    /// Takes what processes have answered; whether there was anything.
    pub fn take_contexts(&mut self) -> bool {
        if !self.migration.expects_answers() {
            return false;
        }
        let mut answers = Vec::new();
        for supervisor in &self.functions.supervisors {
            let name = supervisor.instance().to_owned();
            answers.extend(supervisor.answers().map(|answer| (name.clone(), answer)));
        }
        let (busy, now) = (!answers.is_empty(), self.node.clock.now());
        for (function, answer) in answers {
            let Some(answer) = self.migration.take_relocated(answer, now) else { continue };
            match answer {
                ContextsAnswer::Exported { ticket, contexts, lost } => {
                    self.take_exported(ticket, function, contexts, lost);
                }
                ContextsAnswer::Imported { ticket, outcome } => {
                    self.take_imported(ticket, function, outcome);
                }
            }
        }
        busy
    }

    fn take_exported(
        &mut self,
        ticket: u64,
        function: String,
        contexts: Vec<Option<Vec<u8>>>,
        lost: bool,
    ) {
        let Some(mut export) = self.migration.inquiries.exports.remove(&ticket) else { return };
        let extract = &mut export.extract;
        let number = extract.functions.iter().position(|(name, _)| **name == *function);
        let number = number.unwrap_or_default() as u16;
        for (which, context) in contexts.into_iter().enumerate() {
            extract.contexts.extend(context.map(|octets| (number, which as u16, octets)));
        }
        if lost {
            export.lost = Some(function);
        }
        export.waiting -= 1;
        match export.waiting {
            0 => self.finish_export(export),
            _ => drop(self.migration.inquiries.exports.insert(ticket, export)),
        }
    }

    fn finish_export(&mut self, export: Export) {
        let Export { asked, member, extract, lost, .. } = export;
        if let Some(function) = lost {
            let user = &member.name;
            tracing::warn!(user, function, "its process is not there: the last checkpoint moves");
            if let Asked::Handover(..) = asked {
                self.note_done(Done::ContextLost);
            }
        }
        self.give_out(asked, extract, &member);
    }

    fn take_imported(&mut self, ticket: u64, function: String, outcome: Result<(), String>) {
        let Some(mut import) = self.migration.inquiries.imports.remove(&ticket) else { return };
        if let Err(reason) = outcome {
            let user = import.member.name.clone();
            import.refusal = Some(TransferError::Process { user, function, reason });
        }
        import.waiting -= 1;
        if import.waiting > 0 {
            self.migration.inquiries.imports.insert(ticket, import);
            return;
        }
        let Import { asked, member, without, mut rest, refusal, .. } = import;
        match refusal {
            None => {
                let worker = self.node.subscribers.users.worker_of(member.slots[0]);
                rest.ticket = self.migration.transfers.note(asked, member);
                self.node.workers[worker].send(Command::TakeIn(rest));
            }
            Some(error) => {
                self.begin_fresh(Asked::Unasked, member, without);
                self.tell_outcome(asked, Err(error));
            }
        }
    }
}
