//! What a device says by itself: its link has changed, it is taken away, it wants a reset.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use weft_dpdk_sys as sys;

/// Events of a port that are listened to.
const KINDS: [sys::rte_eth_event_type; 3] =
    [sys::RTE_ETH_EVENT_INTR_LSC, sys::RTE_ETH_EVENT_INTR_RMV, sys::RTE_ETH_EVENT_INTR_RESET];

/// How often DPDK is asked to forget a listener that it is just telling something.
const ATTEMPTS: usize = 1000;

/// What was said until now. DPDK's own thread writes it.
#[derive(Debug, Default)]
struct Said {
    link_changes: AtomicU64,
    is_leaving: AtomicBool,
    wants_reset: AtomicBool,
}

/// The link of a virtual function. Its physical function takes it down for a reset, and from then
/// on the virtual function receives nothing until it is set up anew. No driver of 22.11 can be
/// relied on to tell (`RTE_ETH_EVENT_INTR_RESET`): it does so on an interrupt of the mailbox only.
#[derive(Debug, Default)]
struct VirtualLink(AtomicU8);

impl VirtualLink {
    const NEVER_UP: u8 = 0;
    const UP: u8 = 1;
    const LOST: u8 = 2;

    /// Whether it is back after it was lost.
    fn is_back(&self, is_up: bool) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        match (before, is_up) {
            (Self::NEVER_UP, true) => self.0.store(Self::UP, Ordering::Relaxed),
            (Self::UP, false) => self.0.store(Self::LOST, Ordering::Relaxed),
            _ => {}
        }
        before == Self::LOST && is_up
    }
}

/// Whether the device is a virtual function whose driver does not see to resets.
fn is_virtual_function(id: u16) -> bool {
    let mut info = sys::rte_eth_dev_info::default();
    // SAFETY: the device exists; `info` is writable; names of drivers are static C strings.
    unsafe {
        sys::rte_eth_dev_info_get(id, &mut info) == 0
            && !info.driver_name.is_null()
            && CStr::from_ptr(info.driver_name).to_bytes().ends_with(b"_vf")
    }
}

/// Listens to one device while it lives.
#[derive(Debug)]
pub(super) struct Events {
    id: u16,
    name: CString,
    /// In a place of its own, which DPDK knows.
    said: &'static Said,
    virtual_link: Option<VirtualLink>,
}

impl Events {
    /// Of the device `id`, which is called `name` on its bus.
    pub(super) fn of(id: u16, name: &CStr) -> Events {
        let said: &'static Said = Box::leak(Box::default());
        let to = (&raw const *said).cast_mut().cast::<c_void>();
        // SAFETY: the device exists; both functions have the type that DPDK calls, and what
        // they are given lives until they are unregistered. A device that has none of these
        // events says nothing.
        unsafe {
            for kind in KINDS {
                sys::rte_eth_dev_callback_register(id, kind, Some(note), to);
            }
            sys::rte_dev_event_callback_register(name.as_ptr(), Some(note_of_bus), to);
        }
        let virtual_link = is_virtual_function(id).then(VirtualLink::default);
        Events { id, name: name.to_owned(), said, virtual_link }
    }

    /// Notes what its driver says of its link: a virtual function that had lost it wants a reset.
    pub(super) fn note_link(&self, is_up: bool) {
        if self.virtual_link.as_ref().is_some_and(|link| link.is_back(is_up)) {
            self.said.wants_reset.store(true, Ordering::Relaxed);
        }
    }

    /// Changes of its link.
    pub(super) fn link_changes(&self) -> u64 {
        self.said.link_changes.load(Ordering::Relaxed)
    }

    /// Whether it is taken away, or wants to be opened anew.
    pub(super) fn is_ending(&self) -> bool {
        self.said.is_leaving.load(Ordering::Relaxed)
            || self.said.wants_reset.load(Ordering::Relaxed)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let said = (&raw const *self.said).cast_mut();
        let to = said.cast::<c_void>();
        let mut is_known = false;
        // SAFETY: as they were registered.
        unsafe {
            for kind in KINDS {
                is_known |= still_known(|| {
                    sys::rte_eth_dev_callback_unregister(self.id, kind, Some(note), to)
                });
            }
            is_known |= still_known(|| {
                sys::rte_dev_event_callback_unregister(self.name.as_ptr(), Some(note_of_bus), to)
            });
            if !is_known {
                // SAFETY: it was leaked as it was made, and nothing knows of it any more.
                drop(Box::from_raw(said));
            }
        }
    }
}

/// Whether a listener is still known, after all attempts to have it forgotten.
fn still_known(mut unregister: impl FnMut() -> i32) -> bool {
    for _ in 0..ATTEMPTS {
        if unregister() != -libc::EAGAIN {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

unsafe extern "C" fn note(
    _: u16,
    kind: sys::rte_eth_event_type,
    said: *mut c_void,
    _: *mut c_void,
) -> i32 {
    // SAFETY: what was registered with this function, and lives as long.
    let said = unsafe { &*said.cast::<Said>() };
    match kind {
        sys::RTE_ETH_EVENT_INTR_LSC => drop(said.link_changes.fetch_add(1, Ordering::Relaxed)),
        sys::RTE_ETH_EVENT_INTR_RESET => said.wants_reset.store(true, Ordering::Relaxed),
        _ => said.is_leaving.store(true, Ordering::Relaxed),
    }
    0
}

unsafe extern "C" fn note_of_bus(
    _: *const c_char,
    kind: sys::rte_dev_event_type,
    said: *mut c_void,
) {
    // SAFETY: as above.
    let said = unsafe { &*said.cast::<Said>() };
    if kind == sys::RTE_DEV_EVENT_REMOVE {
        said.is_leaving.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_function_is_reset_when_its_link_is_back() {
        let link = VirtualLink::default();
        let back: Vec<_> =
            [false, true, true, false, false, true].map(|up| link.is_back(up)).into();
        assert_eq!(back, [false, false, false, false, false, true]);
    }

    #[test]
    fn what_a_device_says_is_noted() {
        let said = Said::default();
        let to = (&raw const said).cast_mut().cast::<c_void>();
        let tell = |kind| {
            // SAFETY: `said` lives longer than the calls.
            unsafe { note(0, kind, to, std::ptr::null_mut()) };
        };
        tell(sys::RTE_ETH_EVENT_INTR_LSC);
        tell(sys::RTE_ETH_EVENT_INTR_LSC);
        assert_eq!(said.link_changes.load(Ordering::Relaxed), 2);
        assert!(!said.is_leaving.load(Ordering::Relaxed));
        tell(sys::RTE_ETH_EVENT_INTR_RESET);
        assert!(said.wants_reset.load(Ordering::Relaxed));
        // SAFETY: as above.
        unsafe { note_of_bus(c"0000:01:00.0".as_ptr(), sys::RTE_DEV_EVENT_ADD, to) };
        assert!(!said.is_leaving.load(Ordering::Relaxed));
        // SAFETY: as above.
        unsafe { note_of_bus(c"0000:01:00.0".as_ptr(), sys::RTE_DEV_EVENT_REMOVE, to) };
        assert!(said.is_leaving.load(Ordering::Relaxed));
    }
}
