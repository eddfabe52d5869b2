//! Virtual functions of NICs (PCI Express SR-IOV): what it takes to have those that a
//! configuration wants, done, shown and undone.
//!
//! The kernel makes virtual functions when their number is written to a file in sysfs
//! (Linux, `Documentation/PCI/pci-iov-howto.rst`); `ip link` of iproute2 gives them
//! addresses and says what they may do; `driver_override` and `drivers_probe` bind them
//! to a driver. [`create()`] is the list of these steps, known before the first of them is
//! done; [`carry_out`] does them and takes all of it back when one fails.
//!
//! Where sysfs is and who writes to it are parameters ([`Sysfs`], [`SystemAccess`]), so all of
//! this is tried on a folder.
//!
//! Where there is no such NIC, a [`Switch`] in software stands in for it.

#![forbid(unsafe_code)]

mod error;
mod nic;
mod show;
mod software;
mod step;
mod system;

pub use error::Error;
pub use nic::{Child, Parent, Sysfs};
pub use show::{Row, Traffic, show};
pub use software::{QUEUE, SOCKET_PATH, SOFTWARE, Share, Switch};
pub use step::{Action, Plan, Step, carry_out, create, remove};
pub use system::{Kernel, SystemAccess};

/// The driver that system a virtual function to a process (Linux,
/// `Documentation/driver-api/vfio.rst`).
pub const VFIO: &str = "vfio-pci";

/// What a device string begins with that names a virtual function of the configuration.
pub const PREFIX: &str = "vf:";

/// A NIC, and the virtual functions that it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Name in the configuration.
    pub name: String,
    /// Its network interface (`eth0`), or its PCI address (`0000:01:00.0`).
    pub device: String,
    /// The driver that its virtual functions are bound to.
    pub driver: String,
    /// The virtual functions, by number.
    pub functions: Vec<VirtualFunction>,
}

/// What a virtual function is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualFunction {
    /// Name in the configuration.
    pub name: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Whether it may ask for what concerns others, such as all multicast.
    pub trust: bool,
    /// Whether the NIC drops what it sends from another MAC address.
    pub spoof_check: bool,
}

/// The PCI address of a virtual function that a configuration names.
///
/// # Errors
/// [`Error`]: it was not made yet, or the NIC is not there.
pub fn resolve(sysfs: &Sysfs, nics: &[Nic], name: &str) -> Result<String, Error> {
    let of_name = |nic: &Nic| nic.functions.iter().position(|function| function.name == name);
    let found = nics.iter().find_map(|nic| Some((nic, of_name(nic)?)));
    let Some((nic, number)) = found else { return Err(Error::Unknown(name.to_owned())) };
    let parent = sysfs.parent(&nic.device)?;
    let child = parent.children.get(number);
    let missing = || Error::Missing { name: name.to_owned(), device: nic.device.clone() };
    child.map(|child| child.address.clone()).ok_or_else(missing)
}

/// A MAC address as people write it.
pub fn written(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}
