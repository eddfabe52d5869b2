//! Which keys are in use: no two security associations may have one. Under AES-GCM their
//! packets would have the same nonces, and lose all protection (RFC 4106 §9).

use std::cell::RefCell;
use std::collections::HashMap;

use weft_function::ConfigError;

use super::key::Key;

/// Keys of settings that are remembered while they are checked.
const CHECKED: usize = 1 << 16;

/// The keys of settings, as they are checked one after the other.
#[derive(Debug, Default)]
pub struct Checked(RefCell<HashMap<Key, u32>>);

impl Checked {
    /// Notes the key of the association `spi`.
    ///
    /// # Errors
    /// [`ConfigError`] where another one has the key.
    pub fn note(&self, key: &Key, spi: u32) -> Result<(), ConfigError> {
        let mut known = self.0.borrow_mut();
        match known.get(key) {
            Some(other) if *other != spi => Err(ConfigError::at("key", shared(*other, spi))),
            None if known.len() < CHECKED => {
                known.insert(key.clone(), spi);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The keys of associations that are set up.
#[derive(Debug, Default)]
pub struct InUse(HashMap<Key, (u32, u32)>);

impl InUse {
    /// Takes the key for a fresh association. False where another one has it, which the
    /// log says.
    pub fn claim(&mut self, key: &Key, spi: u32) -> bool {
        if let Some((other, _)) = self.0.get(key) {
            tracing::error!("{}; {spi:#x} is not set up", shared(*other, spi));
            return false;
        }
        self.0.insert(key.clone(), (spi, 1));
        true
    }

    /// Takes the key for an association that has come from another node.
    pub fn join(&mut self, key: &Key, spi: u32) {
        self.0.entry(key.clone()).or_insert((spi, 0)).1 += 1;
    }

    /// An association with the key has gone.
    pub fn leave(&mut self, key: &Key) {
        let Some((_, count)) = self.0.get_mut(key) else { return };
        *count -= 1;
        if *count == 0 {
            self.0.remove(key);
        }
    }

    /// Takes over those of another instance.
    pub fn adopt(&mut self, previous: &mut InUse) {
        self.0.extend(std::mem::take(&mut previous.0));
    }
}

fn shared(one: u32, other: u32) -> String {
    match one == other {
        true => format!("two security associations with the SPI {one:#x} have one key"),
        false => format!("the security associations {one:#x} and {other:#x} have one key"),
    }
}
