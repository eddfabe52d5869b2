//! Why virtual functions cannot be had.

use std::io;
use std::path::PathBuf;

/// Why virtual functions cannot be had, or shown. One line each: what, where, and what
/// to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The NIC is not there.
    #[error("there is no NIC {device} ({})", list(.known))]
    NoNic {
        /// As the configuration names it.
        device: String,
        /// NICs with virtual functions that are there.
        known: Vec<String>,
    },
    /// The NIC has no virtual functions, or its driver offers none.
    #[error(
        "{device} has no virtual functions: neither does its driver offer any, nor its firmware (sriov_totalvfs)"
    )]
    NoSriov {
        /// The NIC.
        device: String,
    },
    /// The NIC has fewer than are wanted.
    #[error("{device} has {total} virtual functions at most, {wanted} are wanted")]
    TooFew {
        /// The NIC.
        device: String,
        /// So many there can be.
        total: usize,
        /// So many the configuration has.
        wanted: usize,
    },
    /// Some are there already.
    #[error(
        "{device} has {count} virtual functions already, which may be in use; take them away first (weft vf remove)"
    )]
    Present {
        /// The NIC.
        device: String,
        /// So many.
        count: usize,
    },
    /// The NIC is not in the hands of a driver of the kernel.
    #[error(
        "{device} has no network interface, by which its virtual functions get addresses; give it back to its driver in the kernel"
    )]
    NoInterface {
        /// The NIC.
        device: String,
    },
    /// The driver for the virtual functions is not loaded.
    #[error("the driver {driver} is not loaded; load it (modprobe {driver})")]
    NoDriver {
        /// The driver.
        driver: String,
    },
    /// Nothing keeps a virtual function from all memory.
    #[error(
        "{device} has no IOMMU group, without which {driver} does not take it; start the kernel with intel_iommu=on or amd_iommu=on, and see that the firmware has the IOMMU on"
    )]
    NoGroup {
        /// The NIC or virtual function.
        device: String,
        /// The driver.
        driver: String,
    },
    /// Two virtual functions cannot belong to two processes.
    #[error(
        "{first} and {second} are both in IOMMU group {group}, so no two processes can have them; use a slot with access control services (ACS)"
    )]
    SharedGroup {
        /// A virtual function.
        first: String,
        /// Another.
        second: String,
        /// Their group.
        group: u32,
    },
    /// The kernel has made fewer than it was asked for.
    #[error(
        "{device} has {count} virtual functions, though {wanted} were asked for; the kernel's log says why"
    )]
    Made {
        /// The NIC.
        device: String,
        /// So many are there.
        count: usize,
        /// So many were asked for.
        wanted: usize,
    },
    /// A virtual function is with another driver than it should be.
    #[error("{address} is bound to {}, not to {driver}; the kernel's log says why", .bound.as_deref().unwrap_or("no driver"))]
    NotBound {
        /// The virtual function.
        address: String,
        /// The driver it has.
        bound: Option<String>,
        /// The driver it should have.
        driver: String,
    },
    /// No virtual function of the configuration has this name.
    #[error("there is no virtual function {0}")]
    Unknown(String),
    /// A virtual function was not made yet.
    #[error("the virtual function {name} of {device} is not there; make it first (weft vf create)")]
    Missing {
        /// Its name.
        name: String,
        /// The NIC.
        device: String,
    },
    /// The user lacks the permission for this.
    #[error("{0}: permission denied; run it as root")]
    Denied(String),
    /// A file in sysfs.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// `ip link` did not do it.
    #[error("{command}: {said}")]
    Ip {
        /// What was tried.
        command: String,
        /// What it said.
        said: String,
    },
}

fn list(known: &[String]) -> String {
    match known {
        [] => "no NIC here has virtual functions".to_owned(),
        known => format!("with virtual functions there are {}", known.join(", ")),
    }
}
