//! DPDK's buses: devices are put on them by name, and taken off again.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::Mutex;

use weft_dpdk_sys as sys;

use crate::lock;

pub(crate) const VIRTUAL: &CStr = c"vdev";
pub(super) const PCI: &CStr = c"pci";

/// What [`plug`] gives for a device that is on the bus already.
pub(crate) const ALREADY: i32 = -libc::EEXIST;
/// What [`plug`] gives for a name that no driver has.
pub(super) const NO_DRIVER: i32 = -libc::EFAULT;

/// Devices that are open, by name. Held while a device comes or goes, too: the
/// lists of DPDK's buses have no lock of their own.
pub(crate) static OPEN: Mutex<BTreeSet<CString>> = Mutex::new(BTreeSet::new());

/// Makes DPDK probe the device `name`, unless it is open already; 0, or an
/// error number below it.
pub(crate) fn plug(bus: &CStr, name: &CStr, arguments: &CStr) -> i32 {
    let mut open = lock(&OPEN);
    if open.contains(name) {
        return ALREADY;
    }
    // SAFETY: the caller has an `Eal`; the arguments are C strings.
    let status =
        unsafe { sys::rte_eal_hotplug_add(bus.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
    if status == 0 || status == ALREADY {
        open.insert(name.to_owned());
        return 0;
    }
    status
}

pub(super) fn unplug(bus: &CStr, name: &CStr) {
    let mut open = lock(&OPEN);
    // SAFETY: as above. A device that cannot be removed stays, unused.
    unsafe { sys::rte_eal_hotplug_remove(bus.as_ptr(), name.as_ptr()) };
    open.remove(name);
}

/// Whether a device string is the address of a PCI device: `0000:03:00.0` or
/// `03:00.0`.
pub fn is_pci_address(device: &str) -> bool {
    let mut parts = device.split([':', '.']);
    device.contains(':')
        && device.contains('.')
        && parts.all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_hexdigit()))
}

/// The name on its bus of the device at a PCI address.
pub(super) fn pci_name(address: &str) -> String {
    let domain = if address.matches(':').count() == 1 { "0000:" } else { "" };
    format!("{domain}{}", address.to_lowercase())
}
