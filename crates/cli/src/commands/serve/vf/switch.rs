//! `weft vf switch`: software VF, in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_dpdk::{Eal, EalOptions};
use weft_node_config::Blueprint;
use weft_switch::child::program;
use weft_switch::{Child, Host, HostError, Statistics, host};
use weft_vf::{SOFTWARE, Switch};

use crate::commands::serve::function;
use crate::failure::Failure;
use crate::number::counted;
use crate::signals::Termination;
use crate::table::Table;
use crate::{node_file, output};

#[derive(clap::Args)]
pub struct Arguments {
    /// Configuration of the node
    #[arg(value_name = "NODE.yaml")]
    file: PathBuf,
    /// Which of its `nics` with `software`, where there are several
    #[arg(value_name = "NIC")]
    nic: Option<String>,
    /// End with the process that started this one
    #[arg(long)]
    pub once: bool,
}

/// Runs the switch until a signal comes.
///
/// # Errors
/// What keeps it from running.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let blueprint = node_file::load(&arguments.file)?;
    let switch = choose(&arguments.file, &blueprint.switches, arguments.nic.as_deref())?;
    if arguments.once {
        function::end_with_parent()?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let termination = Termination::catch()?;
    let told = stop.clone();
    std::thread::spawn(move || {
        termination.wait();
        told.store(true, Ordering::Release);
    });
    let options = EalOptions {
        memory_megabytes: host::megabytes(switch),
        pci: Vec::new(),
        huge_pages: blueprint.memory.huge_pages,
    };
    let eal = Eal::start(&options)?;
    let owners = owners(&blueprint, switch);
    let host = Host { eal, switch, owners: &owners, stop: &stop };
    let ready = || {
        let functions = counted(switch.functions.len() as u64, "virtual function");
        let core = switch.core.map_or_else(String::new, |core| format!(", core {core}"));
        let (name, sockets) = (&switch.name, switch.sockets.display());
        // The switch runs on when its output is closed.
        let _ = output::line(&format!(
            "{SOFTWARE} {name} is ready: {functions}{core}; sockets in {sockets}"
        ));
    };
    host.run(ready).map_err(|error| {
        let message = format!("{SOFTWARE} {}: {error}", switch.name);
        match error {
            HostError::Core { .. } => Failure::input(message),
            _ => Failure::broken(message),
        }
    })
}

fn choose<'s>(
    file: &Path,
    switches: &'s [Switch],
    name: Option<&str>,
) -> Result<&'s Switch, Failure> {
    let names: Vec<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
    let file = file.display();
    match (name, switches) {
        (_, []) => Err(Failure::input(format!("{file}: no NIC in it has `software`"))),
        (None, [only]) => Ok(only),
        (None, _) => Err(Failure::input(format!("{file}: say which of {}", names.join(", ")))),
        (Some(name), _) => switches.iter().find(|switch| switch.name == name).ok_or_else(|| {
            let known = names.join(", ");
            Failure::input(format!("{file}: no NIC {name} has `software` (there are {known})"))
        }),
    }
}

/// Whom the processes of virtual functions run as.
fn owners(blueprint: &Blueprint, switch: &Switch) -> Vec<Option<u32>> {
    let owner = |name: &str| {
        let device = switch.device(name)?;
        let plans = blueprint.functions.iter().filter_map(|one| one.process.as_ref());
        let mut of_device =
            plans.filter(|plan| plan.vf.as_ref().is_some_and(|vf| vf.devices.contains(&device)));
        of_device.find_map(|plan| plan.user)
    };
    switch.functions.iter().map(|share| owner(&share.function.name)).collect()
}

/// Starts those switches of a node that it starts itself.
///
/// # Errors
/// When one is not there.
pub fn start(file: &Path, switches: &[Switch]) -> Result<Vec<Child>, Failure> {
    let program = program();
    let own = switches.iter().filter(|switch| switch.started);
    own.map(|switch| {
        let name = switch.name.clone();
        let told = move |status| {
            tracing::error!(
                "{SOFTWARE} {name} ended ({status}): nothing passes between its virtual functions; \
                 start the node again"
            );
        };
        Child::start(&program, file, switch, told).map_err(Failure::broken)
    })
    .collect()
}

/// What switches say of their virtual functions, and why they dropped frames.
pub fn tables(switches: &[Switch]) -> String {
    let head = ["switch", "name", "kind", "mac", "process", "rate", "waiting"];
    let head = [&head[..], &["rx packets", "rx bytes", "tx packets", "tx bytes", "dropped"]];
    let mut functions = Table::new(&head.concat(), 5);
    let mut drops = Table::new(&["switch", "name", "reason", "packets"], 3);
    for switch in switches {
        match Statistics::ask(switch) {
            Ok(statistics) => rows(&statistics, &mut functions, &mut drops),
            Err(_) => switch.functions.iter().for_each(|share| {
                let (name, mac) = (&share.function.name, weft_vf::written(share.function.mac));
                let known = [switch.name.as_str(), name, SOFTWARE, &mac, "switch not there"];
                let rate = share.rate.to_string();
                functions.row(
                    known
                        .map(str::to_owned)
                        .into_iter()
                        .chain([rate])
                        .chain(["-"; 6].map(str::to_owned)),
                );
            }),
        }
    }
    match drops.is_empty() {
        true => functions.text(),
        false => format!("{}\n{}", functions.text(), drops.text()),
    }
}

fn rows(statistics: &Statistics, functions: &mut Table, drops: &mut Table) {
    for one in &statistics.functions {
        let dropped: u64 = one.drops.iter().map(|(_, count)| count).sum();
        let attached = if one.attached { "attached" } else { "absent" };
        let words = [&statistics.nic, &one.name, &statistics.kind, &one.mac, attached];
        let counts =
            [one.rate, one.waiting, one.rx_packets, one.rx_bytes, one.tx_packets, one.tx_bytes];
        let counts = counts.into_iter().chain([dropped]).map(|count| count.to_string());
        functions.row(words.map(str::to_owned).into_iter().chain(counts));
        for (reason, count) in one.drops.iter().filter(|(_, count)| *count > 0) {
            let words = [&statistics.nic, &one.name, reason.name()].map(str::to_owned);
            drops.row(words.into_iter().chain([count.to_string()]));
        }
    }
}
