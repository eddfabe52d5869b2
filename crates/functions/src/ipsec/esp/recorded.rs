//! What an association waits for before it carries packets: that its key stands among the
//! used ones.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use weft_function::{ConfigError, Reason};

use super::key::Key;
use super::used_keys::{Claim, UsedKeys};
use super::{KEY_NOT_WRITTEN, KEY_USED};

/// Refused associations that the log names; of further ones, each power of two.
const TOLD: u64 = 8;
const USED: &str = "its key was used before: give it a new one";
const FULL: &str = "no more used keys can be remembered: give all associations new keys, and \
                    remove the file";

/// Whether an association may carry packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recorded {
    /// It may.
    #[default]
    Yes,
    /// Once so many claims are on the disk.
    Behind(u64),
    /// Never. The log does not say so before a packet asks: a node that starts again sets an
    /// association up first, and then gives it the counters with which it may go on.
    Refused(Claim),
    /// Never, and the log has said so.
    Told,
}

impl Recorded {
    /// Whether it never may.
    pub fn is_refused(self) -> bool {
        matches!(self, Recorded::Refused(_) | Recorded::Told)
    }
}

/// The used keys that a function asks, if any.
#[derive(Debug)]
pub struct Recorder {
    function: &'static str,
    keys: Option<Arc<UsedKeys>>,
    refused: Cell<u64>,
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
        Ok(Recorder { function, keys, refused: Cell::new(0) })
    }

    /// Whether used keys are known at all.
    pub fn knows(&self) -> bool {
        self.keys.is_some()
    }

    /// For a fresh association.
    pub fn claim(&self, key: &Key) -> Recorded {
        match self.keys.as_ref().map(|keys| keys.claim(self.function, key)) {
            None => Recorded::Yes,
            Some(Claim::Fresh(claims)) => Recorded::Behind(claims),
            Some(refused) => Recorded::Refused(refused),
        }
    }

    /// For an association that comes with its counters.
    pub fn note(&self, key: &Key) -> Recorded {
        let behind = |keys: &Arc<UsedKeys>| Recorded::Behind(keys.note(self.function, key));
        self.keys.as_ref().map_or(Recorded::Yes, behind)
    }

    /// An association has gone; `carried` says whether it has carried a packet.
    pub fn leave(&self, key: &Key, recorded: Recorded, carried: bool) {
        if let Some(keys) = self.keys.as_ref().filter(|_| !recorded.is_refused()) {
            keys.leave(self.function, key, carried);
        }
    }

    /// Whether an association may carry a packet now. The log says why it never may.
    ///
    /// # Errors
    /// The reason for which it may not.
    #[cold]
    pub fn ask(&self, recorded: &mut Recorded, spi: u32) -> Result<(), Reason> {
        let is_written = |claims| self.keys.as_ref().is_none_or(|keys| keys.is_written(claims));
        match *recorded {
            Recorded::Told => return Err(KEY_USED),
            Recorded::Refused(claim) => {
                self.tell(claim, spi);
                *recorded = Recorded::Told;
                return Err(KEY_USED);
            }
            Recorded::Behind(claims) if !is_written(claims) => return Err(KEY_NOT_WRITTEN),
            Recorded::Yes | Recorded::Behind(_) => {}
        }
        *recorded = Recorded::Yes;
        Ok(())
    }

    /// Many users may have keys from one file.
    fn tell(&self, claim: Claim, spi: u32) {
        let refused = self.refused.get() + 1;
        self.refused.set(refused);
        if refused <= TOLD || refused.is_power_of_two() {
            let function = self.function;
            let why = if claim == Claim::Full { FULL } else { USED };
            tracing::error!(
                refused,
                "{function}: the security association {spi:#x} is not set up: {why}"
            );
        }
    }
}
