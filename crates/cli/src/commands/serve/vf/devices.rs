//! Virtual functions as devices of a node: `vf:NAME` becomes a PCI address.

use weft_node_config::Blueprint;
use weft_vf::{PREFIX, Sysfs};

use crate::failure::Failure;

/// Puts PCI addresses where a blueprint names virtual functions.
///
/// # Errors
/// When one is not there.
pub fn resolve(blueprint: &mut Blueprint) -> Result<(), Failure> {
    let Blueprint { nics, ports, functions, .. } = blueprint;
    let sysfs = Sysfs::default();
    for function in functions {
        let Some(vf) = function.process.as_mut().and_then(|plan| plan.vf.as_mut()) else {
            continue;
        };
        for device in &mut vf.devices {
            if let Some(name) = device.strip_prefix(PREFIX) {
                let address = weft_vf::resolve(&sysfs, nics, name).map_err(|error| {
                    Failure::input(format!("function {}: {error}", function.name))
                });
                *device = address?;
            }
        }
    }
    for port in ports {
        if let Some(name) = port.device.strip_prefix(PREFIX) {
            let address = weft_vf::resolve(&sysfs, nics, name);
            port.device =
                address.map_err(|error| Failure::input(format!("port {}: {error}", port.name)))?;
        }
    }
    Ok(())
}
