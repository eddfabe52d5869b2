//! What is read from files, and read again when they change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::TlsError;

/// How often the files are looked at.
const PAUSE: Duration = Duration::from_secs(1);

type Read<T> = Box<dyn Fn() -> Result<T, TlsError> + Send + Sync>;

/// What some files say.
pub(super) struct Renewed<T> {
    files: Vec<PathBuf>,
    read: Read<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: T,
    /// Of the files that the value was read from.
    stamps: Vec<Stamp>,
    looked: Instant,
    /// How often they were read again.
    renewals: u64,
    /// What was last said in the log about files that cannot be used.
    complaint: String,
}

/// Device, number, length and time of a file, by which a change shows, by renaming as well.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

impl<T: Clone> Renewed<T> {
    /// Reads the files.
    ///
    /// # Errors
    /// That of `read`.
    pub fn read(
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Renewed<T>, TlsError> {
        let stamps = stamps(&files);
        let value = read()?;
        let (looked, complaint) = (Instant::now(), String::new());
        let state = Mutex::new(State { value, stamps, looked, renewals: 0, complaint });
        Ok(Renewed { files, read: Box::new(read), state })
    }

    /// What the files say, or said as long as they could be used.
    pub fn current(&self) -> T {
        self.look().value.clone()
    }

    /// How often there was something new.
    pub fn renewals(&self) -> u64 {
        self.look().renewals
    }

    /// Reads the files again if they have changed. Looks once a second at most.
    fn look(&self) -> MutexGuard<'_, State<T>> {
        let mut state = self.locked();
        if state.looked.elapsed() < PAUSE {
            return state;
        }
        state.looked = Instant::now();
        // Before they are read: a change in between is seen the next time.
        let stamps = stamps(&self.files);
        if stamps == state.stamps {
            return state;
        }
        match (self.read)() {
            Ok(value) => {
                (state.value, state.stamps) = (value, stamps);
                state.renewals += 1;
                state.complaint.clear();
                tracing::info!("certificates were read again");
            }
            Err(error) => {
                // Several files change one after the other, so it may be right the next time.
                let complaint = error.to_string();
                if complaint != state.complaint {
                    tracing::warn!("certificates stay what they were: {complaint}");
                    state.complaint = complaint;
                }
            }
        }
        state
    }

    fn locked(&self) -> MutexGuard<'_, State<T>> {
        // What is locked is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let about = fs::metadata(file).ok()?;
        Some((about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
    };
    files.iter().map(stamp).collect()
}
