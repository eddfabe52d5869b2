//! Experiments one after the other: which are measured, and which are complete already.

use std::time::Instant;

use weft_bench::experiment::{Effort, Experiment, Order, Unlike};
use weft_bench::results::Results;
use weft_rig::Rig;

use super::Arguments;
use super::keep::Directory;
use super::watch::Progress;
use crate::failure::Failure;
use crate::{log, output};

/// A run of the bench.
pub struct Session<'a> {
    pub arguments: &'a Arguments,
    pub rig: &'a Rig,
    pub progress: Progress,
    pub directory: Directory,
    /// The kind of this machine.
    pub kind: String,
}

impl Session<'_> {
    /// Performs the experiments, and writes the report. Of several, one that fails does not
    /// keep the others from being measured.
    ///
    /// # Errors
    /// What ended experiments; a directory that cannot be written.
    pub fn perform(&self, chosen: &[&Experiment]) -> Result<(), Failure> {
        let several = chosen.len() > 1;
        let mut failed = Vec::new();
        for (number, experiment) in chosen.iter().enumerate() {
            if self.progress.is_interrupted() && number == 0 {
                return Err(Failure::broken("interrupted before anything was measured"));
            }
            if self.progress.is_interrupted() {
                break;
            }
            match self.one(experiment, several)? {
                None => {}
                Some(error) if several => {
                    log::say(&format!("weft: {error}"));
                    failed.push(experiment.name);
                }
                Some(error) => {
                    self.directory.report()?;
                    return Err(Failure::broken(error));
                }
            }
        }
        let page = self.directory.report()?;
        if self.progress.is_interrupted() {
            log::say("weft: interrupted; what was measured so far is kept (go on with --resume)");
        }
        output::line(&format!("report: {}", page.display()))?;
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Failure::broken(format!("these ended early: {}", failed.join(", ")))),
        }
    }

    /// Performs one, unless it is complete; returns what ended it before its time.
    fn one(&self, experiment: &Experiment, several: bool) -> Result<Option<String>, Failure> {
        let (name, begun) = (experiment.name, Instant::now());
        let former = match self.arguments.resume {
            true => self.directory.former(name)?,
            false => [None, None],
        };
        let [complete, under_way] = former;
        if let Some(complete) = complete.as_ref().filter(|complete| self.is_enough(complete)) {
            let effort = Effort::of(complete).map_or("", Effort::name);
            let commit = &complete.machine.commit;
            output::line(&format!("{name}: is complete (--{effort}, at {commit}): kept"))?;
            return Ok(None);
        }
        // Of parameters of its own the complete results are gone on with, if they have these.
        let former = under_way.or(complete.filter(|_| self.arguments.file.is_some()));
        let watch = self.progress.watch(name, &self.directory);
        let perform = |former| experiment.perform(self.order(experiment, former), self.rig, &watch);
        let performed = perform(former).or_else(|error| match several && error.is::<Unlike>() {
            true => {
                log::say(&format!("weft: {error}; it is begun anew"));
                perform(None)
            }
            false => Err(error),
        });
        let (results, ended) = performed.map_err(Failure::input)?;
        self.directory.keep(&results)?;
        let took = begun.elapsed().as_secs_f64();
        let says = if results.says.is_empty() { "ended" } else { &results.says };
        // Of what ended before it measured anything its error says all.
        if ended.is_none() || !results.says.is_empty() {
            output::line(&format!("{name}: {says} ({took:.0} s)"))?;
        }
        Ok(ended.map(|error| format!("{name}: {error}")))
    }

    /// Whether nothing is gained by measuring it once more on this machine.
    fn is_enough(&self, complete: &Results) -> bool {
        let effort = Effort::of(complete);
        self.arguments.file.is_none()
            && complete.machine.kind == self.kind
            && effort.is_some_and(|it| it >= self.arguments.effort())
    }

    fn order(&self, experiment: &Experiment, former: Option<Results>) -> Order<'_> {
        let Arguments { file, .. } = self.arguments;
        let (effort, command) = (self.arguments.effort(), self.arguments.command(experiment));
        Order { effort, file: file.as_deref(), command, former }
    }
}
