//! `weft function`: one function of a node, in a process of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use weft_dpdk::{Eal, EalOptions};
use weft_process::host::{Host, HostError};

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
    /// End with the node, instead of waiting for the next one at the socket
    #[arg(long)]
    once: bool,
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
    if arguments.once {
        end_with_parent()?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut termination = Termination::catch()?;
    let told = stop.clone();
    std::thread::spawn(move || {
        termination.wait();
        told.store(true, Ordering::Release);
    });
    let options = EalOptions {
        memory_megabytes: MEGABYTES,
        pci: Vec::new(),
        huge_pages: arguments.huge_pages,
    };
    let eal = Eal::start(&options)?;
    let host = Host { eal, kind, ring: &arguments.attach, once: arguments.once, stop: &stop };
    host.run().map_err(|error| match error {
        HostError::Refused { .. } | HostError::Config { .. } => Failure::input(error.to_string()),
        _ => Failure::broken(error.to_string()),
    })
}

/// The kernel ends this process as soon as the one that started it is gone.
fn end_with_parent() -> Result<(), Failure> {
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::broken(format!("cannot follow the node: {error}")))?;
    match getppid() == parent {
        true => Ok(()),
        false => Err(Failure::broken("the node is gone already")),
    }
}
