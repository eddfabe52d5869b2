//! What both directions of ESP in tunnel mode (RFC 4303) with AES-GCM (RFC 4106) have in
//! common: keys, lifetimes, and where sessions of the cryptographic device come from.

pub(crate) mod inner;
pub(crate) mod key;
pub(crate) mod keys;
pub(crate) mod outer;
pub(crate) mod recorded;
#[cfg(test)]
mod tests;
pub(crate) mod used_keys;
pub(crate) mod window;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_dpdk::Eal;
use weft_dpdk::crypto::{self, Sessions};
use weft_function::{ByteSize, ConfigError, ContextError, Fields, Reason, Setup};
use weft_wire::esp::{HEADER_LENGTH, Spi};

use self::key::Key;

/// Octets of the initialization vector that travels with each packet (RFC 4106 §3.1).
pub const IV: usize = 8;
/// Octets of the integrity check value (RFC 4106 §6).
pub const ICV: usize = crypto::TAG;
/// Octets in front of the ciphertext.
pub const FRONT: usize = HEADER_LENGTH + IV;
/// Octets of pad length and next header.
pub const TRAILER: usize = 2;
/// Ciphertext is a multiple of so many octets (RFC 4303 §2.4).
pub const ALIGNMENT: usize = 4;

pub const NO_ASSOCIATION: Reason =
    Reason::new("esp_no_association", "the bearer has no security association");
pub const KEY_USED: Reason =
    Reason::new("esp_key_used", "the key was used before, by an association that has gone");
pub const KEY_NOT_WRITTEN: Reason =
    Reason::new("esp_key_not_written", "that the key is used is not on the disk yet");
pub const USED_UP: Reason =
    Reason::new("esp_lifetime", "the lifetime of the security association is over");

/// The device that there is without a NIC: Intel's multi-buffer library, in this thread.
pub fn default_device() -> String {
    "crypto_aesni_gcm0".to_owned()
}

/// Security associations that there is room for.
pub fn default_associations() -> u32 {
    1024
}

/// When an association is over (RFC 4301 §4.4.2.1): packets beyond are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Lifetime {
    /// Packets.
    pub packets: Option<u64>,
    /// Octets of the packets inside.
    pub bytes: Option<ByteSize>,
}

/// What an association has carried, and may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub packets: u64,
    pub bytes: u64,
    most_packets: u64,
    most_bytes: u64,
}

impl Usage {
    /// Nothing yet, of this lifetime.
    pub fn new(lifetime: Option<Lifetime>) -> Usage {
        Usage::default().within(lifetime)
    }

    /// The same, of another lifetime.
    pub fn within(self, lifetime: Option<Lifetime>) -> Usage {
        let Lifetime { packets, bytes } = lifetime.unwrap_or_default();
        let most_packets = packets.unwrap_or(u64::MAX);
        let most_bytes = bytes.map_or(u64::MAX, |bytes| bytes.0);
        Usage { most_packets, most_bytes, ..self }
    }

    /// Counts a packet of so many octets.
    ///
    /// # Errors
    /// [`USED_UP`] where it would be beyond the lifetime.
    #[inline]
    pub fn count(&mut self, octets: usize) -> Result<(), Reason> {
        let bytes = self.bytes.saturating_add(octets as u64);
        if self.packets >= self.most_packets || bytes > self.most_bytes {
            return Err(USED_UP);
        }
        (self.packets, self.bytes) = (self.packets + 1, bytes);
        Ok(())
    }

    pub fn export(self, out: &mut Vec<u8>) {
        for number in [self.packets, self.bytes, self.most_packets, self.most_bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Reads what [`export`](Self::export) wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn import(fields: &mut Fields<'_>) -> Result<Usage, ContextError> {
        let [packets, bytes, most_packets, most_bytes] =
            [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        if packets > most_packets || bytes > most_bytes {
            return Err(ContextError::Damaged);
        }
        Ok(Usage { packets, bytes, most_packets, most_bytes })
    }
}

/// Room for the sessions of an instance; none in one that is made on trial.
///
/// # Errors
/// [`ConfigError`] where the device is none, or there is no memory.
pub fn sessions(
    device: &str,
    associations: u32,
    setup: &Setup<'_>,
) -> Result<Option<Sessions>, ConfigError> {
    if associations == 0 {
        return Err(ConfigError::at("associations", "at least 1"));
    }
    if setup.trial {
        return Ok(None);
    }
    let wrong =
        |path: &str, error: &dyn std::fmt::Display| ConfigError::at(path, error.to_string());
    let eal = Eal::standing().ok_or_else(|| wrong("device", &"DPDK has not been started"))?;
    let device = crypto::Device::open(eal, device).map_err(|error| wrong("device", &error))?;
    let count = associations.min(u32::try_from(setup.contexts).unwrap_or(u32::MAX)).max(1);
    let sessions = device.sessions(count).map_err(|error| wrong("associations", &error))?;
    Ok(Some(sessions))
}

/// A session of an association with this key. None in an instance on trial, and where
/// there is no room, which the log says.
pub fn session(
    sessions: Option<&Sessions>,
    key: &Key,
    extended: bool,
    direction: crypto::Direction,
) -> Option<crypto::Session> {
    let session = sessions?.aes_gcm(key.secret(), associated_length(extended), direction);
    if session.is_none() {
        tracing::warn!("no room for another security association; raise `associations`");
    }
    session
}

/// An SPI that may be given out (RFC 4303 §2.1).
///
/// # Errors
/// [`ConfigError`].
pub fn check_spi(spi: u32) -> Result<(), ConfigError> {
    match Spi(spi) < Spi::FIRST {
        true => Err(ConfigError::at("spi", format!("{spi} is reserved; 256 is the first"))),
        false => Ok(()),
    }
}

/// No two associations may have one key: their packets would have the same nonces.
///
/// # Errors
/// [`ConfigError`] where the settings are those of several users.
pub fn check_alone(count: u32) -> Result<(), ConfigError> {
    match count {
        0 | 1 => Ok(()),
        _ => Err(ConfigError::at(
            "key",
            format!("{count} users cannot share a key; give each its own"),
        )),
    }
}

/// What is authenticated beside the ciphertext (RFC 4106 §5), and how many octets of it.
#[inline]
pub fn associated(spi: u32, sequence: u64, extended: bool) -> ([u8; 12], usize) {
    let mut data = [0; 12];
    data[..4].copy_from_slice(&spi.to_be_bytes());
    if extended {
        data[4..].copy_from_slice(&sequence.to_be_bytes());
        return (data, 12);
    }
    data[4..8].copy_from_slice(&(sequence as u32).to_be_bytes());
    (data, 8)
}

/// Octets of associated data.
fn associated_length(extended: bool) -> u16 {
    if extended { 12 } else { 8 }
}

/// The nonce (RFC 4106 §4).
#[inline]
pub fn nonce(salt: [u8; 4], iv: [u8; IV]) -> [u8; crypto::NONCE] {
    let ([a, b, c, d], [e, f, g, h, i, j, k, l]) = (salt, iv);
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

#[inline]
pub fn yes() -> bool {
    true
}
