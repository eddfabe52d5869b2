//! Memory that another process shares with this one, and may take away.

use std::io;
use std::sync::Once;

use weft_dpdk_sys as sys;

use crate::eal::Eal;

impl Eal {
    /// From now on a page of shared memory that its owner has truncated away is an
    /// empty page of this process, instead of the end of it (`SIGBUS`, mmap(2)).
    /// Devices whose rings lie in memory of others (`net_vhost`) need this.
    ///
    /// # Errors
    /// When the signal cannot be caught.
    pub fn contain_truncation(&self) -> io::Result<()> {
        static ONCE: Once = Once::new();
        let mut status = 0;
        // SAFETY: the handler only makes a system call, counts, and restores what
        // was there before.
        ONCE.call_once(|| status = unsafe { sys::weft_contain_truncation() });
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Pages that were taken away so far.
    pub fn truncated_pages(&self) -> u32 {
        // SAFETY: reads a counter.
        unsafe { sys::weft_truncations() }
    }
}
