//! What there is of virtual functions, and what they have carried.

use serde_json::Value;

use crate::nic::{Parent, Sysfs};
use crate::system::SystemAccess;
use crate::{Error, Nic};

/// A virtual function that is there, or should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Network interface, or PCI address, of the NIC.
    pub nic: String,
    /// Number of the virtual function.
    pub number: usize,
    /// Name in the configuration.
    pub name: Option<String>,
    /// PCI address; none while it is not there.
    pub address: Option<String>,
    /// The driver that has it.
    pub driver: Option<String>,
    /// IOMMU group.
    pub group: Option<u32>,
    /// MAC address that the NIC switches to it.
    pub mac: Option<String>,
    /// Whether it may ask for what concerns others.
    pub trust: Option<bool>,
    /// Whether it may send from its own MAC address only.
    pub spoof_check: Option<bool>,
    /// What the NIC has counted; not every driver does.
    pub traffic: Option<Traffic>,
}

/// Packets and bytes of a virtual function, as the NIC counts them. What a full receive
/// queue had no room for is not always among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets to it.
    pub rx_packets: u64,
    /// Bytes to it.
    pub rx_bytes: u64,
    /// Packets from it.
    pub tx_packets: u64,
    /// Bytes from it.
    pub tx_bytes: u64,
}

/// The virtual functions of these NICs, with those that are wanted and not there; of all
/// NICs of the machine where none is given.
///
/// # Errors
/// [`Error`]: a NIC is not there.
pub fn show(sysfs: &Sysfs, nics: &[Nic], system: &mut dyn SystemAccess) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    if nics.is_empty() {
        for address in sysfs.capable() {
            of_parent(&sysfs.parent(&address)?, None, system, &mut rows);
        }
    }
    for nic in nics {
        of_parent(&sysfs.parent(&nic.device)?, Some(nic), system, &mut rows);
    }
    Ok(rows)
}

fn of_parent(
    parent: &Parent,
    nic: Option<&Nic>,
    system: &mut dyn SystemAccess,
    rows: &mut Vec<Row>,
) {
    let known = parent.interface.as_deref().and_then(|interface| told(interface, system));
    let wanted = nic.map_or(0, |nic| nic.functions.len());
    for number in 0..parent.children.len().max(wanted) {
        let child = parent.children.get(number);
        let name = nic.and_then(|nic| nic.functions.get(number)).map(|one| one.name.clone());
        let mut row = Row {
            nic: parent.interface.clone().unwrap_or_else(|| parent.address.clone()),
            number,
            name,
            ..Row::default()
        };
        if let Some(child) = child {
            row.address = Some(child.address.clone());
            row.driver = child.driver.clone();
            row.group = child.group;
            let own = |one: &&Value| one["vf"].as_u64() == Some(number as u64);
            if let Some(one) = known.as_ref().and_then(|known| known.iter().find(own)) {
                row.mac = one["address"].as_str().map(str::to_owned);
                row.trust = one["trust"].as_bool();
                row.spoof_check = one["spoofchk"].as_bool();
                row.traffic = traffic(&one["stats"]);
            }
        }
        rows.push(row);
    }
}

/// What `ip` says of the virtual functions of an interface. What it does not tell is
/// shown what sysfs says.
fn told(interface: &str, system: &mut dyn SystemAccess) -> Option<Vec<Value>> {
    let words = ["-s", "-j", "link", "show", "dev", interface].map(str::to_owned);
    let text = system.ip(&words).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    value.get(0)?.get("vfinfo_list")?.as_array().cloned()
}

/// Keys differ between versions of iproute2.
fn traffic(stats: &Value) -> Option<Traffic> {
    let number = |way: &str, what: &str| {
        let way_stats = &stats[way];
        let value = way_stats.get(what).or_else(|| way_stats.get(format!("{way}_{what}")));
        value.and_then(Value::as_u64)
    };
    Some(Traffic {
        rx_packets: number("rx", "packets")?,
        rx_bytes: number("rx", "bytes")?,
        tx_packets: number("tx", "packets")?,
        tx_bytes: number("tx", "bytes")?,
    })
}
