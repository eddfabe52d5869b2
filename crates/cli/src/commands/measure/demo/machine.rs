//! What the machine took from sender and node while packets were sent: time in which their
//! threads were ready and other programs had the cores, or the hypervisor had them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use weft_rig::Schedule;

/// Nanoseconds of a tick of `/proc/stat`; it has 100 a second everywhere.
const TICK: u64 = 10_000_000;

/// Names of the node's threads begin so.
const WORKER: &str = "worker-";

/// What was taken, in seconds; nothing where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Taken {
    /// The sender waited for a core.
    pub sender: f64,
    /// The node's worker waited for a core; with one thread for both, the sender's wait.
    pub node: f64,
    /// The hypervisor had cores, all of them together.
    pub stolen: f64,
}

/// Waits so far.
#[derive(Debug)]
pub struct Look {
    /// The sender's thread, and the node's.
    threads: [PathBuf; 2],
    waited: [Duration; 2],
    stolen: Duration,
}

impl Look {
    /// Looks at the calling thread, which is the sender's, and at the node's.
    pub fn now() -> Look {
        let sender = fs::read_link("/proc/thread-self").unwrap_or_default();
        let sender = Path::new("/proc").join(sender);
        let threads = [sender.clone(), worker().unwrap_or(sender)];
        let waited = threads.each_ref().map(|thread| waiting(thread));
        Look { threads, waited, stolen: stolen() }
    }

    /// What was taken since.
    pub fn since(&self) -> Taken {
        let [sender, node] = [0, 1].map(|at: usize| {
            waiting(&self.threads[at]).saturating_sub(self.waited[at]).as_secs_f64()
        });
        let stolen = stolen().saturating_sub(self.stolen).as_secs_f64();
        Taken { sender, node, stolen }
    }
}

/// The thread of the node's worker.
fn worker() -> Option<PathBuf> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let mut threads = threads.filter_map(|thread| Some(thread.ok()?.path()));
    threads.find(|thread| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with(WORKER))
    })
}

fn waiting(thread: &Path) -> Duration {
    Schedule::read(&thread.join("schedstat")).unwrap_or_default().waiting
}

fn stolen() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    // cpu user nice system idle iowait irq softirq steal
    let ticks = stat.lines().next().and_then(|all| all.split_whitespace().nth(8)?.parse().ok());
    Duration::from_nanos(ticks.unwrap_or(0_u64) * TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_alone_waits_less_than_time_passes() {
        let look = Look::now();
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {}
        let (taken, passed) = (look.since(), begin.elapsed().as_secs_f64());
        assert!(taken.sender <= passed && taken.node == taken.sender, "{taken:?}");
    }
}
