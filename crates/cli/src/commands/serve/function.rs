//! `weft function`: one function of a node, in a process of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use weft_dpdk::{Eal, EalOptions, is_pci_address};
use weft_offload::process::host::{Host, HostError};

use crate::failure::Failure;
use crate::signals::Termination;

/// Megabytes for packet buffers and queues of one function.
const MEGABYTES: u32 = 64;

#[derive(clap::Args)]
pub struct Arguments {
    /// Which function, as the node's configuration names it under `function`
    #[arg(value_name = "NAME")]
    name: String,
    /// The ring of the node, as the configuration names it under `socket`
    #[arg(long, value_name = "SOCKET")]
    attach: PathBuf,
    /// What it receives at, for a node that has it behind a NIC: a PCI address, or another
    /// DPDK device string; given twice, it sends at the second
    #[arg(long = "device", value_name = "DEVICE", num_args = 1)]
    devices: Vec<String>,
    /// End with the node, instead of waiting for the next one at the socket
    #[arg(long)]
    pub once: bool,
    /// Use huge pages when there are enough of them
    #[arg(long)]
    huge_pages: bool,
}

/// Hosts the function until the node goes, or a signal comes.
///
/// # Errors
/// What keeps it from attaching.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Some(kind) = weft_functions::kind(&arguments.name) else {
        let known: Vec<_> = weft_functions::KINDS.iter().map(|kind| kind.name).collect();
        let message =
            format!("there is no function {} (there are {})", arguments.name, known.join(", "));
        return Err(Failure::input(message));
    };
    if arguments.devices.len() > 2 {
        return Err(Failure::input("a function has two devices at most"));
    }
    if arguments.once {
        end_with_parent()?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let termination = Termination::catch()?;
    let told = stop.clone();
    std::thread::spawn(move || {
        termination.wait();
        told.store(true, Ordering::Release);
    });
    let options = EalOptions {
        memory_megabytes: MEGABYTES,
        pci: arguments.devices.iter().filter(|one| is_pci_address(one)).cloned().collect(),
        huge_pages: arguments.huge_pages,
    };
    let eal = Eal::start(&options)?;
    let devices = &arguments.devices;
    let (ring, once) = (&arguments.attach, arguments.once);
    let host = Host { eal, kind, ring, devices, once, stop: &stop };
    host.run().map_err(|error| match error {
        HostError::Refused { .. } | HostError::Config { .. } | HostError::Devices(_) => {
            Failure::input(error.to_string())
        }
        _ => Failure::broken(error.to_string()),
    })
}

/// The kernel ends this process as soon as the one that started it is gone.
///
/// # Errors
/// When that is so already.
pub fn end_with_parent() -> Result<(), Failure> {
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::broken(format!("cannot follow the node: {error}")))?;
    match getppid() == parent {
        true => Ok(()),
        false => Err(Failure::broken("the node is gone already")),
    }
}
