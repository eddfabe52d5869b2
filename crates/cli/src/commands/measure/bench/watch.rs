//! Watches experiments: shows how far they are, keeps what they measure, ends
//! them at Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use weft_bench::results::Results;
use weft_bench::run::Watch;
use weft_rig::Failure as BenchFailure;

use super::keep::Directory;
use crate::failure::Failure;

/// How often the line changes.
const TICK: Duration = Duration::from_millis(500);

/// Where experiments are watched from.
pub struct Progress {
    interrupted: Arc<AtomicBool>,
}

impl Progress {
    /// Catches SIGINT and SIGTERM from now on. The second of them ends the program
    /// at once.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open() -> Result<Progress, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let register = || -> io::Result<()> {
            for signal in [SIGINT, SIGTERM] {
                signal_hook::flag::register_conditional_shutdown(signal, 1, interrupted.clone())?;
                signal_hook::flag::register(signal, interrupted.clone())?;
            }
            Ok(())
        };
        register().map_err(|error| Failure::broken(format!("signals: {error}")))?;
        Ok(Progress { interrupted })
    }

    /// Whether one of them came.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// A watch over one experiment, whose results are kept there. Its line is shown only where
    /// standard error is a terminal.
    pub fn watch<'d>(&'d self, experiment: &'static str, directory: &'d Directory) -> Line<'d> {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(experiment);
        bar.enable_steady_tick(TICK);
        Line { bar, progress: self, directory }
    }
}

/// The line of one experiment.
pub struct Line<'d> {
    bar: ProgressBar,
    progress: &'d Progress,
    directory: &'d Directory,
}

impl Watch for Line<'_> {
    fn is_over(&self) -> bool {
        self.progress.is_interrupted()
    }

    fn progress(&self, made: usize, of: usize, what: &str) {
        self.bar.set_length(of as u64);
        self.bar.set_position(made as u64);
        self.bar.set_message(what.to_owned());
    }

    fn keep(&self, results: &Results) -> Result<(), BenchFailure> {
        Ok(self.directory.write(results)?)
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
