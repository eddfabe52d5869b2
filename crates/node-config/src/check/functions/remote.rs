//! Functions at other nodes.

use std::collections::HashMap;
use std::time::Duration;

use weft_dataplane::offload::Policy;
use weft_offload::vf::fabric;

use super::Functions;
use crate::blueprint::{Composition, PortPlan, RemotePlan};
use crate::check::paths;
use crate::check::ranges::Ranges;
use crate::locate::Source;
use crate::yaml::{self, OnFailure, RemoteFile};

/// Where a function is that is at another node. One that is written for a function at hand is
/// where it may go while the node runs.
pub(super) fn plan(
    name: &str,
    function: &yaml::Function,
    composition: Composition,
    ports: &[PortPlan],
    source: &mut Source<'_>,
) -> Option<RemotePlan> {
    let at = format!("functions.{name}.remote");
    let file = written(name, function, composition, source)?;
    let downlink = file.downlink_path.unwrap_or(file.path);
    let ranges = Ranges::of::<RemoteFile>();
    for (key, value) in [
        ("path", file.path),
        ("downlinkPath", downlink),
        ("index", file.index.into()),
        ("metadata", file.metadata.into()),
        ("hold", file.hold),
        ("timeout", file.timeout),
        ("probe", file.probe),
    ] {
        ranges.check(source, &at, key, value.into());
    }
    let back = file.return_index.unwrap_or(file.index.saturating_sub(1));
    if back >= file.index {
        let message = format!("{back} is not below the index {}", file.index);
        source.wrong(&format!("{at}.returnIndex"), message).hint("functions count down");
    }
    let devices = ports.iter().take_while(|port| port.path.is_none()).count();
    let hop = paths::hop(&file.port, &file.to, &at, &ports[..devices], source)?;
    let from = (file.from.as_deref(), file.from_port.as_deref());
    let peer = paths::peer(from, &hop, &at, &ports[..devices], source)?;
    let milliseconds = |number: u32| Duration::from_millis(number.into());
    Some(RemotePlan {
        paths: [file.path, downlink],
        index: file.index,
        back,
        hop,
        peer,
        fixed: file.metadata == 1,
        policy: match file.on_failure {
            OnFailure::Drop => Policy::Drop,
            OnFailure::Bypass => Policy::Bypass,
            OnFailure::Hold => Policy::Hold(file.hold),
        },
        timeout: milliseconds(file.timeout),
        probe: milliseconds(file.probe),
    })
}

/// What is written of the other node, where the function is there or may go there.
fn written<'a>(
    name: &str,
    function: &'a yaml::Function,
    composition: Composition,
    source: &mut Source<'_>,
) -> Option<&'a RemoteFile> {
    match (composition, &function.remote) {
        (Composition::Remote, Some(file)) => return Some(file),
        (Composition::Remote, None) => {
            let path = format!("functions.{name}");
            let mistake =
                source.wrong_key(&path, "the configuration does not say where the function is");
            mistake.hint("write `remote: {path: …, port: …, to: …}`");
        }
        (at_hand, Some(file)) if at_hand.is_at_hand() && function.process.is_none() => {
            return Some(file);
        }
        (_, Some(_)) => {
            let path = format!("functions.{name}.remote");
            let mistake = source.wrong_key(&path, "the function has a process to go to");
            mistake.hint("a process or another node, not both");
        }
        (_, None) => {}
    }
    None
}

/// What comes back on a path is of one function, and is not for a path through the node.
pub(in crate::check) fn once(functions: &Functions, ports: &[PortPlan], source: &mut Source<'_>) {
    let of_paths = ports.iter().filter_map(|port| {
        let plan = port.path.as_ref()?;
        Some(((plan.id, plan.index), port.name.clone()))
    });
    let mut taken: HashMap<(u32, u8), String> = of_paths.collect();
    for (number, made) in functions.made.iter().enumerate() {
        let Some(made) = made.as_ref().filter(|made| made.plan.vf().is_some()) else { continue };
        let path = fabric::PATHS + number as u32 + 1;
        taken.insert((path, fabric::INDICES[1]), made.plan.name.clone());
    }
    for made in functions.made.iter().flatten() {
        let (name, Some(remote)) = (&made.plan.name, &made.plan.remote) else { continue };
        for path in remote.paths {
            let other = taken.insert((path, remote.back), name.clone());
            if let Some(other) = other.filter(|other| other != name) {
                let message =
                    format!("what comes with path {path}, index {} is for `{other}`", remote.back);
                source.wrong_key(&format!("functions.{name}.remote"), message);
            }
        }
    }
}
