//! What processes that were killed left behind.
//!
//! Namespaces, interfaces and temporary directories are named after the process that
//! made them, and go with it. One that is killed (`kill -9`, a second Ctrl-C) cannot
//! clean up: the next one does.

use std::env;
use std::fs;
use std::path::Path;

use crate::network::iproute::ip;

/// What names of temporary directories begin with; a process follows.
const DIRECTORIES: [&str; 2] = ["weft-bench-", "weft-ovs-"];
/// The same of network namespaces: of routers, of a node, of bridges.
const NAMESPACES: [&str; 3] = ["wb", "wn", "weft-ovs-"];
/// The same of interfaces: of routers, cables, bridges, TAP devices.
const INTERFACES: [&str; 4] = ["wb", "wc", "wo", "wt"];

/// Removes all of it whose process is no more.
pub fn clear() {
    for name in abandoned(Path::new("/run/netns"), &NAMESPACES) {
        let _ = ip(&["netns", "delete", &name]);
    }
    // Of those that went with a namespace nothing is found any more.
    for name in abandoned(Path::new("/sys/class/net"), &INTERFACES) {
        let _ = ip(&["link", "delete", &name]);
    }
    let directory = env::temp_dir();
    for name in abandoned(&directory, &DIRECTORIES) {
        let _ = fs::remove_dir_all(directory.join(name));
    }
}

/// Names in a directory that begin so, and whose process is no more.
fn abandoned(directory: &Path, prefixes: &[&str]) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_running = |process: u32| Path::new(&format!("/proc/{process}")).exists();
    names.filter(|name| process(name, prefixes).is_some_and(|one| !is_running(one))).collect()
}

/// The process in a name of ours: a prefix, the process, and nothing more or a number
/// of its own.
fn process(name: &str, prefixes: &[&str]) -> Option<u32> {
    let behind = |prefix: &&str| {
        let rest = name.strip_prefix(*prefix)?;
        rest.split_once('-').map_or(rest, |(process, _)| process).parse().ok()
    };
    prefixes.iter().find_map(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_a_process() {
        for (name, found) in [("wn12-3", Some(12)), ("wb7-0-1", Some(7)), ("weft-ovs-9-0", Some(9))]
        {
            assert_eq!(process(name, &NAMESPACES), found);
        }
        assert_eq!(process("weft-bench-44", &DIRECTORIES), Some(44));
        for other in ["wlan0", "wb", "wt-eth-1", "wire7-1", "web12-3", "weft-bench-x"] {
            assert_eq!(process(other, &INTERFACES), None, "{other}");
            assert_eq!(process(other, &DIRECTORIES), None, "{other}");
        }
    }

    #[test]
    fn what_runs_is_left_alone() {
        let directory = env::temp_dir().join(format!("weft-remains-{}", std::process::id()));
        // No process has this number: it is beyond the most that Linux gives.
        let (ours, gone) = (format!("weft-bench-{}", std::process::id()), "weft-bench-4194305");
        for name in [&ours, gone, "other"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        assert_eq!(abandoned(&directory, &DIRECTORIES), [gone]);
        fs::remove_dir_all(&directory).unwrap();
    }
}
