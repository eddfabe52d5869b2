//! NICs with virtual functions, and who names them.

use std::collections::HashMap;

use weft_vf::{Nic, PREFIX, VirtualFunction};

use super::names;
use crate::config::locate::Source;
use crate::config::values::Mac;
use crate::config::yaml::NodeFile;

/// Virtual functions of one NIC at most (PCI Express: the field is 16 bits wide; no NIC
/// has more than 256).
const MOST: usize = 256;

/// The NICs of a file.
pub(super) fn nics(file: &NodeFile, source: &mut Source<'_>) -> Vec<Nic> {
    let mut macs: HashMap<[u8; 6], String> = HashMap::new();
    let mut named: HashMap<&str, &str> = HashMap::new();
    let mut nics = Vec::with_capacity(file.nics.0.len());
    for (name, nic) in &file.nics.0 {
        let at = format!("nics.{name}");
        names::key(name, &at, source);
        for (key, word) in [("device", &nic.device), ("driver", &nic.driver)] {
            if !is_word(word) {
                let path = format!("{at}.{key}");
                let mistake = source.wrong(&path, format!("{word:?} is not the name of a {key}"));
                if key == "device" {
                    mistake.hint("a network interface, or a PCI address such as 0000:01:00.0");
                }
            }
        }
        let functions = &nic.virtual_functions.0;
        if functions.is_empty() || functions.len() > MOST {
            let message = format!("{} virtual functions are not within 1..{MOST}", functions.len());
            source.wrong_key(&format!("{at}.virtualFunctions"), message);
        }
        let mut made = Vec::with_capacity(functions.len());
        for (function, plan) in functions {
            let path = format!("{at}.virtualFunctions.{function}");
            names::key(function, &path, source);
            if let Some(other) = named.insert(function, name) {
                let message = format!("`{other}` has a virtual function `{function}`, too");
                source.wrong_key(&path, message).hint("devices name it `vf:NAME`: rename one");
            }
            let Mac(mac) = plan.mac;
            let path = format!("{path}.mac");
            if mac[0] & 1 == 1 || mac == [0; 6] {
                source.wrong(&path, "this is not the MAC address of one station");
            } else if let Some(other) = macs.insert(mac, function.clone()) {
                source.wrong(&path, format!("`{other}` has this MAC address, too"));
            }
            let (trust, spoof_check) = (plan.trust, plan.spoof_check);
            made.push(VirtualFunction { name: function.clone(), mac, trust, spoof_check });
        }
        let (device, driver) = (nic.device.clone(), nic.driver.clone());
        nics.push(Nic { name: name.clone(), device, driver, functions: made });
    }
    for (name, port) in &file.ports.0 {
        device(&port.device, &format!("ports.{name}.device"), &nics, source);
    }
    nics
}

/// What a device string stands for that names a virtual function; a name that nothing
/// has is noted.
pub(super) fn device<'n>(
    device: &str,
    path: &str,
    nics: &'n [Nic],
    source: &mut Source<'_>,
) -> Option<&'n VirtualFunction> {
    let name = device.strip_prefix(PREFIX)?;
    let functions = || nics.iter().flat_map(|nic| &nic.functions);
    let found = functions().find(|function| function.name == name);
    if found.is_none() {
        let mistake = source.wrong(path, format!("there is no virtual function `{name}`"));
        mistake.suggest(name, functions().map(|function| function.name.as_str()));
    }
    found
}

/// Whether a text can be the name of a device or driver in sysfs.
fn is_word(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "_-.:@".contains(c);
    !text.is_empty() && text.len() < 64 && !text.starts_with('.') && text.chars().all(of_name)
}
