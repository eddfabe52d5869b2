//! The process itself: started, watched by its descriptor, ended.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::cgroup::ControlGroup;
use super::plan::ResourceLimits;

/// Seconds that a process has to end in once it was killed.
const PATIENCE: i64 = 2;

/// What to start.
pub struct Launch<'a> {
    /// This program.
    pub program: &'a Path,
    /// Which function.
    pub function: &'a str,
    /// Where it attaches.
    pub ring: &'a Path,
    /// Its devices, where it has any.
    pub devices: &'a [String],
    /// The user that it runs as; that of the node if none.
    pub user: Option<u32>,
}

/// A function process that the node has started; it ends with this.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// What limits it.
    group: Option<ControlGroup>,
    /// Becomes readable as the process ends.
    descriptor: OwnedFd,
}

impl Process {
    /// Starts `program function NAME --attach RING --once`.
    pub fn start(launch: &Launch<'_>) -> io::Result<Process> {
        weft_dpdk::keep_from_children()?;
        let mut command = Command::new(launch.program);
        if let Some(user) = launch.user {
            command.uid(user).gid(user);
        }
        let mut child = command
            .arg("function")
            .arg(launch.function)
            .arg("--attach")
            .arg(launch.ring)
            .arg("--once")
            .args(launch.devices.iter().flat_map(|device| ["--device", device]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Process { child, group: None, descriptor }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// ResourceLimits what it may use, where there are limits for the function `instance`.
    ///
    /// # Errors
    /// When that is not permitted; it runs without limits then.
    pub fn limit(&mut self, instance: &str, limits: &ResourceLimits) -> io::Result<()> {
        if limits.is_empty() {
            return Ok(());
        }
        let group = ControlGroup::new(instance, limits)?;
        group.take(self.id())?;
        self.group = Some(group);
        Ok(())
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What to wait on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        let cause = match self.group.as_ref().is_some_and(ControlGroup::was_out_of_memory) {
            true => ", as it used more memory than `limits` allow",
            false => "",
        };
        Some(format!("its process ended: {status}{cause}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&patience));
        // One that a system call holds does not hold the node.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            tracing::warn!(process = self.child.id(), "a function process does not end");
        }
    }
}

/// Processor time of a process, in clock ticks of the kernel.
pub fn ticks(process: u32) -> Option<u64> {
    let fields = Fields::of(process)?;
    let user: u64 = fields.get(14)?.parse().ok()?;
    let system: u64 = fields.get(15)?.parse().ok()?;
    Some(user + system)
}

/// Whether a process was stopped by a signal.
pub fn is_stopped(process: u32) -> bool {
    let fields = Fields::of(process);
    matches!(fields.as_ref().and_then(|fields| fields.get(3)), Some("T" | "t"))
}

/// Whether a process has begun to end, of whatever cause.
pub fn is_ending(process: u32) -> bool {
    /// As in the kernel's linux/sched.h.
    const PF_EXITING: u32 = 4;
    let flags = Fields::of(process).and_then(|fields| fields.get(9)?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_EXITING != 0)
}

/// What the kernel says of a process in /proc/PID/stat (proc(5)).
struct Fields(String);

impl Fields {
    /// None if there is no such process.
    fn of(process: u32) -> Option<Fields> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name, in parentheses, may hold anything.
        Some(Fields(stat.rsplit_once(')')?.1.to_owned()))
    }

    /// A field behind the name, numbered from 1 as in the manual: 3 is the state.
    fn get(&self, number: usize) -> Option<&str> {
        self.0.split_whitespace().nth(number.checked_sub(3)?)
    }
}

/// Removes a socket that has no listener any more.
///
/// # Errors
/// When it has a listener, or cannot be removed.
pub fn remove_stale(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "in use by another node")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => std::fs::remove_file(path),
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, kill_process};

    use super::*;

    #[test]
    fn a_process_is_seen_to_stand_still_and_to_end() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let (process, pid) = (child.id(), Pid::from_child(&child));
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        assert!(!is_stopped(process) && !is_ending(process));
        kill_process(pid, Signal::STOP).unwrap();
        while !is_stopped(process) {
            std::thread::yield_now();
        }
        assert!(!is_ending(process));
        assert!(ticks(process).is_some());

        kill_process(pid, Signal::KILL).unwrap();
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).unwrap();
        assert!(is_ending(process) && !is_stopped(process));
        child.wait().unwrap();
        assert!(!is_ending(process) && ticks(process).is_none());
    }
}
