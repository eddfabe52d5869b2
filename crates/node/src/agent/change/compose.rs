//! A function goes over to another composition, or to another core, while traffic runs: as
//! a command asks, or as loads call for.

use weft_node_config::{Composition, HandoverRole, StagePlan, stage};

use super::{Changed, Reconfiguration};
use crate::agent::configuration::Configuration;
use crate::error::NotComposed;
use crate::migration::split::Running;

/// How a function is to be run from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The composition.
    pub composition: Composition,
    /// Name of the thread, for a function that is to stand on one.
    pub stage: Option<String>,
    /// The processor core of the thread.
    pub core: Option<u32>,
}

impl Reconfiguration<'_> {
    /// Runs a function otherwise from now on. Its contexts go along, no packet is lost,
    /// and none overtakes another: workers receive nothing until all that was under way
    /// has come back and the instances are where they are to be.
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub fn compose(&mut self, function: &str, wanted: &Wanted) -> Result<Changed, NotComposed> {
        self.migration.failure = None;
        let mut new = self.configuration.blueprint.clone();
        let name = || function.to_owned();
        let Some(number) = new.functions.iter().position(|one| one.name == function) else {
            return Err(NotComposed::Unknown(name()));
        };
        let composition = wanted.composition;
        let before = new.functions[number].composition;
        if before == Composition::Vf || composition == Composition::Vf {
            return Err(NotComposed::Elsewhere(name()));
        }
        if before == Composition::Remote || composition == Composition::Remote {
            return Err(NotComposed::Carried(name()));
        }
        let can_fuse = self
            .configuration
            .trials
            .number(function)
            .is_some_and(|number| self.configuration.trials.instance(number).lower().is_some());
        if composition == Composition::Fused && !can_fuse {
            return Err(NotComposed::NotFused(name()));
        }
        let has_thread = wanted.stage.is_some() || wanted.core.is_some();
        let is_thread = composition == Composition::Thread;
        if !is_thread && has_thread {
            return Err(NotComposed::NoThread(name()));
        }
        let is_anchor = new.handover.as_ref().is_some_and(|plan| plan.role == HandoverRole::Anchor);
        if is_thread && is_anchor {
            return Err(NotComposed::Anchor(name()));
        }
        let mut plan = is_thread.then(|| stage(wanted.stage.as_deref(), wanted.core));
        if let Some(plan) = &mut plan {
            let others = new.functions.iter().filter_map(|one| one.stage.as_ref());
            let same = others.filter(|one| one.name == plan.name).find(|one| one.core != plan.core);
            match (same, wanted.core) {
                (Some(_), Some(core)) => {
                    return Err(NotComposed::OtherCore(plan.name.clone(), core));
                }
                (Some(StagePlan { core, .. }), None) => plan.core = *core,
                (None, _) => {}
            }
        }
        (new.functions[number].composition, new.functions[number].stage) = (composition, plan);
        // A request that says where it stands has chosen.
        new.functions[number].auto = None;
        match (before == Composition::Process) == (composition == Composition::Process) {
            true => {
                let changed = self.apply_composed(new)?;
                self.persistence.keep_composition(function, &self.configuration.blueprint);
                Ok(changed)
            }
            false => self.relocate(new, number),
        }
    }

    /// Looks at loads, and moves functions between the workers and a thread where that is
    /// worth it.
    pub fn look_after_split(&mut self, now: u64) {
        let Reconfiguration { configuration, functions, workers, migration, .. } = &mut *self;
        let Configuration { blueprint, classes, .. } = &**configuration;
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
