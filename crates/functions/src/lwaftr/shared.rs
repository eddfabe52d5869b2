//! Bindings that the workers of an instance share, and that follow their file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use weft_function::ConfigError;
use weft_yaml::mistake::{self, Mistakes};
use weft_yaml::stream;

use super::bindings::{Bindings, Mistake};
use super::config::{Config, Table};
use crate::common::file_version::FileVersion;

/// How often the file is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// The bindings as they are now.
#[derive(Debug)]
pub struct Shared {
    current: Mutex<Arc<Bindings>>,
    /// How often they have changed.
    pub version: AtomicU64,
    /// Changes of the file that could not be read.
    pub refused: AtomicU64,
}

/// Bindings that are in use.
static ALL: Mutex<Vec<(Config, Weak<Shared>)>> = Mutex::new(Vec::new());

impl Shared {
    /// Those of a configuration: the same for all its workers.
    ///
    /// # Errors
    /// [`ConfigError`] where they cannot be read or followed.
    pub fn of(config: &Config) -> Result<Arc<Shared>, ConfigError> {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, shared)| shared.strong_count() > 0);
        let same = all.iter().find(|(other, _)| other == config);
        if let Some(shared) = same.and_then(|(_, shared)| shared.upgrade()) {
            return Ok(shared);
        }
        let version = config.file.as_ref().and_then(|file| FileVersion::of(file.as_ref()));
        let bindings = bindings(config)?;
        let shared = Shared::fixed(bindings);
        if let Some(file) = config.file.as_ref().filter(|_| config.follow) {
            follow(&shared, file.into(), version)
                .map_err(|error| ConfigError::at("follow", error.to_string()))?;
        }
        all.push((config.clone(), Arc::downgrade(&shared)));
        Ok(shared)
    }

    /// Bindings that do not change.
    pub fn fixed(bindings: Bindings) -> Arc<Shared> {
        let current = Mutex::new(Arc::new(bindings));
        Arc::new(Shared { current, version: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    /// The bindings of now, and which they are.
    pub fn wait(&self) -> (Arc<Bindings>, u64) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (current.clone(), self.version.load(Ordering::Relaxed))
    }

    /// The same without waiting; none where they change this moment.
    pub fn take(&self) -> Option<(Arc<Bindings>, u64)> {
        let current = self.current.try_lock().ok()?;
        Some((current.clone(), self.version.load(Ordering::Relaxed)))
    }

    fn replace(&self, bindings: Bindings) -> Arc<Bindings> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::new(bindings));
        self.version.fetch_add(1, Ordering::Relaxed);
        before
    }
}

/// Looks at a file once a second and changes the bindings when it is another one. Ends
/// when no worker has them any more. A file that cannot be read changes nothing. What was
/// there before stays until no worker has it: none of them gives memory back.
fn follow(
    shared: &Arc<Shared>,
    path: PathBuf,
    mut version: Option<FileVersion>,
) -> std::io::Result<()> {
    let shared = Arc::downgrade(shared);
    let mut before: Vec<Arc<Bindings>> = Vec::new();
    let look = move || {
        loop {
            std::thread::sleep(PAUSE);
            let Some(shared) = shared.upgrade() else { return };
            before.retain(|bindings| Arc::strong_count(bindings) > 1);
            let now = FileVersion::of(&path);
            if now.is_none() || now == version {
                continue;
            }
            version = now;
            match read(&path) {
                Ok(bindings) => {
                    tracing::info!("{}: {} softwires", path.display(), bindings.len());
                    before.push(shared.replace(bindings));
                }
                Err(error) => {
                    shared.refused.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!("{error}; the bindings stay as they were");
                }
            }
        }
    };
    std::thread::Builder::new().name("softwires".into()).spawn(look).map(drop)
}

/// The bindings that stand in the configuration, or in its file.
///
/// # Errors
/// [`ConfigError`] with the place of the mistake.
pub fn bindings(config: &Config) -> Result<Bindings, ConfigError> {
    match (&config.bindings, &config.file) {
        (Some(table), _) => Bindings::new(table).map_err(|Mistake { place, message }| {
            ConfigError::at(format!("bindings.{place}"), message)
        }),
        (None, Some(file)) => {
            read(Path::new(file)).map_err(|message| ConfigError::at("file", message))
        }
        (None, None) => Ok(Bindings::default()),
    }
}

/// The bindings of a file.
///
/// # Errors
/// What is wrong, and where.
fn read(file: &Path) -> Result<Bindings, String> {
    let name = file.display().to_string();
    let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let placed = |mistake| Mistakes::of(&name, vec![mistake]).to_string();
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let is_json = file.extension().is_some_and(|extension| extension == "json");
    let table: Table = match is_json {
        true => serde_json::from_str(&text).map_err(|error| wrong(&error))?,
        false => stream::read(&text).map_err(placed)?,
    };
    Bindings::new(&table).map_err(|Mistake { place, message }| {
        // JSON is YAML as well.
        match stream::value_at(&text, &place) {
            Some(at) => placed(mistake::Mistake::at(at, message)),
            None => wrong(&format_args!("{place}: {message}")),
        }
    })
}
