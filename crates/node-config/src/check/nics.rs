//! NICs with virtual functions, and who names them.

use std::collections::HashMap;
use std::path::PathBuf;

use weft_vf::{Nic, PREFIX, SOCKET_PATH, Share, Switch, VirtualFunction};

use super::{names, within};
use crate::blueprint::{FunctionPlan, Polling, PortPlan};
use crate::locate::Source;
use crate::values::Mac;
use crate::yaml::{NicFile, NodeFile, SoftwareFile, StartedBy};

/// Virtual functions of one NIC at most (PCI Express: the field is 16 bits wide; no NIC
/// has more than 256).
const MOST: usize = 256;

/// Virtual functions of a switch in software at most: DPDK has room for 32 ports (Debian's
/// `RTE_MAX_ETHPORTS`).
const MOST_IN_SOFTWARE: usize = 32;

/// Frames per second of a virtual function at most.
const MOST_FRAMES: u64 = 100_000_000;

/// NICs, and what stands in for some.
#[derive(Debug, Default)]
pub(super) struct Nics {
    /// NICs with virtual functions.
    pub hardware: Vec<Nic>,
    /// Switches in software.
    pub switches: Vec<Switch>,
}

impl Nics {
    fn functions(&self) -> impl Iterator<Item = &VirtualFunction> {
        let shares = self.switches.iter().flat_map(|switch| &switch.functions);
        let hardware = self.hardware.iter().flat_map(|nic| &nic.functions);
        hardware.chain(shares.map(|share| &share.function))
    }

    /// Whether a device string names a virtual function of a switch in software.
    pub fn is_software(&self, device: &str) -> bool {
        let name = device.strip_prefix(PREFIX);
        name.is_some_and(|name| self.switches.iter().any(|switch| switch.device(name).is_some()))
    }

    /// Puts devices where ports and functions name virtual functions of a switch in
    /// software. Those of NICs are known when they were made.
    pub fn put_devices(&self, ports: &mut [PortPlan], functions: &mut [FunctionPlan]) {
        let plans = functions.iter_mut().filter_map(|one| one.process.as_mut()?.vf.as_mut());
        let devices = plans.flat_map(|plan| &mut plan.devices);
        for device in devices.chain(ports.iter_mut().map(|port| &mut port.device)) {
            let Some(name) = device.strip_prefix(PREFIX) else { continue };
            if let Some(found) = self.switches.iter().find_map(|switch| switch.device(name)) {
                *device = found;
            }
        }
    }
}

/// The NICs of a file.
pub(super) fn nics(file: &NodeFile, source: &mut Source<'_>) -> Nics {
    let (mut macs, mut named) = (HashMap::new(), HashMap::new());
    let mut nics = Nics::default();
    for (name, nic) in &file.nics.0 {
        let at = format!("nics.{name}");
        names::key(name, &at, source);
        let most = if nic.software.is_some() { MOST_IN_SOFTWARE } else { MOST };
        let functions = &nic.virtual_functions.0;
        if functions.is_empty() || functions.len() > most {
            let message = format!("{} virtual functions are not within 1..{most}", functions.len());
            source.wrong_key(&format!("{at}.virtualFunctions"), message);
        }
        let made = virtual_functions((name, nic), (&mut named, &mut macs), source);
        match (&nic.software, &nic.device) {
            (Some(software), None) => {
                let first = nics.switches.iter().map(|switch| switch.functions.len()).sum();
                let functions = shares(&at, nic, made, source);
                let switch = switch(name, software, (first, functions), source);
                nics.switches.push(switch);
            }
            (None, Some(device)) => {
                for (key, word) in [("device", device), ("driver", &nic.driver)] {
                    word_of_sysfs(&format!("{at}.{key}"), key, word, source);
                }
                no_shares(&at, nic, source);
                let (device, driver) = (device.clone(), nic.driver.clone());
                let name = name.clone();
                nics.hardware.push(Nic { name, device, driver, functions: made });
            }
            (Some(_), Some(_)) => {
                let mistake = source.wrong_key(&at, "it is a NIC and there is none");
                mistake.hint("leave out `device` or `software`");
            }
            (None, None) => {
                let mistake =
                    source.wrong_key(&at, "the configuration does not say which NIC it is");
                mistake.hint("write `device`, or `software` where there is none");
            }
        }
    }
    for (name, port) in &file.ports.0 {
        device(&port.device, &format!("ports.{name}.device"), &nics, source);
    }
    nics
}

/// The virtual functions of one NIC; names and addresses of all are noted.
fn virtual_functions<'f>(
    (name, nic): (&'f str, &'f NicFile),
    (named, macs): (&mut HashMap<&'f str, &'f str>, &mut HashMap<[u8; 6], &'f str>),
    source: &mut Source<'_>,
) -> Vec<VirtualFunction> {
    let mut made = Vec::with_capacity(nic.virtual_functions.0.len());
    for (function, plan) in &nic.virtual_functions.0 {
        let path = format!("nics.{name}.virtualFunctions.{function}");
        names::key(function, &path, source);
        if let Some(other) = named.insert(function, name) {
            let message = format!("`{other}` has a virtual function `{function}`, too");
            source.wrong_key(&path, message).hint("devices name it `vf:NAME`: rename one");
        }
        let Mac(mac) = plan.mac;
        let path = format!("{path}.mac");
        if mac[0] & 1 == 1 || mac == [0; 6] {
            source.wrong(&path, "this is not the MAC address of one station");
        } else if let Some(other) = macs.insert(mac, function) {
            source.wrong(&path, format!("`{other}` has this MAC address, too"));
        }
        let (trust, spoof_check) = (plan.trust, plan.spoof_check);
        made.push(VirtualFunction { name: function.clone(), mac, trust, spoof_check });
    }
    made
}

/// A switch in software.
fn switch(
    name: &str,
    file: &SoftwareFile,
    (first, functions): (usize, Vec<Share>),
    source: &mut Source<'_>,
) -> Switch {
    let at = format!("nics.{name}.software");
    let sockets = &file.sockets;
    let path = format!("{at}.sockets");
    // Device strings are parted by commas.
    if !sockets.starts_with('/') || sockets.contains([',', '\0']) || sockets.contains(' ') {
        source.wrong(&path, format!("{sockets:?} is not the absolute path of a folder"));
    }
    if let Some(core) = file.core {
        within(source, &format!("{at}.core"), core.into(), 0, 1023);
    }
    let switch = Switch {
        name: name.to_owned(),
        sockets: PathBuf::from(sockets),
        core: file.core.map(|core| core as usize),
        sleeps: file.polling == Polling::Adaptive,
        started: file.start == StartedBy::Node,
        first,
        functions,
    };
    let named = switch.functions.iter().map(|share| switch.socket(&share.function.name));
    let longest = named.chain([switch.statistics()]).map(|path| path.as_os_str().len()).max();
    if let Some(longest) = longest.filter(|longest| *longest > SOCKET_PATH) {
        let message = format!("{longest} octets are too many for the path of a socket in it");
        source.wrong(&path, message).hint(format!("at most {SOCKET_PATH}"));
    }
    switch
}

/// The shares of virtual functions of a switch in software: all have one.
fn shares(
    at: &str,
    nic: &NicFile,
    made: Vec<VirtualFunction>,
    source: &mut Source<'_>,
) -> Vec<Share> {
    let mut shares = Vec::with_capacity(made.len());
    for (function, (name, plan)) in made.into_iter().zip(&nic.virtual_functions.0) {
        let path = format!("{at}.virtualFunctions.{name}");
        match plan.rate {
            Some(rate) => within(source, &format!("{path}.rate"), rate, 1, MOST_FRAMES),
            None => {
                let mistake = source.wrong_key(&path, "it has no share of the switch");
                mistake.hint("write `rate`, in frames per second");
            }
        }
        shares.push(Share { function, rate: plan.rate.unwrap_or(1) });
    }
    shares
}

/// The switch of a NIC knows no shares.
fn no_shares(at: &str, nic: &NicFile, source: &mut Source<'_>) {
    for (name, plan) in &nic.virtual_functions.0 {
        if plan.rate.is_some() {
            let path = format!("{at}.virtualFunctions.{name}.rate");
            let mistake = source.wrong(&path, "the switch of a NIC gives no shares in frames");
            mistake.hint("leave it out; it is for `software`");
        }
    }
}

fn word_of_sysfs(path: &str, key: &str, word: &str, source: &mut Source<'_>) {
    if !is_word(word) {
        let mistake = source.wrong(path, format!("{word:?} is not the name of a {key}"));
        if key == "device" {
            mistake.hint("a network interface, or a PCI address such as 0000:01:00.0");
        }
    }
}

/// What a device string stands for that names a virtual function; a name that nothing
/// has is noted.
pub(super) fn device<'n>(
    device: &str,
    path: &str,
    nics: &'n Nics,
    source: &mut Source<'_>,
) -> Option<&'n VirtualFunction> {
    let name = device.strip_prefix(PREFIX)?;
    let found = nics.functions().find(|function| function.name == name);
    if found.is_none() {
        let mistake = source.wrong(path, format!("there is no virtual function `{name}`"));
        mistake.suggest(name, nics.functions().map(|function| function.name.as_str()));
    }
    found
}

/// Whether a text can be the name of a device or driver in sysfs.
fn is_word(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "_-.:@".contains(c);
    !text.is_empty() && text.len() < 64 && !text.starts_with('.') && text.chars().all(of_name)
}
