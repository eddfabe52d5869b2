//! Names the commit that a program was built from, for its results.

use std::path::Path;
use std::process::Command;

/// What a bench measures with and of: a change in one of these makes it another build.
const SOURCES: [&str; 13] = [
    "Cargo.lock",
    "experiments",
    "crates/bench",
    "crates/compose",
    "crates/dpdk",
    "crates/dpdk-sys",
    "crates/function",
    "crates/functions",
    "crates/node",
    "crates/rules",
    "crates/traffic",
    "crates/wire",
    "crates/yaml",
];

fn main() {
    // A source without its history (an archive) has no commit to name.
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let commit = commit.map_or("unknown".to_owned(), |commit| match is_changed() {
        true => format!("{commit}-dirty"),
        false => commit,
    });
    println!("cargo::rustc-env=WEFT_COMMIT={commit}");
    // What was committed, and what was changed since.
    let logs = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]);
    let root = Path::new("../..");
    let sources = SOURCES.map(|source| root.join(source).display().to_string());
    for path in logs.into_iter().chain(sources).filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// Whether a source differs from what was committed.
fn is_changed() -> bool {
    let root = ["-C", "../..", "status", "--porcelain", "--"];
    let words: Vec<&str> = root.into_iter().chain(SOURCES).collect();
    git(&words).is_some_and(|changes| !changes.is_empty())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
