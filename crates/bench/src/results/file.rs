//! Results on disk: written whole or not at all, and read with one clear line
//! where a file is not ours.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use thiserror::Error;

use super::{FILE_NAME, Results, SCHEMA};

/// A file that could not be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {}", path.display(), reason(error))]
pub struct WriteError {
    path: PathBuf,
    error: io::Error,
}

/// A file that could not be read as results.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is not there, or may not be read.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is something else.
    #[error("{} is not a results file of weft bench: {why}", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
}

impl Results {
    /// Writes them to `directory/results.json`, making the directory.
    ///
    /// # Errors
    /// Where the directory or the file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, WriteError> {
        self.write_as(directory.join(FILE_NAME))
    }

    /// The same, to a file of another name.
    ///
    /// # Errors
    /// As [`write`](Results::write).
    pub fn write_as(&self, path: PathBuf) -> Result<PathBuf, WriteError> {
        let text = super::text::text(self)
            .map_err(|error| WriteError { path: path.clone(), error: error.into() })?;
        write_whole(&path, &text)?;
        Ok(path)
    }

    /// Reads one file.
    ///
    /// # Errors
    /// Where it cannot be read, or is not a results file.
    pub fn read(path: &Path) -> Result<Results, ReadError> {
        let not_ours = |why: String| ReadError::NotOurs { path: path.to_owned(), why };
        let bytes =
            fs::read(path).map_err(|error| ReadError::Io { path: path.to_owned(), error })?;
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| not_ours(format!("no JSON: {error}")))?;
        match value.get("schema").and_then(Value::as_str) {
            Some(SCHEMA) => {}
            Some(other) => {
                return Err(not_ours(format!("its schema is `{other}`, not `{SCHEMA}`")));
            }
            None => return Err(not_ours(format!("it has no `schema: {SCHEMA}`"))),
        }
        serde_json::from_value(value).map_err(|error| not_ours(error.to_string()))
    }

    /// Reads one file, or all results of a directory: its own `results.json`, else
    /// those of the directories within it, in the order in which they were begun.
    ///
    /// # Errors
    /// Where one cannot be read or is not ours, or a directory holds none.
    pub fn read_all(path: &Path) -> Result<Vec<Results>, ReadError> {
        let io_error = |error| ReadError::Io { path: path.to_owned(), error };
        if !fs::metadata(path).map_err(io_error)?.is_dir() {
            return Ok(vec![Results::read(path)?]);
        }
        let own = path.join(FILE_NAME);
        if own.exists() {
            return Ok(vec![Results::read(&own)?]);
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(io_error)? {
            files.push(entry.map_err(io_error)?.path().join(FILE_NAME));
        }
        files.retain(|file| file.exists());
        files.sort();
        if files.is_empty() {
            let why = format!("there is no {FILE_NAME} in it or one level below");
            return Err(ReadError::NotOurs { path: path.to_owned(), why });
        }
        let mut all =
            files.iter().map(|file| Results::read(file)).collect::<Result<Vec<_>, _>>()?;
        // RFC 3339 in UTC sorts as text.
        all.sort_by(|a, b| a.began.cmp(&b.began));
        Ok(all)
    }
}

/// Writes a file so that a reader finds the old or the new, never half:
/// beside it first, then renamed. Makes the directories it stands in.
///
/// # Errors
/// Where that fails; what was there before is still there.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let beside = path.with_extension(format!("{}.partial", std::process::id()));
    let write = || {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| {
        // It may never have been made; the first error is the one to tell.
        let _ = fs::remove_file(&beside);
        WriteError { path: path.to_owned(), error }
    })
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full; free some space and run it again".into(),
        _ => error.to_string(),
    }
}

/// The time now: RFC 3339, in UTC, to the second.
pub(super) fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date so many days after 1970-01-01. Years are counted from
/// March, so that the leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    const CYCLE: u64 = 146_097;
    let days = days + 719_468;
    let (cycle, day) = (days / CYCLE, days % CYCLE);
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (number, wraps) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + wraps, number, day - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let results = Results::new("users", Machine::default());
        let path = results.write(&directory.path().join("users")).unwrap();
        assert_eq!(Results::read(&path).unwrap(), results);
        let all = Results::read_all(directory.path()).unwrap();
        assert_eq!(all, [results]);
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left beside it");
    }

    #[test]
    fn results_come_in_the_order_in_which_they_were_begun() {
        let directory = tempfile::tempdir().unwrap();
        for (name, began) in [("chain-mix", "08"), ("io-environments", "05"), ("users", "06")] {
            let mut results = Results::new(name, Machine::default());
            results.began = format!("2026-03-02T10:00:{began}Z");
            results.write(&directory.path().join(name)).unwrap();
        }
        let all = Results::read_all(directory.path()).unwrap();
        let names: Vec<_> = all.iter().map(|one| one.experiment.as_str()).collect();
        assert_eq!(names, ["io-environments", "users", "chain-mix"]);
    }

    #[test]
    fn a_file_that_is_not_ours_is_told_in_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("other.json");
        for (text, expected) in [
            ("PK\u{3}\u{4}", "no JSON"),
            ("[1, 2]", "it has no `schema"),
            (r#"{"schema":"weft/results/v9"}"#, "its schema is `weft/results/v9`"),
            (r#"{"schema":"weft/results/v1"}"#, "missing field"),
        ] {
            fs::write(&file, text).unwrap();
            let line = Results::read(&file).unwrap_err().to_string();
            assert!(line.contains(expected) && !line.contains('\n'), "{line}");
        }
        let line = Results::read_all(directory.path()).unwrap_err().to_string();
        assert!(line.contains("there is no results.json"), "{line}");
        assert!(Results::read_all(&directory.path().join("none")).is_err());
    }

    #[test]
    fn a_full_disk_is_told_in_one_line() {
        // /dev/full takes no byte; a file in place of a directory takes no file.
        let error = WriteError {
            path: "out/results.json".into(),
            error: File::options()
                .write(true)
                .open("/dev/full")
                .and_then(|mut full| full.write_all(b"x"))
                .unwrap_err(),
        };
        let expected =
            "cannot write out/results.json: the disk is full; free some space and run it again";
        assert_eq!(error.to_string(), expected);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        write_whole(&file, b"old").unwrap();
        assert!(write_whole(&file.join("results.json"), b"new").is_err());
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_514), (2026, 3, 2));
        assert_eq!(date(47_540), (2100, 2, 28));
        assert_eq!(date(47_541), (2100, 3, 1));
    }
}
