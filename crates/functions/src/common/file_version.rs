//! Whether a file that is followed is another one by now.

use std::path::Path;
use std::time::SystemTime;

/// When a file was written, and what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion(SystemTime, u64, u64);

impl FileVersion {
    /// Of the file at `path`; none when it cannot be told.
    pub fn of(path: &Path) -> Option<FileVersion> {
        use std::os::unix::fs::MetadataExt;
        let data = std::fs::metadata(path).ok()?;
        Some(FileVersion(data.modified().ok()?, data.len(), data.ino()))
    }
}
