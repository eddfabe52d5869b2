//! Functions at virtual functions of a NIC.

use std::time::Duration;

use crate::blueprint::{Composition, PortPlan, VfPlan};
use crate::check::nics::{self, Nics};
use crate::check::ranges::Ranges;
use crate::locate::Source;
use crate::values::Mac;
use crate::yaml::{self, VfFile};

/// Ports that lead to a switch, so that a set of them is one number.
const PORTS: usize = 64;

/// How a function is reached that has virtual functions of its own.
pub(super) fn plan(
    name: &str,
    function: &yaml::Function,
    composition: Composition,
    (ports, known): (&[PortPlan], &Nics),
    source: &mut Source<'_>,
) -> Option<VfPlan> {
    let at = format!("functions.{name}.vf");
    let file = written(name, function, composition, source)?;
    let ranges = Ranges::of::<VfFile>();
    ranges.check(source, &at, "descriptors", file.descriptors.into());
    ranges.check(source, &at, "timeout", file.timeout.into());
    let mac = mac(file, &at, (ports, known), source)?;
    let devices = ports.iter().take_while(|port| port.path.is_none()).take(PORTS);
    let Some(port) = devices.clone().position(|port| port.name == file.port) else {
        let path = format!("{at}.port");
        let mistake = source.wrong(&path, format!("there is no port `{}`", file.port));
        mistake.suggest(&file.port, devices.map(|port| port.name.as_str()));
        return None;
    };
    let devices = [Some(file.device.clone()), file.transmit.clone()];
    Some(VfPlan {
        port: port as u16,
        devices: devices.into_iter().flatten().collect(),
        mac,
        descriptors: file.descriptors,
        timeout: Duration::from_millis(file.timeout.into()),
    })
}

/// What is written of the way to a function, where its composition has one.
fn written<'a>(
    name: &str,
    function: &'a yaml::Function,
    composition: Composition,
    source: &mut Source<'_>,
) -> Option<&'a VfFile> {
    match (composition, &function.vf) {
        (Composition::Vf, Some(file)) => return Some(file),
        (Composition::Vf, None) => {
            let path = format!("functions.{name}");
            let mistake =
                source.wrong_key(&path, "the configuration does not say where the function is");
            mistake.hint("write `vf: {port: …, device: …}`");
        }
        (_, Some(_)) => {
            let path = format!("functions.{name}.vf");
            let mistake = source.wrong_key(&path, "the function is at no virtual function");
            mistake.hint("write `composition: vf`");
        }
        (_, None) => {}
    }
    None
}

/// Checks the devices at the key `at`, and finds the function's MAC address: as it is written, or
/// that of its virtual function.
fn mac(
    file: &VfFile,
    at: &str,
    (ports, known): (&[PortPlan], &Nics),
    source: &mut Source<'_>,
) -> Option<[u8; 6]> {
    let (own, mut named) = (file.mac.map(|Mac(mac)| mac), None);
    for (key, device) in [("device", Some(&file.device)), ("transmit", file.transmit.as_ref())] {
        let Some(device) = device else { continue };
        let path = format!("{at}.{key}");
        if device.is_empty() || device.chars().any(|c| c.is_whitespace() || c.is_control()) {
            let mistake = source.wrong(&path, format!("{device:?} is not a device string"));
            mistake.hint("such as vf:NAME or a PCI address");
        }
        if let Some(port) = ports.iter().find(|port| port.device == *device) {
            source.wrong(&path, format!("{device} is the port `{}` of the node", port.name));
        }
        let found = nics::device(device, &path, known, source);
        match (key, found) {
            ("device", found) => named = found.map(|function| function.mac),
            (_, Some(other)) if other.spoof_check && Some(other.mac) != own.or(named) => {
                let message =
                    format!("the NIC drops what `{}` sends for another MAC address", other.name);
                source.wrong(&path, message).hint("give it `spoofCheck: false` under `nics`");
            }
            _ => {}
        }
    }
    let Some(mac) = own.or(named) else {
        let mistake = source
            .wrong_key(at, "the configuration does not say which MAC address the function has");
        mistake.hint("write `mac`, or name a virtual function of `nics` as its device");
        return None;
    };
    if mac[0] & 1 == 1 || mac == [0; 6] {
        let path = format!("{at}.mac");
        source.wrong(&path, "this is not the MAC address of one station");
    }
    Some(mac)
}
