//! Peers: other programs that do the same work. Where they are, and which version it is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Rig;

impl Rig {
    /// The program of that name: in the folder of peers or its `bin`, if there is such a
    /// folder, else where the shell looks for it.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let own = self.peers.iter().flat_map(|folder| [folder.join("bin"), folder.clone()]);
        let path = env::var_os("PATH").unwrap_or_default();
        let places = own.chain(env::split_paths(&path)).map(|folder| folder.join(name));
        places.into_iter().find(|place| place.is_file())
    }
}

/// What a program says of its version: the first line of what it writes when called with
/// these words that has `mark` in it, without what stands before; none where it says
/// nothing of the kind.
pub fn version(program: &Path, words: &[&str], mark: &str) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(words).stdin(Stdio::null()).output().ok()?;
    let (out, error) = (output.stdout, output.stderr);
    [out, error].iter().find_map(|text| marked(&String::from_utf8_lossy(text), mark))
}

fn marked(text: &str, mark: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.split_once(mark))?.1;
    let line = line.trim().trim_matches('\'').trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let said = "EAL: Detected NUMA nodes: 1\nEAL: RTE Version: 'DPDK 22.11.11'\n\nUsage:";
        assert_eq!(marked(said, "RTE Version:").unwrap(), "DPDK 22.11.11");
        assert_eq!(marked("nftables v1.0.6 (Lester)\n", "nftables").unwrap(), "v1.0.6 (Lester)");
        assert_eq!(marked("nothing of the kind", "RTE Version:"), None);
        assert_eq!(marked("RTE Version: ''", "RTE Version:"), None);
    }
}
