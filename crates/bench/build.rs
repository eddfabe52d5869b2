//! Names the commit that a program was built from, for its results.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates whose changes change nothing that a bench measures: commands, and an exporter.
const OTHERS: [&str; 2] = ["cli", "ipfix"];

fn main() {
    let root = Path::new("../..");
    let sources = sources(root);
    let commit = commit(root, &sources);
    println!("cargo::rustc-env=WEFT_COMMIT={commit}");
    // What was committed, and what was changed since.
    let logs = git(root, &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"], &[]);
    let sources = sources.into_iter().map(|source| root.join(source));
    for path in logs.map(PathBuf::from).into_iter().chain(sources).filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// What a bench measures with and of: a change in one of these makes it another build.
fn sources(root: &Path) -> Vec<String> {
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let names = crates.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| !OTHERS.contains(&name.as_str()));
    let mut sources: Vec<_> = names.map(|name| format!("crates/{name}")).collect();
    sources.sort();
    sources.extend(["Cargo.lock", "Cargo.toml", "experiments"].map(str::to_owned));
    sources
}

/// The last commit that changed a source; `-dirty` behind it where one differs from that. A
/// source without its history (an archive) has no commit to name.
fn commit(root: &Path, sources: &[String]) -> String {
    let last = git(root, &["log", "-1", "--format=%h", "--abbrev=12", "--"], sources);
    let Some(commit) = last.filter(|commit| !commit.is_empty()) else {
        return "unknown".to_owned();
    };
    let changed = git(root, &["status", "--porcelain", "--"], sources);
    match changed.is_some_and(|changes| !changes.is_empty()) {
        true => format!("{commit}-dirty"),
        false => commit,
    }
}

fn git(root: &Path, arguments: &[&str], paths: &[String]) -> Option<String> {
    let output =
        Command::new("git").arg("-C").arg(root).args(arguments).args(paths).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
