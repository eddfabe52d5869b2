//! Huge pages of 2 MB: how many are free, and whose turn it is to take them.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

const FOLDER: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
/// How long others may take to start; then we start beside them.
const PATIENCE: Duration = Duration::from_secs(3);

/// From looking at what is free until it is taken: two nodes that start at once must
/// not count on the same pages. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "closing it unlocks")] Option<File>);

impl Turn {
    pub(crate) fn wait() -> Turn {
        let until = Instant::now() + PATIENCE;
        let folder = File::open(FOLDER).ok();
        // SAFETY: the file is open.
        let is_ours = |file: &File| unsafe {
            libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0
        };
        while folder.as_ref().is_some_and(|folder| !is_ours(folder)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        Turn(folder)
    }
}

/// Whether that many megabytes are free.
pub(crate) fn are_enough(megabytes: u32) -> bool {
    let free = fs::read_to_string(format!("{FOLDER}/free_hugepages"));
    let free = free.ok().and_then(|text| text.trim().parse::<u64>().ok());
    free.unwrap_or(0) * 2 >= u64::from(megabytes)
}

/// The value of EAL's `--socket-limit`: without one it takes huge pages beyond the
/// first as they are wanted.
pub(crate) fn limit(megabytes: u32) -> String {
    let list = fs::read_to_string("/sys/devices/system/node/possible").unwrap_or_default();
    let last = list.trim().rsplit([',', '-']).next().and_then(|number| number.parse().ok());
    let nodes = last.map_or(1, |last: usize| last + 1);
    vec![megabytes.to_string(); nodes].join(",")
}
