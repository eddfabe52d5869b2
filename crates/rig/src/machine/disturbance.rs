//! What the machine took from a trial.
//!
//! A trial is *spoilt* when the core was taken away for longer than the trial
//! bears: by another thread (the run delay of `schedstat`, Linux
//! `Documentation/scheduler/sched-stats.rst`), by the hypervisor (steal time in
//! `/proc/stat`), or when it was slower than it can be (see the probe). A spoilt trial is repeated a bounded number of times; if the
//! machine never keeps still, the least disturbed one counts. [`Spoilt`] counts how
//! often either happened, for the [`Account`](super::account::Account).

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Nanoseconds of a tick of `/proc/stat`; it has 100 a second everywhere.
const TICK: u64 = 10_000_000;

/// The share of a trial that may be taken from it.
pub(crate) const BEARABLE: f64 = 0.02;

/// How often a trial is made at most.
pub(crate) const ATTEMPTS: u32 = 4;

/// A look at what a thread and its core have had so far.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    core: usize,
    at: Instant,
    stolen: Duration,
    schedule: Schedule,
}

/// The scheduler's account of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Time it had the processor.
    pub running: Duration,
    /// Time it could have run and had to wait.
    pub waiting: Duration,
}

/// What lies between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// Time that passed.
    pub length: Duration,
    /// Time that the thread had the processor.
    pub running: Duration,
    /// Time that the thread waited for it, or the hypervisor had it.
    pub taken: Duration,
}

impl Look {
    /// Looks at the calling thread and `core`.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn now(core: usize) -> io::Result<Look> {
        let stat = fs::read_to_string("/proc/stat")?;
        Ok(Look {
            core,
            at: Instant::now(),
            stolen: stolen(&stat, core),
            schedule: Schedule::read(Path::new("/proc/thread-self/schedstat"))?,
        })
    }

    /// What happened since, to the same thread.
    ///
    /// # Errors
    /// As [`Look::now`].
    pub fn since(&self) -> io::Result<Between> {
        let now = Look::now(self.core)?;
        let waited = now.schedule.waiting.saturating_sub(self.schedule.waiting);
        Ok(Between {
            length: now.at - self.at,
            running: now.schedule.running.saturating_sub(self.schedule.running),
            taken: waited + now.stolen.saturating_sub(self.stolen),
        })
    }
}

impl Between {
    /// The share of the time that the thread had the processor, from 0 to 1.
    pub fn share_running(&self) -> f64 {
        (self.running.as_secs_f64() / self.length.as_secs_f64().max(1e-9)).min(1.0)
    }

    /// The share of the time that was taken away, from 0 to 1.
    pub fn disturbance(&self) -> f64 {
        (self.taken.as_secs_f64() / self.length.as_secs_f64().max(1e-9)).min(1.0)
    }
}

impl Schedule {
    /// Reads a `schedstat` file.
    ///
    /// # Errors
    /// When it is not there or has another form.
    pub fn read(file: &Path) -> io::Result<Schedule> {
        let text = fs::read_to_string(file)?;
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(running), Some(waiting)) => Ok(Schedule {
                running: Duration::from_nanos(running),
                waiting: Duration::from_nanos(waiting),
            }),
            _ => Err(io::Error::other(format!("{}: no times of a thread", file.display()))),
        }
    }
}

/// The steal time of a core; none is told as zero.
fn stolen(stat: &str, core: usize) -> Duration {
    let name = format!("cpu{core}");
    let of_core = stat.lines().find(|line| line.split_whitespace().next() == Some(&name));
    // user nice system idle iowait irq softirq steal
    let ticks = of_core.and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    Duration::from_nanos(ticks.unwrap_or(0) * TICK)
}

/// How many trials the machine disturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spoilt {
    /// Trials that counted.
    pub trials: u32,
    /// Trials that were spoilt and made again.
    pub repeated: u32,
    /// Of those that counted: spoilt as often as they were made.
    pub kept: u32,
}

impl Spoilt {
    /// Makes a trial, again if it is spoilt. `trial` returns what it measured,
    /// and the share of its time that was taken from it.
    ///
    /// # Errors
    /// Those of the trial.
    pub fn make<T, E>(&mut self, mut trial: impl FnMut() -> Result<(T, f64), E>) -> Result<T, E> {
        let mut best = trial()?;
        for _ in 1..ATTEMPTS {
            if best.1 <= BEARABLE {
                break;
            }
            self.repeated += 1;
            let next = trial()?;
            if next.1 < best.1 {
                best = next;
            }
        }
        self.trials += 1;
        self.kept += u32::from(best.1 > BEARABLE);
        Ok(best.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_time_is_that_of_the_core() {
        let stat = "cpu  9 9 9 9 9 9 9 30 0 0\ncpu0 1 0 0 0 0 0 0 7 0 0\ncpu10 1 0 0 0 0 0 0 8 0\n";
        assert_eq!(stolen(stat, 0), Duration::from_millis(70));
        assert_eq!(stolen(stat, 1), Duration::ZERO);
        assert_eq!(stolen(stat, 10), Duration::from_millis(80));
    }

    #[test]
    fn time_on_the_processor_is_seen() {
        let look = Look::now(0).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let between = look.since().unwrap();
        assert!(between.length >= Duration::from_millis(20));
        assert!(between.running > Duration::ZERO && between.running <= between.length * 2);
    }

    fn make(disturbances: &[f64]) -> (f64, Spoilt) {
        let mut spoilt = Spoilt::default();
        let mut left = disturbances.iter();
        let made: Result<f64, ()> = spoilt.make(|| left.next().map(|&d| (d, d)).ok_or(()));
        (made.unwrap(), spoilt)
    }

    #[test]
    fn a_spoilt_trial_is_repeated_until_one_is_not() {
        assert_eq!(make(&[0.01]), (0.01, Spoilt { trials: 1, repeated: 0, kept: 0 }));
        assert_eq!(make(&[0.5, 0.0]), (0.0, Spoilt { trials: 1, repeated: 1, kept: 0 }));
    }

    #[test]
    fn of_many_spoilt_ones_the_least_disturbed_is_kept() {
        let (value, spoilt) = make(&[0.5, 0.2, 0.3, 0.4]);
        assert_eq!((value, spoilt), (0.2, Spoilt { trials: 1, repeated: 3, kept: 1 }));
    }
}
