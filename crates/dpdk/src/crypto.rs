//! Authenticated encryption by a cryptographic device of DPDK (cryptodev): AES-GCM
//! (NIST SP 800-38D) with a nonce of 12 octets and a tag of 16, in place, in the thread
//! that asks for it.
//!
//! A [`Device`] is opened once for a process and stays. [`Sessions`] are room for so
//! many keys; a [`Session`] is one key, scheduled for one direction. A key is never
//! shown: nothing here prints it, and DPDK overwrites it as the session goes.

use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use weft_dpdk_sys as sys;

use crate::eal::Eal;
use crate::eal::LISTED;
use crate::eal::log;
use crate::error::{self, Error, Result};
use crate::lock;
use crate::port::bus::{ALREADY, VIRTUAL, plug};

/// Octets of a nonce.
pub const NONCE: usize = 12;
/// Octets of a tag.
pub const TAG: usize = 16;

/// A cryptographic device that has AES-GCM and works in the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    id: u8,
}

/// Devices are asked for one at a time.
static OPENING: Mutex<()> = Mutex::new(());

impl Device {
    /// Opens the virtual device that a device string names
    /// (`crypto_aesni_gcm0,socket_id=0`); the same one where it is open already.
    ///
    /// # Errors
    /// [`Error::Device`] where there is no such driver, or it cannot work in the
    /// calling thread or has no AES-GCM.
    pub fn open(_: &Eal, device: &str) -> Result<Device> {
        let _one_at_a_time = lock(&OPENING);
        let log = log::listen();
        let fail = |reason: &str| Error::Device {
            device: device.to_owned(),
            reason: reason.to_owned(),
            log: log.said(),
        };
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        let (Ok(name), Ok(arguments)) = (CString::new(name), CString::new(arguments)) else {
            return Err(fail("not a device string"));
        };
        // A name of another kind would make a port of it, which is never found again.
        if !name.as_bytes().starts_with(b"crypto_") {
            return Err(fail("not a cryptographic device; their names begin with crypto_"));
        }
        let plugged = plug(VIRTUAL, &name, &arguments);
        if !matches!(plugged, 0 | ALREADY) {
            return Err(fail("DPDK cannot make this cryptographic device"));
        }
        // SAFETY: the environment stands; the name is a C string.
        let id = unsafe { sys::rte_cryptodev_get_dev_id(name.as_ptr()) };
        let Ok(id) = u8::try_from(id) else { return Err(fail("not a cryptographic device")) };
        // SAFETY: the device exists, and is started once: when it was not there before.
        if plugged == 0 && unsafe { sys::weft_crypto_start(id, sys::rte_socket_id() as i32) } != 0 {
            return Err(fail("DPDK cannot start this cryptographic device"));
        }
        // SAFETY: the device exists.
        match unsafe { sys::weft_crypto_is_synchronous(id) } {
            0 => Err(fail("it has no AES-GCM in the calling thread; crypto_aesni_gcm has")),
            _ => Ok(Device { id }),
        }
    }

    /// Room for `count` sessions.
    ///
    /// # Errors
    /// [`Error::Sessions`] where there is not enough memory.
    pub fn sessions(self, count: u32) -> Result<Sessions> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("sessions-{serial}")).unwrap_or_default();
        let _listed = lock(&LISTED);
        // SAFETY: the device exists, and with it the environment.
        let pool = unsafe {
            let bytes = sys::rte_cryptodev_sym_get_private_session_size(self.id);
            let socket = sys::rte_socket_id() as i32;
            sys::rte_cryptodev_sym_session_pool_create(name.as_ptr(), count, bytes, 0, 0, socket)
        };
        match NonNull::new(pool) {
            Some(pool) => Ok(Sessions(Arc::new(Inner { pool, device: self.id }))),
            None => Err(Error::Sessions { sessions: count, reason: error::last() }),
        }
    }
}

/// Room for sessions, cheap to clone; freed with the last clone and session.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: NonNull<sys::rte_mempool>,
    device: u8,
}

// SAFETY: a mempool is made for use by any number of threads.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        let _listed = lock(&LISTED);
        // SAFETY: every session holds a clone of this, so none is left.
        unsafe { sys::rte_mempool_free(self.pool.as_ptr()) };
    }
}

/// What a session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// [`Session::seal`].
    Seal,
    /// [`Session::open`].
    Open,
}

impl Sessions {
    /// Sessions that are free.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { sys::rte_mempool_avail_count(self.0.pool.as_ptr()) }
    }

    /// A session of AES-GCM with a key of 16, 24 or 32 octets, for messages with
    /// `associated` octets of associated data each; none where the key has another
    /// length or no session is free.
    pub fn aes_gcm(&self, key: &[u8], associated: u16, direction: Direction) -> Option<Session> {
        if !matches!(key.len(), 16 | 24 | 32) {
            return None;
        }
        // SAFETY: the device exists, the pool is its sessions', and DPDK copies the key.
        let raw = unsafe {
            sys::weft_gcm_session(
                self.0.device,
                self.0.pool.as_ptr(),
                key.as_ptr(),
                key.len() as u16,
                associated,
                (direction == Direction::Seal).into(),
            )
        };
        let raw = NonNull::new(raw)?;
        let session =
            Session { raw, associated: associated.into(), direction, sessions: self.clone() };
        // A thread's first message makes the device take memory: not on the way of a packet.
        let mut tag = [0; TAG];
        session.process(&[0; NONCE], &[0; 64][..session.associated.min(64)], &mut [], &mut tag);
        Some(session)
    }
}

/// A key, scheduled for one direction. One thread uses it at a time.
pub struct Session {
    raw: NonNull<std::ffi::c_void>,
    associated: usize,
    direction: Direction,
    sessions: Sessions,
}

// SAFETY: a session is only read while it is used, and owned by one.
unsafe impl Send for Session {}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("direction", &self.direction).finish_non_exhaustive()
    }
}

impl Session {
    /// Encrypts `data` in place and writes its tag. A nonce must never be used twice
    /// with one key (NIST SP 800-38D §8). False, and nothing may be sent, where the
    /// associated data have another length than the session's, or it opens.
    #[inline]
    pub fn seal(
        &self,
        nonce: &[u8; NONCE],
        associated: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG],
    ) -> bool {
        self.direction == Direction::Seal && self.process(nonce, associated, data, tag)
    }

    /// Decrypts `data` in place if the tag is right. Where it is false, what is in
    /// `data` then must not be used.
    #[inline]
    pub fn open(
        &self,
        nonce: &[u8; NONCE],
        associated: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG],
    ) -> bool {
        self.direction == Direction::Open && self.process(nonce, associated, data, &mut { *tag })
    }

    #[inline]
    fn process(
        &self,
        nonce: &[u8; NONCE],
        associated: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG],
    ) -> bool {
        let Ok(length) = u32::try_from(data.len()) else { return false };
        // SAFETY: the session is the device's; as many octets of each part are there
        // as the device reads or writes: the session fixed those of nonce, tag and
        // associated data.
        associated.len() == self.associated
            && unsafe {
                sys::weft_gcm_process(
                    self.sessions.0.device,
                    self.raw.as_ptr(),
                    nonce.as_ptr(),
                    associated.as_ptr(),
                    data.as_mut_ptr(),
                    length,
                    tag.as_mut_ptr(),
                )
            } == 0
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the session is ours, and not used again. DPDK overwrites the key.
        unsafe { sys::rte_cryptodev_sym_session_free(self.sessions.0.device, self.raw.as_ptr()) };
    }
}
