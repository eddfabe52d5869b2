//! ResourceLimits of a process by a control group of its own (cgroups v2), where that is
//! permitted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::plan::ResourceLimits;

/// A control group; it goes with this.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// Makes one for the function `instance` of this node.
    ///
    /// # Errors
    /// When no control group above this process lets us, with the reason.
    pub fn new(instance: &str, limits: &ResourceLimits) -> io::Result<ControlGroup> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let root = mount(&mounts).ok_or_else(|| other("cgroups v2 are not mounted"))?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let parent = parent(&root, Path::new(own), &limits.controllers())?;
        remove_stale(&parent);
        let folder = parent.join(format!("weft-{}-{instance}", std::process::id()));
        match fs::create_dir(&folder) {
            // Of a process that ended a moment ago.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let group = ControlGroup { folder };
        for (file, value) in limits.files() {
            group.write(file, &value)?;
        }
        Ok(group)
    }

    /// Puts a process into it.
    pub fn take(&self, process: u32) -> io::Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// Whether the kernel has ended a process for using more memory than it may.
    pub fn was_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        events.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|kills| kills != "0"))
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, value)
            .map_err(|error| other(&format!("{}: {value:?}: {error}", path.display())))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // What is left does no harm: the next node removes it.
        let _ = fs::remove_dir(&self.folder);
    }
}

impl ResourceLimits {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        *self == ResourceLimits::default()
    }

    fn controllers(&self) -> Vec<&'static str> {
        let given = [
            (self.megabytes.is_some(), "memory"),
            (self.cpu_percent.is_some(), "cpu"),
            (self.tasks.is_some(), "pids"),
        ];
        given.iter().filter(|(given, _)| *given).map(|(_, name)| *name).collect()
    }

    /// What is written where (the kernel's Documentation/admin-guide/cgroup-v2.rst).
    fn files(&self) -> Vec<(&'static str, String)> {
        const PERIOD_US: u64 = 10_000;
        let mut files = Vec::new();
        if let Some(megabytes) = self.megabytes {
            files.push(("memory.max", (u64::from(megabytes) << 20).to_string()));
        }
        if let Some(percent) = self.cpu_percent {
            let quota = u64::from(percent) * PERIOD_US / 100;
            files.push(("cpu.max", format!("{quota} {PERIOD_US}")));
        }
        if let Some(tasks) = self.tasks {
            files.push(("pids.max", tasks.to_string()));
        }
        files
    }
}

/// Where cgroups v2 are mounted, by the lines of proc_pid_mountinfo(5).
fn mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        after.starts_with("cgroup2 ").then(|| before.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// The nearest group above our own whose children have these controllers. Groups that
/// hold processes give their children none, but for the root.
fn parent(root: &Path, own: &Path, controllers: &[&str]) -> io::Result<PathBuf> {
    let above = own.ancestors().skip(1).chain([Path::new("")]);
    for folder in above.map(|above| root.join(above)) {
        let given = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        let is_given = |name: &&str| given.split_whitespace().any(|given| given == *name);
        let missing: Vec<&str> =
            controllers.iter().filter(|name| !is_given(name)).copied().collect();
        let is_writable = || rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_ok();
        if missing.is_empty() && is_writable() {
            return Ok(folder);
        }
        if folder == root {
            let offered = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
            let is_offered = |name: &&&str| offered.split_whitespace().any(|one| one == **name);
            if let Some(absent) = missing.iter().find(|name| !is_offered(name)) {
                return Err(other(&format!("cgroups v2 have no controller `{absent}` here")));
            }
            let wanted: Vec<String> = missing.iter().map(|name| format!("+{name}")).collect();
            let control = folder.join("cgroup.subtree_control");
            return fs::write(&control, wanted.join(" ")).map(|()| folder).map_err(|error| {
                other(&format!("{}: {:?}: {error}", control.display(), wanted.join(" ")))
            });
        }
    }
    Err(other("no control group may be made here"))
}

/// Removes what nodes that were killed have left.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let node = name.to_str().and_then(|name| name.strip_prefix("weft-")?.split('-').next());
        if node.is_some_and(|node| !Path::new("/proc").join(node).exists()) {
            // One that still has a process stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn other(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 1 0:22 / /proc rw,relatime shared:2 - proc proc rw
31 23 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
";

    /// A file system in which groups are ordinary folders.
    fn hierarchy(groups: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::TempDir::new().unwrap();
        for (group, given) in groups {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join("cgroup.subtree_control"), given).unwrap();
        }
        root
    }

    #[test]
    fn the_mount_is_found_among_others() {
        assert_eq!(mount(MOUNTS), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount("24 1 0:22 / /proc rw - proc proc rw\n"), None);
    }

    #[test]
    fn the_nearest_group_that_gives_all_controllers_is_taken() {
        let root = hierarchy(&[
            ("", "cpu memory pids"),
            ("user.slice", "memory pids"),
            ("user.slice/user-0.slice", "pids"),
            ("user.slice/user-0.slice/session-1.scope", ""),
        ]);
        let own = Path::new("user.slice/user-0.slice/session-1.scope");
        let found = |wanted: &[&str]| {
            let found = parent(root.path(), own, wanted).unwrap();
            found.strip_prefix(root.path()).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(found(&["pids"]), "user.slice/user-0.slice");
        assert_eq!(found(&["memory", "pids"]), "user.slice");
        assert_eq!(found(&["memory", "cpu"]), "");
    }

    #[test]
    fn the_root_is_asked_for_what_it_does_not_give() {
        let root = hierarchy(&[("", "memory")]);
        fs::write(root.path().join("cgroup.controllers"), "cpu memory").unwrap();
        assert_eq!(parent(root.path(), Path::new(""), &["memory", "cpu"]).unwrap(), root.path());
        let asked = fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(asked, "+cpu");
        let refused = parent(root.path(), Path::new(""), &["pids"]).unwrap_err();
        assert_eq!(refused.to_string(), "cgroups v2 have no controller `pids` here");
    }

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let limits = ResourceLimits { megabytes: Some(64), cpu_percent: Some(150), tasks: Some(8) };
        let files = limits.files();
        let expected = [("memory.max", "67108864"), ("cpu.max", "15000 10000"), ("pids.max", "8")];
        assert_eq!(files, expected.map(|(file, value)| (file, value.to_owned())));
        assert_eq!(limits.controllers(), ["memory", "cpu", "pids"]);
        assert!(ResourceLimits::default().is_empty());
    }

    #[test]
    fn what_a_dead_node_has_left_goes() {
        // No process has such a number.
        let root = hierarchy(&[("", "")]);
        let (dead, alive) =
            ("weft-4294967295-f".to_owned(), format!("weft-{}-f", std::process::id()));
        for name in [&dead, &alive] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        remove_stale(root.path());
        assert!(!root.path().join(dead).exists() && root.path().join(alive).exists());
    }
}
