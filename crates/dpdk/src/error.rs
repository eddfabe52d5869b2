//! What can go wrong between Weft and DPDK, worded for the person who reads it.

use std::io;

/// A failure of the environment, a pool, a ring or a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The environment did not start.
    #[error("DPDK's environment did not start: {reason}{}", detail(.log))]
    Start {
        /// The cause, as DPDK's error number says it.
        reason: io::Error,
        /// What DPDK printed about it, if anything.
        log: Option<String>,
    },
    /// A pool could not be made; most often `memory` is too small for it.
    #[error(
        "no memory for a pool of {packets} packets ({reason}); give the node more memory or fewer packets"
    )]
    Pool {
        /// Packets asked for.
        packets: u32,
        /// The cause, as DPDK's error number says it.
        reason: io::Error,
    },
    /// A ring could not be made.
    #[error("ring {name}: {reason}")]
    Ring {
        /// Name of the ring.
        name: String,
        /// The cause, as DPDK's error number says it.
        reason: io::Error,
    },
    /// Sessions of a cryptographic device could not be made room for.
    #[error(
        "no memory for {sessions} cryptographic sessions ({reason}); give the node more memory or ask for fewer"
    )]
    Sessions {
        /// Sessions asked for.
        sessions: u32,
        /// The cause, as DPDK's error number says it.
        reason: io::Error,
    },
    /// A device string that names no device that can be opened.
    #[error("device \"{device}\": {reason}{}", detail(.log))]
    Device {
        /// The device string as it was given.
        device: String,
        /// What is wrong and what to do.
        reason: String,
        /// What DPDK printed about it, if anything.
        log: Option<String>,
    },
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

fn detail(log: &Option<String>) -> String {
    log.as_ref().map(|log| format!(" ({log})")).unwrap_or_default()
}

/// DPDK's last error of this thread.
pub(crate) fn last() -> io::Error {
    // SAFETY: reads a thread-local integer.
    io::Error::from_raw_os_error(unsafe { weft_dpdk_sys::weft_errno() })
}

/// A device string or an option that cannot be right.
pub(crate) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.into())
}
