//! A control group that lets the threads in it have one processor's time, as a container has
//! one (`cgroups(7)`): of version 1 where its `cpu` hierarchy is mounted, else a threaded
//! group of version 2.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Failure, Rig};

/// Where version 1 has the limits of processors, and where version 2 has everything.
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
const VERSION_2: &str = "/sys/fs/cgroup";
/// Microseconds of a period, and of it what the group may use: one processor.
const PERIOD: u32 = 100_000;

/// A control group. It is gone when it is dropped.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
    /// The file that threads are moved in by.
    threads: &'static str,
}

impl ControlGroup {
    /// Makes one.
    ///
    /// # Errors
    /// Without the rights for it, or where the kernel has no control groups.
    pub fn new(rig: &Rig) -> Result<ControlGroup, Failure> {
        let name = format!("weft-bench-{}-{}", std::process::id(), rig.serial());
        match Path::new(VERSION_1).join("tasks").exists() {
            true => ControlGroup::of_version_1(&Path::new(VERSION_1).join(name)),
            false => ControlGroup::of_version_2(&name),
        }
    }

    fn of_version_1(path: &Path) -> Result<ControlGroup, Failure> {
        let group = ControlGroup::made(path, "tasks")?;
        group.set("cpu.cfs_period_us", &PERIOD.to_string())?;
        group.set("cpu.cfs_quota_us", &PERIOD.to_string())?;
        Ok(group)
    }

    fn of_version_2(name: &str) -> Result<ControlGroup, Failure> {
        // Threads stay below the group of their process.
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let own = own.ok_or("the kernel has no control groups of version 2")?;
        let parent = Path::new(VERSION_2).join(own);
        let group = ControlGroup::made(&parent.join(name), "cgroup.threads")?;
        group.set("cgroup.type", "threaded")?;
        let control = parent.join("cgroup.subtree_control");
        fs::write(&control, "+cpu").map_err(|error| format!("{}: {error}", control.display()))?;
        group.set("cpu.max", &format!("{PERIOD} {PERIOD}"))?;
        Ok(group)
    }

    fn made(path: &Path, threads: &'static str) -> Result<ControlGroup, Failure> {
        fs::create_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(ControlGroup { path: path.to_owned(), threads })
    }

    fn set(&self, file: &str, value: &str) -> Result<(), Failure> {
        let path = self.path.join(file);
        Ok(fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))?)
    }

    /// Moves the calling thread into it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enter(&self) -> Result<(), std::io::Error> {
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        fs::write(self.path.join(self.threads), thread)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Its threads have ended, so the kernel lets it go.
        let _ = fs::remove_dir(&self.path);
    }
}
