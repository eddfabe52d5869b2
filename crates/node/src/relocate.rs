//! A function goes into a process of its own or to another node, or comes back from there,
//! while traffic runs.
//!
//! **Gate.** Each worker lets the function's packets wait, up to a bound, at the queue to
//! where it goes, and hands its instance to the agent once none is away. Packets that do not
//! come to the function go on. **Fence.** Contexts are copied from where they are to where
//! they are to be, some at a time: the agent asks the [`process`], and the part that carries them
//! between two [nodes](migration_session) says that they are there. Commands about users wait
//! meanwhile. **Release.** The worker gets the other instance, what waited goes on in order
//! before what comes, and the commands follow.

mod migration_session;
mod process;

use std::collections::HashMap;

use weft_compose::{Instance, SlotShift};
use weft_dataplane::command::{Arrival, Command, Replacement};
use weft_function::Scope;
use weft_node_config::{Blueprint, Composition};

use self::migration_session::MigrationSession;
pub(crate) use self::process::Called;
use self::process::Pieces;
use crate::agent::Agent;
use crate::change::{Changed, Refused};
use crate::plan;
use crate::stage::NotComposed;

/// What stands for functions in the rules while they are in processes or at other nodes, of
/// functions that are not there now, and their queues.
#[derive(Default)]
pub(crate) struct Prepared(HashMap<String, Ready>);

struct Ready {
    remote_queue: u16,
    /// By worker.
    away: Vec<Box<dyn Instance>>,
}

impl Prepared {
    /// The queue to where a function may go is that of this number.
    pub(crate) fn note(
        &mut self,
        function: &str,
        remote_queue: u16,
    ) -> &mut Vec<Box<dyn Instance>> {
        let ready = Ready { remote_queue, away: Vec::new() };
        &mut self.0.entry(function.to_owned()).or_insert(ready).away
    }

    /// The queue to where a function may go.
    pub(crate) fn remote_queue(&self, function: &str) -> Option<u16> {
        self.0.get(function).map(|ready| ready.remote_queue)
    }

    fn take(&mut self, function: &str) -> Vec<Box<dyn Instance>> {
        self.0.get_mut(function).map(|ready| std::mem::take(&mut ready.away)).unwrap_or_default()
    }

    fn put(&mut self, function: &str, away: Vec<Box<dyn Instance>>) {
        if let Some(ready) = self.0.get_mut(function) {
            ready.away = away;
        }
    }
}

/// A function on its way.
pub(crate) struct Relocation {
    function: usize,
    name: String,
    remote_queue: u16,
    /// Whether it goes to where the queue leads.
    goes: bool,
    /// What each worker gets in the end.
    replacements: Vec<Replacement>,
    /// What each worker had, and the slots of contexts there.
    lifted: Vec<Option<Box<dyn Instance>>>,
    slots: Vec<Vec<u32>>,
    copying: Copying,
    /// Why it stays where it was.
    refusal: Option<String>,
}

/// How its contexts get to where it goes.
enum Copying {
    /// Into its process, or out of it.
    Process(Pieces),
    /// To another node, or back.
    MigrationSession(MigrationSession),
}

impl Relocation {
    /// The instance that a worker is to have.
    fn instance(&mut self, worker: usize) -> Option<&mut Box<dyn Instance>> {
        self.replacements[worker].parts[self.function].instance.as_mut()
    }

    /// Whether a process of this machine has to do with it.
    pub(crate) fn is_by_process(&self) -> bool {
        matches!(self.copying, Copying::Process(_))
    }

    /// Whether all workers have handed their instances over.
    fn is_lifted(&self) -> bool {
        self.lifted.iter().all(Option::is_some)
    }
}

impl Agent {
    /// Lets the packets of a function wait, which the blueprint says how to run from now on.
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    fn lift(
        &mut self,
        new: Blueprint,
        function: usize,
        copying: Copying,
    ) -> Result<Changed, NotComposed> {
        let plan = &new.functions[function];
        let (name, goes) = (plan.name.clone(), !plan.composition.is_at_hand());
        if !self.transfers.is_empty() || !self.inquiries.is_empty() {
            return Err(NotComposed::NotYet(format!("`{name}`: users are on the move")));
        }
        let Some(remote_queue) = self.prepared.remote_queue(&name) else {
            return Err(NotComposed::NotPrepared(name));
        };
        let mut instances = match goes {
            true => self.prepared.take(&name),
            false => self.instances_of(&new, function)?,
        };
        let changed = self.change(new, Some((function, &mut instances)));
        let (changed, mut replacements) = match changed {
            Ok(changed) => changed,
            Err(refused) => {
                if goes {
                    self.prepared.put(&name, instances);
                }
                return Err(refused.into());
            }
        };
        let scope = self.trials.instance(function).scope();
        let workers = self.links.len();
        let slots = (0..workers).map(|worker| self.slots_of(worker, scope)).collect();
        let number = function as u16;
        for link in &mut self.links {
            link.send(Command::Lift { function: number, remote_queue });
            link.hold();
        }
        for replacement in &mut replacements {
            replacement.parts[function].remote_queue = Some(remote_queue);
            replacement.arrival = Some(Arrival { function: number, remote_queue, at_hand: !goes });
        }
        self.relocation = Some(Box::new(Relocation {
            function,
            name,
            remote_queue,
            goes,
            replacements,
            lifted: (0..workers).map(|_| None).collect(),
            slots,
            copying,
            refusal: None,
        }));
        self.move_failure = None;
        Ok(changed)
    }

    /// Fresh instances for all workers.
    fn instances_of(
        &self,
        new: &Blueprint,
        function: usize,
    ) -> Result<Vec<Box<dyn Instance>>, Refused> {
        let plan = &new.functions[function];
        let instance = |worker| {
            plan::instance(plan, new, worker, self.room.contexts(), self.shift).map_err(|error| {
                let function = plan.name.clone();
                crate::assemble::BuildError::Function { function, error }.into()
            })
        };
        (0..self.links.len()).map(instance).collect()
    }

    /// Slots of all contexts that a worker has of a function with that scope.
    fn slots_of(&self, worker: usize, scope: Scope) -> Vec<u32> {
        let slot = |shift: SlotShift| move |index: u32| shift.slot(worker, index as usize);
        self.users.indexes(worker, scope).map(slot(self.shift)).collect()
    }

    /// A worker has handed its instance over.
    pub(crate) fn take_lifted(&mut self, worker: usize, instance: Box<dyn Instance>) {
        if let Some(relocation) = &mut self.relocation {
            relocation.lifted[worker] = Some(instance);
        }
    }

    /// Goes on with a function that moves; whether there was anything to do.
    pub(crate) fn look_after_relocation(&mut self) -> bool {
        self.look_after_called();
        let Some(mut relocation) = self.relocation.take() else { return false };
        let mut busy = false;
        let is_copied = match &relocation.copying {
            Copying::Process(_) => {
                busy = self.copy_some(&mut relocation);
                relocation.is_copied()
            }
            Copying::MigrationSession(session) => {
                let word = session.word(self.clock.now());
                relocation.refusal = relocation.refusal.or(word.clone().and_then(Result::err));
                word.is_some()
            }
        };
        if relocation.is_lifted() && is_copied {
            self.release(*relocation);
            return true;
        }
        self.relocation = Some(relocation);
        busy
    }

    /// Gives the workers what is to be at work from now on.
    fn release(&mut self, relocation: Relocation) {
        let Relocation { function, name, remote_queue, goes, mut replacements, mut lifted, .. } =
            relocation;
        let stays = relocation.refusal.is_some();
        if let Some(reason) = relocation.refusal {
            // It has its contexts still.
            for (replacement, old) in replacements.iter_mut().zip(&mut lifted) {
                std::mem::swap(&mut replacement.parts[function].instance, old);
                let function = function as u16;
                replacement.arrival = Some(Arrival { function, remote_queue, at_hand: goes });
            }
            let plan = &mut self.blueprint.functions[function];
            let before = if goes { Composition::Call } else { Composition::Remote };
            (plan.composition, plan.stage) = (before, None);
            let is_now = if goes { "is called" } else { "stays at the other node" };
            tracing::warn!(function = name, reason, "the function {is_now}");
            self.move_failure = Some(format!("`{name}` {is_now}: {reason}"));
        } else if let Copying::Process(Pieces { lost: true, .. }) = relocation.copying {
            tracing::warn!(
                function = name,
                "its process was not there: it goes on with the last checkpoint"
            );
        }
        if stays == goes {
            let mut away: Vec<_> = lifted.into_iter().flatten().collect();
            for (away, slots) in away.iter_mut().zip(&relocation.slots) {
                slots.iter().for_each(|slot| away.release(*slot));
            }
            self.prepared.put(&name, away);
            if let Some(supervisor) = self.supervisor(&name) {
                supervisor.want(false);
            }
        }
        for (link, replacement) in self.links.iter_mut().zip(replacements) {
            link.send_first(Command::Replace(Box::new(replacement)));
            link.let_go();
        }
    }

    /// Why the last function that was to move did not, where that showed on its way.
    pub fn move_failure(&self) -> Option<&str> {
        self.move_failure.as_deref()
    }
}
