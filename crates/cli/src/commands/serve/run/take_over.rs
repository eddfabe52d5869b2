//! `--take-over`: the node runs in another process, and goes on in this one.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::Eal;
use weft_management_api::api::UpgradeSocket;
use weft_management_api::client::Client;
use weft_management_api::{ControlError, Listening, Options};
use weft_node::{Node, Predecessor};
use weft_node_config::Blueprint;
use weft_switch::Child;

use super::super::vf;
use super::standby::{NextOwner, Owning};
use super::state;
use crate::failure::Failure;

/// How long the other process may take to give its socket back, and how often it is tried.
const GIVING_BACK: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(5);

/// A node that is built, or that another process had.
pub struct Taken {
    /// It waits to be started, and so do packets.
    pub node: Node,
    /// For how long they have waited, where another process had it.
    pub waited: Option<Duration>,
    /// Its part in a pair, if it is one of two.
    pub owning: Option<Owning>,
    /// Switches that its ports are at.
    pub switches: Vec<Child>,
}

/// Gives up what this process has of the ports of one that has started it, which go on there.
///
/// # Errors
/// When it cannot be known what that is.
pub fn begin() -> Result<(), Failure> {
    weft_dpdk::close_inherited()
        .map_err(|error| Failure::broken(format!("descriptors of the process: {error}")))
}

/// The node of the process at `options.socket`, which does not have it any more; `next_owner` goes on
/// with its part in a pair.
///
/// # Errors
/// Why the node goes on in the other process.
pub fn take(
    eal: &'static Eal,
    blueprint: Blueprint,
    (options, file): (&Options, &Path),
    (next_owner, secret): (Option<NextOwner>, Option<Vec<u8>>),
) -> Result<Taken, Failure> {
    can_serve(options)?;
    let client = Client::new(&options.socket)?;
    let UpgradeSocket { socket } = client.post("/v1/take-over", String::new())?;
    let stream = UnixStream::connect(&socket)
        .map_err(|error| Failure::input(format!("socket {socket}: {error}")))?;
    let mut predecessor =
        Predecessor::hear(stream).map_err(Failure::input)?.with_secret(secret.unwrap_or_default());
    let switches = Arc::new(Mutex::new(Vec::new()));
    if blueprint.switches.iter().any(|switch| switch.started) {
        let (started, plans) = (switches.clone(), blueprint.switches.clone());
        let file = file.to_owned();
        predecessor = predecessor.when_closed(move || {
            let own = vf::start_switches(&file, &plans).map_err(Failure::reason)?;
            started.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
            Ok(())
        });
    }
    predecessor.accept(&blueprint).map_err(Failure::input)?;
    let mut store = state::open(&blueprint, file, false).inspect_err(|failure| {
        if let Failure::Input(why) = failure {
            predecessor.refuse(why);
        }
    })?;
    if let (Some(next_owner), Some(store)) = (&next_owner, &mut store) {
        next_owner.feed_from(store);
    }
    let (mut next_owner, mut owning) = (next_owner, None);
    let ours = |given: &[u8], since| {
        owning = next_owner.take().map(|next_owner| next_owner.go_on(given, since));
    };
    let taken = predecessor.take(eal, blueprint, store, ours);
    let (mut node, waited) = taken.map_err(Failure::input)?;
    let owning = owning.transpose()?;
    if let Some(owning) = &owning {
        owning.hold(&mut node);
    }
    let switches = std::mem::take(&mut *switches.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Taken { node, waited: Some(waited), owning, switches })
}

/// Whether addresses can be used but for the process that has the node, which may have them.
fn can_serve(options: &Options) -> Result<(), Failure> {
    let Some(address) = options.metrics else { return Ok(()) };
    match TcpListener::bind(address) {
        Err(reason) if reason.kind() != ErrorKind::AddrInUse => {
            Err(ControlError::Metrics { address, reason }.into())
        }
        _ => Ok(()),
    }
}

/// Takes the places of the node, which the other process gives back now.
///
/// # Errors
/// When it does not.
pub fn claim(options: &Options) -> Result<Listening, Failure> {
    let until = Instant::now() + GIVING_BACK;
    loop {
        match Listening::claim(options) {
            Err(_) if Instant::now() < until => thread::sleep(AGAIN),
            claimed => return Ok(claimed?),
        }
    }
}
