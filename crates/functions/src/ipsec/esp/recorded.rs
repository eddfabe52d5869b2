//! What an association waits for before it carries packets: that its key stands among the
//! used ones.

use std::path::Path;
use std::sync::Arc;

use weft_function::{ConfigError, Reason};

use super::key::Key;
use super::used_keys::{Claim, UsedKeys};
use super::{KEY_NOT_WRITTEN, KEY_USED};

/// Whether an association may carry packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recorded {
    /// It may.
    #[default]
    Yes,
    /// Once so many claims are on the disk.
    Behind(u64),
    /// Never: its key was used before.
    Refused,
}

/// The used keys that a function asks, if any.
#[derive(Debug)]
pub struct Recorder {
    function: &'static str,
    keys: Option<Arc<UsedKeys>>,
}

impl Recorder {
    /// That of a function, with the file that its configuration names. One on trial asks none.
    ///
    /// # Errors
    /// [`ConfigError`] where the file is not to be had.
    pub fn new(
        function: &'static str,
        file: Option<&Path>,
        trial: bool,
    ) -> Result<Recorder, ConfigError> {
        let keys = if trial { Ok(None) } else { UsedKeys::of(file) };
        let keys = keys.map_err(|error| {
            let file = file.map_or(String::new(), |file| format!("{}: ", file.display()));
            ConfigError::at("usedKeys", format!("{file}{error}"))
        })?;
        Ok(Recorder { function, keys })
    }

    /// Whether used keys are known at all.
    pub fn knows(&self) -> bool {
        self.keys.is_some()
    }

    /// For a fresh association. The log says why one is refused.
    pub fn claim(&self, key: &Key, spi: u32) -> Recorded {
        let Some(keys) = &self.keys else { return Recorded::Yes };
        let why = match keys.claim(self.function, key) {
            Claim::Fresh(claims) => return Recorded::Behind(claims),
            Claim::Used => "its key was used before: give it a new one",
            Claim::Full => {
                "no more used keys can be remembered: give all associations new \
                            keys, and remove the file"
            }
        };
        tracing::error!(
            "{}: the security association {spi:#x} is not set up: {why}",
            self.function
        );
        Recorded::Refused
    }

    /// For an association that comes with its counters.
    pub fn note(&self, key: &Key) -> Recorded {
        let behind = |keys: &Arc<UsedKeys>| Recorded::Behind(keys.note(self.function, key));
        self.keys.as_ref().map_or(Recorded::Yes, behind)
    }

    /// An association has gone; `carried` says whether it has carried a packet.
    pub fn leave(&self, key: &Key, recorded: Recorded, carried: bool) {
        if let Some(keys) = self.keys.as_ref().filter(|_| !carried && recorded != Recorded::Refused)
        {
            keys.give_back(self.function, key);
        }
    }

    /// Whether an association may carry a packet now.
    ///
    /// # Errors
    /// The reason for which it may not.
    #[cold]
    pub fn ask(&self, recorded: &mut Recorded) -> Result<(), Reason> {
        let is_written = |claims| self.keys.as_ref().is_none_or(|keys| keys.is_written(claims));
        match *recorded {
            Recorded::Refused => return Err(KEY_USED),
            Recorded::Behind(claims) if !is_written(claims) => return Err(KEY_NOT_WRITTEN),
            Recorded::Yes | Recorded::Behind(_) => {}
        }
        *recorded = Recorded::Yes;
        Ok(())
    }
}
