//! Trials that one machine cannot make. They do not keep the others from being compared.

use std::collections::BTreeSet;
use std::fmt::Display;

use crate::run::{Run, Values};
use weft_rig::Failure;
use weft_rig::Measured;
use weft_rig::NotFused;

/// What was not always measured, and why: each told once.
#[derive(Debug, Default)]
pub struct Failed(BTreeSet<String>);

impl Failed {
    /// What was measured, and how far it was disturbed; no values where that failed.
    ///
    /// # Errors
    /// As [`Failed::note`].
    pub fn cost(
        &mut self,
        name: impl Display,
        measured: Result<(Measured, f64), Failure>,
    ) -> Result<(Values, f64), Failure> {
        match measured {
            Ok((cycles, disturbance)) => Ok((Values::of(cycles), disturbance)),
            Err(error) => self.note(name, error),
        }
    }

    /// Notes a failure; the values of the trial.
    ///
    /// # Errors
    /// A chain that is not run as it says is a mistake in the experiment, which ends.
    pub fn note(&mut self, name: impl Display, error: Failure) -> Result<(Values, f64), Failure> {
        if error.is::<NotFused>() {
            return Err(format!("{name}: {error}").into());
        }
        self.0.insert(format!("{name}: not always measured: {error}."));
        Ok((Values::none(), 0.0))
    }

    /// Says them behind the results.
    pub fn tell(self, run: &mut Run<'_>) {
        self.0.into_iter().for_each(|failed| run.note(failed));
    }
}
