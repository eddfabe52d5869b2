//! Devices that are one port together, by the device string `net_bonding0,mode=4,dev(…),dev(…)`.
//! The driver of DPDK takes devices that there are, so they are made first.

use std::ffi::{CStr, CString};
use std::io;

use crate::error::invalid;
use crate::port::bus::{ALREADY, PCI, VIRTUAL, is_pci_address, pci_name, plug, unplug};
use crate::port::driver::DeviceString;

const BONDING: &str = "net_bonding";
/// The driver that has devices by strings of its own.
const FAILSAFE: &str = "net_failsafe";

/// Devices below another one; taken off their buses when dropped.
#[derive(Debug, Default)]
pub(super) struct Members(Vec<(&'static CStr, CString)>);

impl Members {
    /// Makes those that a device string names, and returns it as the driver takes it; of any other
    /// device there are none.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn of(device: &str) -> io::Result<(String, Members)> {
        let mut members = Members::default();
        if !is_bonding(device) {
            return Ok((device.to_owned(), members));
        }
        let mut words = Vec::new();
        for word in words_of(device) {
            match word.strip_prefix("dev(").and_then(|word| word.strip_suffix(')')) {
                Some(member) => words.push(format!("slave={}", members.add(member)?)),
                None => words.push(word.to_owned()),
            }
        }
        if members.0.is_empty() {
            let example = "net_bonding0,mode=4,dev(0000:03:00.0),dev(0000:03:00.1)";
            return Err(invalid(format!("a bonding device has members: {example}")));
        }
        Ok((words.join(","), members))
    }

    /// Makes one; its name.
    fn add(&mut self, member: &str) -> io::Result<String> {
        let (bus, name, arguments) = match is_pci_address(member) {
            true => (PCI, pci_name(member), String::new()),
            false => {
                let DeviceString { name, arguments, .. } = DeviceString::parse(member)?;
                (VIRTUAL, name, arguments)
            }
        };
        let c_name = CString::new(name.as_str())?;
        match plug(bus, &c_name, &CString::new(arguments)?) {
            0 => self.0.push((bus, c_name)),
            ALREADY => return Err(invalid(format!("its member {name} is open already"))),
            status => {
                let reason = io::Error::from_raw_os_error(-status);
                return Err(invalid(format!("its member {member} is not there ({reason})")));
            }
        }
        Ok(name)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(bus, name)| unplug(bus, &name));
    }
}

/// Whether a device string is that of a bonding device.
pub(super) fn is_bonding(device: &str) -> bool {
    device.starts_with(BONDING)
}

/// PCI addresses in a device string: its own, or those of the devices below it.
pub fn pci_addresses(device: &str) -> Vec<&str> {
    if is_pci_address(device) {
        return vec![device];
    }
    if !is_bonding(device) && !device.starts_with(FAILSAFE) {
        return Vec::new();
    }
    let members = words_of(device).into_iter().filter_map(|word| word.strip_prefix("dev("));
    let names = members.filter_map(|member| member.split([',', ')']).next());
    names.filter(|name| is_pci_address(name)).collect()
}

/// What stands between the commas of a device string, but for those in parentheses.
fn words_of(device: &str) -> Vec<&str> {
    let (mut words, mut depth, mut first) = (Vec::new(), 0_usize, 0);
    for (at, octet) in device.bytes().enumerate() {
        match octet {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                words.push(&device[first..at]);
                first = at + 1;
            }
            _ => {}
        }
    }
    words.push(&device[first..]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_below_a_device_are_found() {
        let nics = "net_bonding0,mode=4,dev(0000:03:00.0),dev(0000:03:00.1)";
        assert_eq!(pci_addresses(nics), ["0000:03:00.0", "0000:03:00.1"]);
        let mixed = "net_failsafe0,dev(03:00.0,arg=1),dev(net_tap0,iface=a),mac=02:00:00:00:00:01";
        assert_eq!(pci_addresses(mixed), ["03:00.0"]);
        assert_eq!(pci_addresses("0000:03:00.0"), ["0000:03:00.0"]);
        for none in ["net_tap0,iface=a", "net_bonding0", "net_failsafe0,dev(", "", "dev(03:00.0)"] {
            assert!(pci_addresses(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn words_are_whole_whatever_stands_there() {
        assert_eq!(words_of("a,dev(b,c),d"), ["a", "dev(b,c)", "d"]);
        assert_eq!(words_of("dev((a,b),c),)d,e"), ["dev((a,b),c)", ")d", "e"]);
        assert_eq!(words_of(""), [""]);
    }

    #[test]
    fn a_bonding_device_without_members_is_refused() {
        for device in ["net_bonding0", "net_bonding0,mode=4,slave=net_tap0"] {
            assert!(Members::of(device).is_err(), "{device}");
        }
    }
}
