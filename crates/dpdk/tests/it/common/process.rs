//! Tests in processes of their own: for another user, another network, or
//! another environment. The process is this test program again, with the one
//! test to run.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use super::skipped;

/// Names the test that a process was started for.
const STARTED_FOR: &str = "WEFT_TEST_STARTED_FOR";

/// Runs `body` as the test `name` (`module::function`), in a process that `launcher` starts:
/// its first words, before the program and its arguments.
pub fn alone(name: &str, launcher: &[&str], body: impl FnOnce()) {
    if std::env::var_os(STARTED_FOR).is_some_and(|test| test == name) {
        return body();
    }
    let program = std::env::current_exe().expect("this program has a path");
    let mut words: Vec<_> = launcher.iter().map(std::ffi::OsStr::new).collect();
    words.push(program.as_os_str());
    let output = Command::new(words[0])
        .args(&words[1..])
        .args([name, "--exact", "--nocapture"])
        .env(STARTED_FOR, name)
        .stdin(Stdio::null())
        .output()
        .expect("the process starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let result = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name} failed in its own process:\n{errors}");
    assert!(result.contains("1 passed"), "{name} is not the name of this test:\n{result}");
    for reason in errors.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        let (test, why) = reason.split_once(": ").unwrap_or((name, reason));
        skipped(test, why);
    }
}

/// Whether this process belongs to root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Runs `body` as the test `name`, in a process of its own without privileges.
pub fn as_unprivileged(name: &str, body: impl FnOnce()) {
    alone(name, &[], || {
        become_unprivileged();
        body();
    });
}

/// Gives up root for good, if this process has it.
fn become_unprivileged() {
    const UNPRIVILEGED: u32 = 65534;
    if !is_root() {
        return;
    }
    // SAFETY: these calls read their arguments only; the C library applies them
    // to all threads of the process.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED), 0);
        assert_eq!(libc::setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED), 0);
    }
}
