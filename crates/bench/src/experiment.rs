//! What an experiment is, and how one is performed.
//!
//! A [`Study`] is written once, in one file under `experiments`: its parameters,
//! what it measures, and what follows from that. Its parameters stand in a YAML
//! file of the same name at the root of the repository, for each [`Effort`].
//! Measuring and concluding are apart: an experiment that is interrupted is
//! concluded from what there is.

pub(crate) mod file;

use std::collections::BTreeMap;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use self::file::File;
use crate::machine::Machine;
use crate::results::Results;
use crate::run::{Interrupted, Run, Watch};
use crate::shapes;
use weft_rig::Failure;
use weft_rig::Rig;

/// One experiment, as its author writes it.
pub trait Study {
    /// Its name on the command line.
    const NAME: &'static str;
    /// A heading.
    const TITLE: &'static str;
    /// What varies.
    const VARIES: &'static str;
    /// The figure or table of a paper that it makes again.
    const PAPER: &'static str;
    /// Its file of parameters.
    const FILE: &'static str;
    /// What can be set.
    type Parameters: Serialize + DeserializeOwned + JsonSchema;

    /// Measures.
    ///
    /// # Errors
    /// When something cannot be measured, or the run was [`Interrupted`].
    fn measure(parameters: &Self::Parameters, run: &mut Run<'_>) -> Result<(), Failure>;

    /// Draws, derives and says what follows from the series that there are.
    fn conclude(parameters: &Self::Parameters, results: &mut Results);
}

/// The parameter that says how much time was spent.
const EFFORT: &str = "effort";

/// How much time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// About a minute for an experiment.
    Quick,
    /// As many repetitions as it takes for narrow intervals.
    Full,
    /// The durations of the papers; many hours.
    Papers,
}

impl Effort {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Full => "full",
            Effort::Papers => "papers",
        }
    }

    /// That of results.
    pub fn of(results: &Results) -> Option<Effort> {
        let named = results.parameters.get(EFFORT)?;
        Effort::deserialize(named).ok()
    }
}

/// Results that cannot be gone on with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot resume {experiment}: the results there are of {what}; delete them to begin anew")]
pub struct Unlike {
    experiment: &'static str,
    what: &'static str,
}

/// How an experiment is performed.
pub struct Order<'a> {
    /// How much time is spent.
    pub effort: Effort,
    /// Parameters other than those that are built in.
    pub file: Option<&'a Path>,
    /// The command that repeats it.
    pub command: String,
    /// Results of an interrupted run, which are gone on with.
    pub former: Option<Results>,
}

/// Any experiment.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What varies.
    pub varies: &'static str,
    /// The figure or table of a paper that it makes again.
    pub paper: &'static str,
    perform: fn(Order<'_>, &Rig, &dyn Watch) -> Performed,
    schema: fn(&mut SchemaGenerator) -> Schema,
    check: fn() -> Result<(), Failure>,
}

/// Results, however few, and what ended the experiment before its time.
pub type Performed = Result<(Results, Option<Failure>), Failure>;

impl Experiment {
    /// That of a study.
    pub const fn of<S: Study>() -> Experiment {
        Experiment {
            name: S::NAME,
            varies: S::VARIES,
            paper: S::PAPER,
            perform: perform::<S>,
            schema: |generator| generator.subschema_for::<File<S::Parameters>>(),
            check: || {
                let name = format!("{}.yaml", S::NAME);
                File::<S::Parameters>::read(S::FILE, &name, S::NAME).map(|_| ())?;
                Ok(())
            },
        }
    }

    /// Performs it. What is measured is kept by the watch again and again.
    ///
    /// # Errors
    /// When nothing could be begun: mistakes in the parameters, or former results
    /// that are [`Unlike`]. What ends it later comes with the results.
    pub fn perform(&self, order: Order<'_>, rig: &Rig, watch: &dyn Watch) -> Performed {
        (self.perform)(order, rig, watch)
    }

    /// Checks its file of parameters, for all efforts.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn check(&self) -> Result<(), Failure> {
        (self.check)()
    }

    /// The schema of its file.
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }
}

fn perform<S: Study>(order: Order<'_>, rig: &Rig, watch: &dyn Watch) -> Performed {
    let Order { effort, file, command, former } = order;
    let file = match file {
        Some(path) => File::<S::Parameters>::load(path, S::NAME)?,
        None => File::<S::Parameters>::read(S::FILE, &format!("{}.yaml", S::NAME), S::NAME)?,
    };
    let parameters = file.of(effort);
    let mut results = Results::new(S::NAME, Machine::observe(rig.eal));
    results.title = S::TITLE.to_owned();
    if S::PAPER != "none" {
        results.from = S::PAPER.to_owned();
    }
    results.command = command;
    results.complete = false;
    results.parameters = named(effort, parameters)?;
    if let Some(former) = &former {
        comparable(S::NAME, former, &results)?;
        results.began.clone_from(&former.began);
        if former.machine.kernel != results.machine.kernel {
            let kernel = &former.machine.kernel;
            results.notes.push(format!("Before it was gone on with, the kernel was {kernel}."));
        }
    }
    let mut run = Run::new(rig, watch, results, former, |results| {
        S::conclude(parameters, results);
        shapes::tell(results);
    });
    let ended = run.keep().and_then(|()| S::measure(parameters, &mut run));
    let results = run.finish(ended.is_ok());
    match ended {
        Ok(()) => Ok((results, None)),
        Err(error) if error.is::<Interrupted>() => Ok((results, None)),
        Err(error) => Ok((results, Some(error))),
    }
}

/// Parameters by name, as results keep them.
fn named(effort: Effort, parameters: &impl Serialize) -> Result<BTreeMap<String, Value>, Failure> {
    let mut named: BTreeMap<String, Value> =
        serde_json::from_value(serde_json::to_value(parameters)?)?;
    named.insert(EFFORT.to_owned(), serde_json::to_value(effort)?);
    Ok(named)
}

/// Whether former results can be gone on with: by the same build, on a machine of the same kind.
fn comparable(experiment: &'static str, former: &Results, now: &Results) -> Result<(), Unlike> {
    let build = |results: &Results| {
        let Machine { commit, build, dpdk, .. } = results.machine.clone();
        (commit, build, dpdk)
    };
    let what = match () {
        () if former.experiment != now.experiment => "another experiment",
        () if former.parameters != now.parameters => "other parameters",
        () if former.machine.kind != now.machine.kind => "another kind of machine",
        () if build(former) != build(now) => "another build",
        () => return Ok(()),
    };
    Err(Unlike { experiment, what })
}
