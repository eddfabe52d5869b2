//! What a configuration names that this machine does not have. A file may be checked on
//! another machine than its node's, so these are no mistakes.

use std::path::Path;

use weft_node_config::Blueprint;
use weft_yaml::locate::Source;
use weft_yaml::mistake::Mistake;

/// Cores and network interfaces that are not there.
pub(super) fn absent(blueprint: &Blueprint, source: &Source<'_>) -> Vec<Mistake> {
    let mut absent = Vec::new();
    let mut note = |path: &str, message: String| {
        absent.push(Mistake::at(source.value_at(path), message));
    };
    let has_core = |core: usize| Path::new(&format!("/sys/devices/system/cpu/cpu{core}")).exists();
    let cores = blueprint.workers.cores.iter().flatten();
    if let Some(core) = cores.copied().find(|core| !has_core(*core)) {
        note("workers.cores", format!("this machine has no core {core}"));
    }
    for port in blueprint.devices() {
        let interface = port.device.split(',').find_map(|part| part.strip_prefix("iface="));
        // Drivers make TAP interfaces themselves.
        let is_made = port.device.starts_with("net_tap");
        if let Some(name) = interface.filter(|_| !is_made)
            && !Path::new("/sys/class/net").join(name).exists()
        {
            let path = format!("ports.{}.device", port.name);
            note(&path, format!("this machine has no network interface {name}"));
        }
    }
    absent
}
