//! The files by which a kernel describes its machine.

use std::fs;
use std::path::PathBuf;

/// The machine whose files lie below a folder.
pub(super) struct Host {
    root: PathBuf,
    /// Whether it is the machine that this process runs on.
    pub(super) is_this: bool,
}

impl Host {
    /// The machine that this process runs on.
    pub(super) fn this() -> Host {
        Host { root: PathBuf::from("/"), is_this: true }
    }

    /// A machine that files below a folder describe.
    #[cfg(test)]
    pub(super) fn below(root: &std::path::Path) -> Host {
        Host { root: root.to_owned(), is_this: false }
    }

    /// What a file says, without white space around it; empty where there is none.
    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default().trim().to_owned()
    }

    /// A number in a file; 0 where there is none.
    pub(super) fn number(&self, path: &str) -> u64 {
        self.text(path).parse().unwrap_or(0)
    }

    /// Names in a folder, in order; none where there is no folder.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Whether a file is there.
    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The last part of what a symbolic link leads to.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The rest of the line of a file that begins with `key`.
    pub(super) fn line(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path);
        let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(rest.trim_start_matches([' ', '\t', ':']).trim().to_owned())
    }
}
