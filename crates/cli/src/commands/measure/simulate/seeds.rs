//! What all simulations have in common: runs from seeds, until one breaks a promise.

use std::fmt::{Display, Write};
use std::ops::AddAssign;
use std::time::Instant;

use super::at_least;
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Seeds {
    /// The seed; the same one gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many seeds, from the first on; ends at the first that breaks a promise
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = at_least(1))]
    seeds: u64,
    /// Lines of the log that are printed when a promise is broken
    #[arg(long, value_name = "LINES", default_value_t = 200)]
    log: usize,
}

/// What one run came to.
pub struct Ran<S> {
    pub statistics: S,
    /// The promise that was broken.
    pub violation: Option<String>,
    pub log: Vec<String>,
}

impl Seeds {
    /// Which seeds, in words.
    pub fn range(&self) -> String {
        format!("seeds {} to {}", self.seed, self.seed.saturating_add(self.seeds - 1))
    }

    /// Runs the seeds; `run` takes a seed and how many lines of the log are kept. Returns what
    /// all of them came to, and a line that says what they took, of the events and the
    /// microseconds that `took` finds in it.
    ///
    /// # Errors
    /// A broken promise is a failure. Its run is made once more, and its log printed.
    pub fn run<S: Default + for<'a> AddAssign<&'a S>>(
        &self,
        run: impl Fn(u64, usize) -> Ran<S>,
        took: impl Fn(&S) -> (u64, u64),
    ) -> Result<(S, String), Failure> {
        let (mut all, start) = (S::default(), Instant::now());
        for seed in (self.seed..).take(usize::try_from(self.seeds).unwrap_or(usize::MAX)) {
            let ran = run(seed, 0);
            if let Some(violation) = ran.violation {
                let log = run(seed, self.log).log;
                let log = &log[log.len().saturating_sub(self.log)..];
                output::print(&log.iter().map(|line| format!("{line}\n")).collect::<String>())?;
                return Err(Failure::broken(format!("seed {seed}: {violation}")));
            }
            all += &ran.statistics;
        }
        let (seconds, (events, time)) = (start.elapsed().as_secs_f64(), took(&all));
        let time = time as f64 / 1e6;
        let line = format!(
            "  simulated     {events} events in {seconds:.1} s, {time:.1} s of virtual time\n"
        );
        Ok((all, line))
    }
}

/// The faults of these names.
///
/// # Errors
/// A fault that there is not is refused.
pub fn faults<F: Default>(
    chosen: &[String],
    known: &[&str],
    add: impl Fn(&mut F, &str) -> bool,
) -> Result<F, Failure> {
    let mut faults = F::default();
    match chosen.iter().find(|name| !add(&mut faults, name)) {
        None => Ok(faults),
        Some(name) => Err(Failure::input(format!(
            "--faults: there is no fault '{name}'; there are all, none, {}",
            known.join(", ")
        ))),
    }
}

/// One of the mutations, by its name.
///
/// # Errors
/// Which there are.
pub fn mutation<M: Copy>(
    all: &[M],
    name_of: impl Fn(M) -> &'static str,
    name: &str,
) -> Result<M, String> {
    let names = || all.iter().map(|mutation| name_of(*mutation)).collect::<Vec<_>>();
    let found = all.iter().copied().find(|mutation| name_of(*mutation) == name);
    found.ok_or_else(|| format!("there are {}", names().join(", ")))
}

/// A line that names the promises that were kept.
pub fn kept(promises: &[impl Display]) -> String {
    let mut line = String::new();
    for (nth, promise) in promises.iter().enumerate() {
        let _ = write!(line, "{}{promise}", if nth == 0 { "kept: " } else { ", " });
    }
    line.push('\n');
    line
}
