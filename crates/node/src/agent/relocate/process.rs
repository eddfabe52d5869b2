//! A function goes into its process, or comes back: the agent copies contexts by the control
//! protocol beside the ring.

use weft_node_config::Blueprint;
use weft_offload::process::{Answer, InquiryKind, Question};

use crate::agent::{Agent, Changed};
use crate::error::NotComposed;
use crate::error::Refused;
use crate::migration::relocation::{Called, Copying, PIECES, Pieces, Relocation};

/// How long a process is kept ready for a function that does not come, in nanoseconds.
const READY: u64 = 30_000_000_000;

impl Agent {
    /// Takes a function into its process, or out of it; the blueprint says how it is run then.
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub(crate) fn relocate(
        &mut self,
        new: Blueprint,
        function: usize,
    ) -> Result<Changed, NotComposed> {
        self.check_prepared(&new, function)?;
        if new.functions[function].is_isolated() {
            let name = new.functions[function].name.clone();
            self.call_process(&name)?;
        }
        let changed = self.lift(new, function, Copying::Process(Pieces::default()))?;
        self.called = None;
        Ok(changed)
    }

    fn check_prepared(&self, new: &Blueprint, function: usize) -> Result<(), NotComposed> {
        let plan = &new.functions[function];
        let name = || plan.name.clone();
        let Some(process) = &plan.process else { return Err(NotComposed::NotPrepared(name())) };
        if process.plain {
            return Err(NotComposed::Plain(name()));
        }
        if self.changing > 0 || self.relocation.is_some() {
            return Err(Refused::Busy.into());
        }
        Ok(())
    }

    /// Has the process of a function started, and says whether it is there.
    fn call_process(&mut self, name: &str) -> Result<(), NotComposed> {
        let Some(supervisor) = self.supervisors.iter().find(|one| one.instance() == name) else {
            return Err(NotComposed::NotPrepared(name.to_owned()));
        };
        let view = supervisor.view();
        let is_called = self.called.as_ref().is_some_and(|called| called.function == name);
        if !is_called {
            let called = Called {
                function: name.to_owned(),
                failures: view.failures,
                since: self.clock.now(),
            };
            supervisor.want(true);
            if let Some(before) = self.called.replace(called)
                && let Some(other) = self.supervisor(&before.function)
            {
                other.want(false);
            }
        }
        if supervisor.is_there() {
            return Ok(());
        }
        let failed = self.called.as_ref().is_some_and(|called| view.failures > called.failures);
        if let Some(reason) = view.last_failure.filter(|_| failed) {
            self.dismiss();
            return Err(NotComposed::Absent(name.to_owned(), reason));
        }
        Err(NotComposed::NotYet(format!("the process of `{name}` is not there yet")))
    }

    /// Lets a process rest that was called for a function that did not come.
    fn dismiss(&mut self) {
        if let Some(called) = self.called.take()
            && let Some(supervisor) = self.supervisor(&called.function)
        {
            supervisor.want(false);
        }
    }

    /// A process that was called for a function that does not come rests again.
    pub(super) fn look_after_called(&mut self) {
        if self.called.as_ref().is_some_and(|called| {
            self.relocation.is_none() && self.clock.now().saturating_sub(called.since) > READY
        }) {
            self.dismiss();
        }
    }

    /// Copies what can be copied now, once all workers have handed over; whether there was
    /// anything.
    pub(super) fn copy_some(&mut self, relocation: &mut Relocation) -> bool {
        let mut busy = false;
        while relocation.is_lifted() && relocation.refusal.is_none() {
            let Some((pieces, slots)) = relocation.pieces() else { break };
            if pieces.asked.len() >= PIECES {
                break;
            }
            let Some((worker, from, slots)) = pieces.piece(slots) else { break };
            self.copy(relocation, worker, from, slots);
            busy = true;
        }
        busy
    }

    /// Copies some contexts into the process, or asks it for them.
    fn copy(&mut self, relocation: &mut Relocation, worker: usize, from: usize, slots: Vec<u32>) {
        let now = self.clock.now();
        let what = if relocation.goes { InquiryKind::Import } else { InquiryKind::Export };
        if relocation.goes {
            let part = relocation.replacements[worker].parts[relocation.function].instance.as_mut();
            let (Some(old), Some(away)) = (&relocation.lifted[worker], part) else { return };
            for &slot in &slots {
                let mut context = Vec::new();
                old.export(slot, now, &mut context);
                if let Err(error) = away.import(slot, now, &context) {
                    relocation.refusal = Some(not_taken(&error));
                }
            }
        }
        let ticket = self.transfers.next();
        if let Some(supervisor) = self.supervisor(&relocation.name)
            && let Some((pieces, _)) = relocation.pieces()
        {
            supervisor.ask(Question { ticket, worker: worker as u16, slots, what });
            pieces.asked.insert(ticket, (worker, from));
        }
    }

    /// Takes an answer about a function that moves; gives back any other.
    pub(crate) fn take_relocated(&mut self, answer: Answer) -> Option<Answer> {
        let (Answer::Exported { ticket, .. } | Answer::Imported { ticket, .. }) = &answer;
        let now = self.clock.now();
        let Some(relocation) = &mut self.relocation else { return Some(answer) };
        let Some((pieces, _)) = relocation.pieces() else { return Some(answer) };
        let Some((worker, from)) = pieces.asked.remove(ticket) else { return Some(answer) };
        match answer {
            Answer::Imported { outcome: Err(reason), .. } => {
                relocation.refusal = Some(not_taken(&reason));
            }
            Answer::Imported { .. } => {}
            Answer::Exported { contexts, lost, .. } => {
                pieces.lost |= lost;
                let slots = relocation.slots[worker][from..].to_vec();
                let name = relocation.name.clone();
                let instance = relocation.instance(worker)?;
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
}

fn not_taken(reason: &impl ToString) -> String {
    format!("its process did not take its contexts ({})", reason.to_string())
}
