//! The configuration at work, and what is made from one.

use std::sync::Arc;

use weft_compose::SlotShift;
use weft_dataplane::command::{Part, Replacement};
use weft_fusion::{Compiled, FusedPlan, fuse};
use weft_node_config::Blueprint;
use weft_offload::thread::ThreadPool;
use weft_rules::{Condition, Program};

use crate::error::BuildError;
use crate::plan::{self, Classes, Trials};

/// What the node runs by.
pub(crate) struct Configuration {
    pub blueprint: Blueprint,
    pub classes: Classes,
    pub profiles: Vec<Vec<Condition>>,
    /// Checks settings that commands give.
    pub trials: Trials,
    /// What is fused, and the machine code in use.
    pub fused: Option<Arc<FusedPlan>>,
    pub compiled: Compiled,
}

/// What the node may run by next: everything is compiled, and nothing has changed.
pub(crate) struct NextConfiguration {
    pub blueprint: Blueprint,
    classes: Classes,
    profiles: Vec<Vec<Condition>>,
    trials: Trials,
    fused: Option<Arc<FusedPlan>>,
    program: Program,
    /// Numbers of its classes and bearer profiles.
    pub class_numbers: Vec<u16>,
    pub profile_numbers: Vec<u16>,
}

impl Configuration {
    /// Compiles another one. Machine code is made here, in the agent's thread; workers get it
    /// with their plan, and what is no longer used comes back with the plan before.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn next(
        &mut self,
        blueprint: Blueprint,
        shift: SlotShift,
    ) -> Result<NextConfiguration, BuildError> {
        let mut classes = Classes { tags: self.classes.tags.clone() };
        let class_numbers = classes.adopt(&blueprint, &self.blueprint)?;
        let mut profiles = self.profiles.clone();
        let profile_numbers = plan::bearer_profiles(&mut profiles, &blueprint);
        let program = plan::compile(&blueprint, &classes.tags)?;
        let trials = Trials::of(&blueprint)
            .map_err(|error| BuildError::Function { function: "on trial".to_owned(), error })?;
        let fused = fuse(&program, &trials.lowered(&blueprint), shift, &mut self.compiled);
        Ok(NextConfiguration {
            blueprint,
            classes,
            profiles,
            trials,
            fused,
            program,
            class_numbers,
            profile_numbers,
        })
    }

    /// Names of the functions, by number.
    pub fn function_names(&self) -> Vec<String> {
        self.blueprint.functions.iter().map(|one| one.name.clone()).collect()
    }

    /// The node runs by this one now.
    pub fn adopt(&mut self, next: NextConfiguration) {
        let NextConfiguration { blueprint, classes, profiles, trials, fused, .. } = next;
        (self.blueprint, self.classes, self.profiles) = (blueprint, classes, profiles);
        (self.trials, self.fused) = (trials, fused);
    }
}

impl NextConfiguration {
    /// What each worker is given, with its parts of functions. Threads are made that are not
    /// there yet.
    pub fn replacements(
        &self,
        parts: Vec<Vec<Part>>,
        threads: &mut ThreadPool,
    ) -> Vec<Replacement> {
        let new = &self.blueprint;
        let rules = Arc::new(new.rules.clone());
        let stages = threads.add(plan::stages(new));
        let maps = plan::maps(threads, new, &self.program);
        let classes = self.classes.tags.len();
        let mut replacements = Vec::new();
        for (mut parts, stages) in parts.into_iter().zip(stages) {
            for (part, plan) in parts.iter_mut().zip(&new.functions) {
                part.stage = plan.stage.as_ref().and_then(|stage| threads.remote_queue_of(stage));
            }
            let plan = plan::plan(new, &rules, &self.program, classes, self.fused.as_ref());
            replacements.push(Replacement {
                plan: Box::new(plan),
                parts,
                tags: plan::tags(new, &self.classes.tags),
                profiles: self.profiles.clone(),
                stages,
                maps: maps.clone(),
                arrival: None,
            });
        }
        replacements
    }
}
