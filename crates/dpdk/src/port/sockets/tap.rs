//! The TAP driver of DPDK gives the interface a MAC address and an MTU as it makes a device. The
//! kernel forgets all neighbours then, also those that were set by hand, and cuts what is longer. Where
//! another process has the interface, both are right already: the calls do nothing.

use std::cell::Cell;
use std::ffi::{c_int, c_ulong, c_void};

use super::calls::redirected;

const DRIVER: &[u8] = b"librte_net_tap.so";

thread_local! {
    /// Whether this thread makes a device whose interface stays as it is.
    static STAYS: Cell<bool> = const { Cell::new(false) };
}

/// Makes a device whose interface keeps its MAC address and its MTU, if `stays`.
pub(in crate::port) fn unchanged<T>(stays: bool, make: impl FnOnce() -> T) -> T {
    if !stays {
        return make();
    }
    let control = control as *const () as usize;
    redirected((DRIVER, c"ioctl"), control, || {
        STAYS.set(true);
        let made = make();
        STAYS.set(false);
        made
    })
}

/// As ioctl(2), whose third argument comes as that of other functions does (x86-64 supplement to
/// the System V ABI); what would change the interface does nothing.
unsafe extern "C" fn control(number: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let changes = [libc::SIOCSIFHWADDR, libc::SIOCSIFMTU];
    match STAYS.get() && changes.iter().any(|one| *one as c_ulong == request) {
        true => 0,
        // SAFETY: as the caller promises.
        false => unsafe { libc::ioctl(number, request as libc::Ioctl, argument) },
    }
}
