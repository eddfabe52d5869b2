//! The thread that looks at the others.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::threads::{THREADS, Threads, Watch};
use crate::lock;

/// How often the watchdog looks.
const PERIOD: Duration = Duration::from_millis(100);

/// Most time that one look adds to a round: a machine that was suspended, or a core that the
/// host gave to others, shows any amount of it at once.
const MOST_AT_ONCE: Duration = Duration::from_millis(200);

/// What the watchdog has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A thread has ended by a panic.
    Ended {
        /// Its name.
        thread: String,
    },
    /// A thread does not come back from a round.
    Stuck {
        /// Its name.
        thread: String,
        /// The function that it runs; none while it runs the node's own code.
        function: Option<&'static str>,
        /// Time spent in the round, on a processor or asleep.
        time: Duration,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Ended { thread } => write!(f, "the thread {thread} has ended by a panic"),
            Trouble::Stuck { thread, function, time } => {
                let seconds = time.as_secs_f64();
                match function {
                    Some(name) => write!(f, "the function `{name}` does not return")?,
                    None => write!(f, "a round does not end, and no function runs")?,
                }
                write!(f, " (watchdog: {thread}, after {seconds:.1} s)")
            }
        }
    }
}

/// Looks at the [watched](super::watched) threads of the process until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    _alive: Arc<()>,
}

impl Watchdog {
    /// Begins to look. A thread that spends longer than `limit` in one round is in trouble;
    /// without a limit only threads that end are. Time counts while the thread is on a
    /// processor, or sleeps: not while it waits for a processor, and not while the
    /// machine stands still.
    ///
    /// `report` is called in the watchdog's thread, once, and `look` after every look that
    /// found all well.
    ///
    /// # Errors
    /// When the machine has no thread for it.
    pub fn start(
        limit: Option<Duration>,
        report: impl FnOnce(Trouble) + Send + 'static,
        mut look: impl FnMut() + Send + 'static,
    ) -> io::Result<Watchdog> {
        let alive = Arc::new(());
        let owner = Arc::downgrade(&alive);
        let patrol = move || {
            let mut patrol = Patrol { limit, rounds: HashMap::new() };
            while owner.strong_count() > 0 {
                if let Some(trouble) = patrol.look() {
                    return report(trouble);
                }
                look();
                thread::sleep(PERIOD);
            }
        };
        thread::Builder::new().name("watchdog".to_owned()).spawn(patrol)?;
        Ok(Watchdog { _alive: alive })
    }
}

/// What was seen of the rounds of each thread, by its number.
struct Patrol {
    limit: Option<Duration>,
    rounds: HashMap<u64, Round>,
}

/// A round that has not ended at a second look.
struct Round {
    number: u64,
    /// The thread's time on a processor at the last look; none at the first.
    last: Option<Duration>,
    /// Time in this round.
    spent: Duration,
}

impl Patrol {
    fn look(&mut self) -> Option<Trouble> {
        let mut threads = lock(&THREADS);
        if let Some(thread) = threads.dead.pop() {
            return Some(Trouble::Ended { thread });
        }
        self.find_stuck(&threads, Stat::of)
    }

    fn find_stuck(
        &mut self,
        threads: &Threads,
        stat: impl Fn(i32) -> Option<Stat>,
    ) -> Option<Trouble> {
        let limit = self.limit?;
        self.rounds.retain(|number, _| threads.alive.iter().any(|one| one.number() == *number));
        for thread in threads.alive.iter().filter(|one| one.watch == Watch::Rounds) {
            let progress = thread.progress();
            let number = progress.rounds();
            let fresh = || Round { number, last: None, spent: Duration::ZERO };
            let round = self.rounds.entry(thread.number()).or_insert_with(fresh);
            if round.number != number {
                *round = fresh();
                continue;
            }
            // A thread that is not busy costs no more than this.
            let Some(stat) = stat(thread.tid) else { continue };
            round.add(stat);
            if round.spent >= limit {
                let (thread, time) = (thread.name.clone(), round.spent);
                return Some(Trouble::Stuck { thread, function: progress.running(), time });
            }
        }
        None
    }
}

impl Round {
    fn add(&mut self, stat: Stat) {
        let Some(last) = self.last.replace(stat.processor) else { return };
        let ran = stat.processor.saturating_sub(last).min(MOST_AT_ONCE);
        self.spent += if ran.is_zero() && stat.is_asleep { PERIOD } else { ran };
    }
}

/// What the kernel tells of a thread (proc(5), `/proc/PID/task/TID/stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    /// It waits for something other than a processor.
    is_asleep: bool,
    /// Time on a processor since it started.
    processor: Duration,
}

impl Stat {
    fn of(tid: i32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Stat> {
        // The name of the thread stands in parentheses and may hold some.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        // SAFETY: reads a constant of the system.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        let all = ticks(11)?.saturating_add(ticks(12)?);
        Some(Stat {
            is_asleep: *fields.first()? == "S",
            processor: Duration::from_millis(all.saturating_mul(1000) / per_second),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchdog::{FunctionName, begin_round, enter, watched};

    const STAT: &str = "7 (a (b) c) R 1 2 3 0 -1 64 0 0 0 0 150 25 0 0 20 0 1 0 0 0 0";

    fn seconds(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn stat(is_asleep: bool, milliseconds: u64) -> Stat {
        Stat { is_asleep, processor: seconds(milliseconds) }
    }

    #[test]
    fn the_name_of_a_thread_may_look_like_fields() {
        assert_eq!(Stat::parse(STAT), Some(stat(false, 1750)));
        assert_eq!(Stat::parse(&STAT.replace(" R ", " S ")), Some(stat(true, 1750)));
        assert_eq!(Stat::parse("7 (a) R 1"), None);
        // SAFETY: it takes nothing and always succeeds.
        let own = Stat::of(unsafe { libc::gettid() }).unwrap();
        assert!(!own.is_asleep);
    }

    fn spent(stats: &[Stat]) -> Duration {
        let mut round = Round { number: 0, last: None, spent: Duration::ZERO };
        stats.iter().for_each(|stat| round.add(*stat));
        round.spent
    }

    #[test]
    fn fault_55_time_counts_while_a_thread_works_or_sleeps() {
        assert_eq!(spent(&[stat(false, 0), stat(false, 100), stat(false, 200)]), seconds(200));
        assert_eq!(spent(&[stat(true, 0), stat(true, 0), stat(true, 0)]), 2 * PERIOD);
        // It waits for a processor, which others have.
        assert_eq!(spent(&[stat(false, 0), stat(false, 0), stat(false, 10)]), seconds(10));
        // The machine was suspended.
        assert_eq!(spent(&[stat(false, 0), stat(false, 3_600_000)]), MOST_AT_ONCE);
    }

    #[test]
    fn fault_55_a_thread_that_does_not_come_back_is_named_with_its_function() {
        let (told, ready) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let watched = move || {
            begin_round();
            enter(FunctionName::of("loops"));
            let _ = told.send(());
            let _ = ends.recv();
        };
        let name = "patrolled".to_owned();
        let thread = thread::Builder::new()
            .name(name.clone())
            .spawn(|| super::super::watched(Watch::Rounds, watched))
            .unwrap();
        ready.recv().unwrap();
        let mut patrol = Patrol { limit: Some(seconds(300)), rounds: HashMap::new() };
        let mut processor = 0;
        let mut look = || {
            processor += 100;
            patrol.find_stuck(&lock(&THREADS), |_| Some(stat(false, processor)))
        };
        // The first look sees where it is, each further one what has passed.
        let found: Vec<_> = (0..4).map(|_| look()).collect();
        assert!(found[..3].iter().all(Option::is_none), "{found:?}");
        let trouble = Trouble::Stuck { thread: name, function: Some("loops"), time: seconds(300) };
        assert_eq!(found[3], Some(trouble.clone()));
        let said = "the function `loops` does not return (watchdog: patrolled, after 0.3 s)";
        assert_eq!(trouble.to_string(), said);
        drop(end);
        thread.join().unwrap();
        assert!(lock(&THREADS).alive.iter().all(|one| one.name != "patrolled"));
    }

    #[test]
    fn fault_55_a_thread_that_ends_by_a_panic_is_named() {
        let body = || watched(Watch::Life, || panic!("as the test wants"));
        let thread = thread::Builder::new().name("panics".to_owned()).spawn(body).unwrap();
        thread.join().unwrap_err();
        let (report, reported) = std::sync::mpsc::channel();
        let tell = move |trouble| report.send(trouble).unwrap();
        let _watchdog = Watchdog::start(None, tell, || {}).unwrap();
        let trouble = reported.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(trouble.to_string(), "the thread panics has ended by a panic");
    }
}
