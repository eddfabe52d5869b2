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
    /// The sender's thread, and the node's if that is another one.
    sender: PathBuf,
    node: Option<PathBuf>,
    waited: Waited,
    stolen: Duration,
}

/// What threads have waited since they began.
#[derive(Clone, Copy, Debug)]
struct Waited {
    sender: Duration,
    node: Duration,
}

impl Waited {
    /// With one thread for both it is read once: a thread may lose its core between two reads.
    fn read(sender: &Path, node: Option<&Path>) -> Waited {
        let sender = waiting(sender);
        Waited { sender, node: node.map_or(sender, waiting) }
    }
}

impl Look {
    /// Looks at the calling thread, which is the sender's, and at the node's.
    pub fn now() -> Look {
        let sender = fs::read_link("/proc/thread-self").unwrap_or_default();
        let sender = Path::new("/proc").join(sender);
        let node = worker();
        let waited = Waited::read(&sender, node.as_deref());
        Look { sender, node, waited, stolen: stolen() }
    }

    /// What was taken since.
    pub fn since(&self) -> Taken {
        let now = Waited::read(&self.sender, self.node.as_deref());
        let sender = now.sender.saturating_sub(self.waited.sender).as_secs_f64();
        let node = now.node.saturating_sub(self.waited.node).as_secs_f64();
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
        let begin = std::time::Instant::now();
        let look = Look::now();
        while begin.elapsed() < Duration::from_millis(20) {}
        let (taken, passed) = (look.since(), begin.elapsed().as_secs_f64());
        assert!(taken.sender <= passed && taken.node == taken.sender, "{taken:?}");
    }
}
