//! A function goes into a process of its own, or comes back from there, while traffic runs.
//!
//! **Gate.** Each worker lets the function's packets wait, up to a bound, at the lane to
//! the process, and hands its instance to the agent once none is away. Packets that do not
//! come to the function go on. **Fence.** The agent copies contexts from where they are to
//! where they are to be, some at a time; a process says that it has them. Commands about
//! users wait meanwhile. **Release.** The worker gets the other instance, what waited goes
//! on in order before what comes, and the commands follow.

mod worker;

use std::collections::HashMap;

use weft_compose::{Instance, SlotShift};
use weft_function::Scope;
use weft_process::{Answer, Question, What};

pub(crate) use self::worker::Lifted;
use crate::agent::Agent;
use crate::change::{Changed, Refused};
use crate::command::{Arrival, Command, Replacement};
use crate::config::{Blueprint, Composition};
use crate::plan;
use crate::stage::NotComposed;

/// Contexts that are copied at once, and so many times that without an answer.
const PIECE: usize = 512;
const PIECES: usize = 4;

/// How long a process is kept ready for a function that does not come, in nanoseconds.
const READY: u64 = 30_000_000_000;

/// What stands for functions in the rules while they are in processes, of functions that
/// are not there now, and their lanes.
#[derive(Default)]
pub(crate) struct Prepared(HashMap<String, Ready>);

struct Ready {
    lane: u16,
    /// By worker.
    away: Vec<Box<dyn Instance>>,
}

impl Prepared {
    /// The lane to a function's process is that of this number.
    pub(crate) fn note(&mut self, function: &str, lane: u16) -> &mut Vec<Box<dyn Instance>> {
        let ready = Ready { lane, away: Vec::new() };
        &mut self.0.entry(function.to_owned()).or_insert(ready).away
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

/// A process that was asked for.
pub(crate) struct Called {
    function: String,
    failures: u64,
    since: u64,
}

/// A function on its way.
pub(crate) struct Relocation {
    function: usize,
    name: String,
    lane: u16,
    /// Whether it goes into its process.
    goes: bool,
    /// What each worker gets in the end.
    replacements: Vec<Replacement>,
    /// What each worker had, and the slots of contexts there.
    lifted: Vec<Option<Box<dyn Instance>>>,
    slots: Vec<Vec<u32>>,
    /// The next context to be copied: worker, and number among its slots.
    next: (usize, usize),
    /// Questions that the process has not answered.
    asked: HashMap<u64, (usize, usize)>,
    lost: bool,
    refusal: Option<String>,
}

impl Relocation {
    /// The slots of the next piece, with their worker.
    fn piece(&mut self) -> Option<(usize, usize, Vec<u32>)> {
        loop {
            let (worker, from) = self.next;
            let slots = self.slots.get(worker)?;
            if from >= slots.len() {
                self.next = (worker + 1, 0);
                continue;
            }
            let to = slots.len().min(from + PIECE);
            self.next = (worker, to);
            return Some((worker, from, slots[from..to].to_vec()));
        }
    }

    fn instance(&mut self, worker: usize) -> Option<&mut Box<dyn Instance>> {
        self.replacements[worker].parts[self.function].instance.as_mut()
    }
}

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
        let name = new.functions[function].name.clone();
        let goes = new.functions[function].is_isolated();
        self.check_prepared(&new, function)?;
        if goes {
            self.call_process(&name)?;
        }
        if !self.transfers.is_empty() || !self.inquiries.is_empty() {
            return Err(NotComposed::NotYet(format!("`{name}`: users are on the move")));
        }
        let Some(lane) = self.prepared.0.get(&name).map(|ready| ready.lane) else {
            return Err(NotComposed::NotPrepared(name));
        };
        let mut instances = match goes {
            true => self.prepared.take(&name),
            false => self.instances_of(&new, function)?,
        };
        let changed = self.change(new, Some((function, &mut instances)));
        let (changed, replacements) = match changed {
            Ok(changed) => changed,
            Err(refused) => {
                if goes {
                    self.prepared.put(&name, instances);
                }
                return Err(refused.into());
            }
        };
        self.called = None;
        let scope = self.trials.instance(function).scope();
        let workers = self.links.len();
        let slots = (0..workers).map(|worker| self.slots_of(worker, scope)).collect();
        for link in &mut self.links {
            link.send(Command::Lift { function: function as u16, lane });
            link.hold();
        }
        let mut relocation = Relocation {
            function,
            name,
            lane,
            goes,
            replacements,
            lifted: (0..workers).map(|_| None).collect(),
            slots,
            next: (0, 0),
            asked: HashMap::new(),
            lost: false,
            refusal: None,
        };
        for replacement in &mut relocation.replacements {
            let part = &mut replacement.parts[function];
            part.lane = Some(lane);
            let at_hand = !goes;
            let function = function as u16;
            replacement.arrival = Some(Arrival { function, lane, at_hand });
        }
        self.relocation = Some(Box::new(relocation));
        self.move_failure = None;
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
        if self.called.as_ref().is_some_and(|called| {
            self.relocation.is_none() && self.clock.now().saturating_sub(called.since) > READY
        }) {
            self.dismiss();
        }
        let Some(mut relocation) = self.relocation.take() else { return false };
        let is_lifted = relocation.lifted.iter().all(Option::is_some);
        let mut busy = false;
        while is_lifted && relocation.asked.len() < PIECES && relocation.refusal.is_none() {
            let Some((worker, from, slots)) = relocation.piece() else { break };
            self.copy(&mut relocation, worker, from, slots);
            busy = true;
        }
        let is_done = relocation.refusal.is_some() || relocation.piece_is_last();
        if is_lifted && is_done && relocation.asked.is_empty() {
            self.release(*relocation);
            return true;
        }
        self.relocation = Some(relocation);
        busy
    }

    /// Copies some contexts into the process, or asks it for them.
    fn copy(&mut self, relocation: &mut Relocation, worker: usize, from: usize, slots: Vec<u32>) {
        let now = self.clock.now();
        let what = if relocation.goes { What::Import } else { What::Export };
        if relocation.goes {
            let part = relocation.replacements[worker].parts[relocation.function].instance.as_mut();
            let (Some(old), Some(away)) = (&relocation.lifted[worker], part) else { return };
            for &slot in &slots {
                let mut context = Vec::new();
                old.export(slot, now, &mut context);
                if let Err(error) = away.import(slot, now, &context) {
                    relocation.refusal = Some(error.to_string());
                }
            }
        }
        let ticket = self.transfers.next();
        if let Some(supervisor) = self.supervisor(&relocation.name) {
            supervisor.ask(Question { ticket, worker: worker as u16, slots, what });
            relocation.asked.insert(ticket, (worker, from));
        }
    }

    /// Takes an answer about a function that moves; gives back any other.
    pub(crate) fn take_relocated(&mut self, answer: Answer) -> Option<Answer> {
        let (Answer::Exported { ticket, .. } | Answer::Imported { ticket, .. }) = &answer;
        let now = self.clock.now();
        let Some(relocation) = &mut self.relocation else { return Some(answer) };
        let Some((worker, from)) = relocation.asked.remove(ticket) else { return Some(answer) };
        match answer {
            Answer::Imported { outcome: Err(reason), .. } => relocation.refusal = Some(reason),
            Answer::Imported { .. } => {}
            Answer::Exported { contexts, lost, .. } => {
                relocation.lost |= lost;
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

    /// Gives the workers what is to be at work from now on.
    fn release(&mut self, relocation: Relocation) {
        let Relocation { function, name, lane, goes, mut replacements, mut lifted, .. } =
            relocation;
        let stays = relocation.refusal.is_some();
        if let Some(reason) = relocation.refusal {
            // It has its contexts still.
            for (replacement, old) in replacements.iter_mut().zip(&mut lifted) {
                std::mem::swap(&mut replacement.parts[function].instance, old);
                let function = function as u16;
                replacement.arrival = Some(Arrival { function, lane, at_hand: true });
            }
            let plan = &mut self.blueprint.functions[function];
            (plan.composition, plan.stage) = (Composition::Call, None);
            tracing::warn!(function = name, reason, "the function is not in its process");
            self.move_failure = Some(format!(
                "`{name}` is called: its process did not take its contexts ({reason})"
            ));
        } else if relocation.lost {
            tracing::warn!(
                function = name,
                "its process was not there: it goes on with the last checkpoint"
            );
        }
        if stays || !goes {
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

impl Relocation {
    /// Whether all contexts are copied or asked for.
    fn piece_is_last(&self) -> bool {
        let (worker, from) = self.next;
        self.slots.iter().skip(worker).enumerate().all(|(at, slots)| {
            let from = if at == 0 { from } else { 0 };
            from >= slots.len()
        })
    }
}
