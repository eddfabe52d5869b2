//! What sysfs says of NICs and their virtual functions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// Where sysfs is.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

/// A NIC: the physical function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// PCI address.
    pub address: String,
    /// Its network interface, while a driver of the kernel has it.
    pub interface: Option<String>,
    /// Virtual functions that there can be.
    pub total: usize,
    /// IOMMU group.
    pub group: Option<u32>,
    /// Whether the kernel looks for drivers of new virtual functions by itself; none
    /// where it cannot be told not to.
    pub autoprobe: Option<bool>,
    /// Distance from its routing identifier to that of its first virtual function, and
    /// from each of those to the next (PCI Express, SR-IOV capability).
    pub offset_and_stride: Option<(u32, u32)>,
    /// Its virtual functions, by number.
    pub children: Vec<Child>,
}

/// A virtual function that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// PCI address.
    pub address: String,
    /// The driver that has it.
    pub driver: Option<String>,
    /// IOMMU group.
    pub group: Option<u32>,
}

impl Default for Sysfs {
    fn default() -> Self {
        Sysfs::at("/sys")
    }
}

impl Sysfs {
    /// At this folder.
    pub fn at(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs { root: root.into() }
    }

    /// The folder of a PCI device.
    pub fn device(&self, address: &str) -> PathBuf {
        self.root.join("bus/pci/devices").join(address)
    }

    /// The file that has the kernel look for a driver for a PCI device.
    pub fn drivers_probe(&self) -> PathBuf {
        self.root.join("bus/pci/drivers_probe")
    }

    /// Whether a driver is loaded.
    pub fn has_driver(&self, driver: &str) -> bool {
        self.root.join("bus/pci/drivers").join(driver).is_dir()
    }

    /// PCI addresses of the NICs that can have virtual functions, in order.
    pub fn capable(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("bus/pci/devices")).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut addresses: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        addresses.retain(|address| self.device(address).join("sriov_totalvfs").exists());
        addresses.sort_unstable();
        addresses
    }

    /// The NIC of this network interface or PCI address.
    ///
    /// # Errors
    /// [`Error::NoNic`], [`Error::NoSriov`], or what is wrong with a file.
    pub fn parent(&self, device: &str) -> Result<Parent, Error> {
        let is_word = !device.is_empty() && !device.contains('/') && !device.starts_with('.');
        let of_interface = self.root.join("class/net").join(device).join("device");
        let address = match is_word {
            true if self.device(device).is_dir() => device.to_owned(),
            true => target(&of_interface).unwrap_or_default(),
            false => String::new(),
        };
        if address.is_empty() {
            let known = self.capable().iter().map(|address| self.called(address)).collect();
            return Err(Error::NoNic { device: device.to_owned(), known });
        }
        let folder = self.device(&address);
        if !folder.join("sriov_totalvfs").exists() {
            return Err(Error::NoSriov { device: device.to_owned() });
        }
        let total = number(&folder.join("sriov_totalvfs"))?;
        let count = number(&folder.join("sriov_numvfs"))?;
        let autoprobe = folder.join("sriov_drivers_autoprobe");
        let optional = |name: &str| number(&folder.join(name)).ok();
        Ok(Parent {
            interface: self.interface(&address),
            total: total as usize,
            group: self.group(&address),
            autoprobe: number(&autoprobe).ok().map(|number| number != 0),
            offset_and_stride: optional("sriov_offset").zip(optional("sriov_stride")),
            children: (0..count).map_while(|number| self.child(&folder, number)).collect(),
            address,
        })
    }

    fn child(&self, parent: &Path, number: u32) -> Option<Child> {
        let address = target(&parent.join(format!("virtfn{number}")))?;
        let driver = target(&self.device(&address).join("driver"));
        let group = self.group(&address);
        Some(Child { address, driver, group })
    }

    fn interface(&self, address: &str) -> Option<String> {
        let entries = fs::read_dir(self.device(address).join("net")).ok()?.flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).min()
    }

    fn group(&self, address: &str) -> Option<u32> {
        target(&self.device(address).join("iommu_group"))?.parse().ok()
    }

    /// A NIC as people call it.
    fn called(&self, address: &str) -> String {
        match self.interface(address) {
            Some(interface) => format!("{interface} ({address})"),
            None => address.to_owned(),
        }
    }
}

impl Parent {
    /// PCI addresses that virtual functions will have once there are `count` of them;
    /// those that there are already have theirs.
    pub fn addresses(&self, count: usize) -> Option<Vec<String>> {
        let (offset, stride) = self.offset_and_stride?;
        let (domain, rest) = self.address.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let part = |text: &str| u32::from_str_radix(text, 16).ok();
        let own = part(bus)? << 8 | part(device)? << 3 | part(function)?;
        let address = |number: usize| {
            let id = own + offset + stride * number as u32;
            format!("{domain}:{:02x}:{:02x}.{:x}", id >> 8, id >> 3 & 0x1f, id & 7)
        };
        Some((0..count).map(address).collect())
    }
}

/// The last part of what a symbolic link leads to.
fn target(link: &Path) -> Option<String> {
    fs::read_link(link).ok()?.file_name()?.to_str().map(str::to_owned)
}

fn number(path: &Path) -> Result<u32, Error> {
    let read = fs::read_to_string(path).and_then(|text| {
        let text = text.trim();
        text.parse().map_err(|_| io::Error::other(format!("{text:?} is not a number")))
    });
    read.map_err(|error| Error::File { path: path.to_owned(), error })
}
