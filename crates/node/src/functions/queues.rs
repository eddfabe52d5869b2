//! How functions in processes begin: their rings, and who looks after them.

use std::io;
use std::path::{Path, PathBuf};

use weft_compose::Instance;
use weft_dataplane::clock::Clock;
use weft_dataplane::offload::RemoteQueue;
use weft_dataplane::service_path::VfPath;
use weft_dpdk::Eal;
use weft_node_config::{Blueprint, FunctionPlan, Polling, ProcessPlan, VfPlan};
use weft_offload::process::supervisor::{Plan, Start, WorkerEnd};
use weft_offload::process::{Supervisor, own_folder};
use weft_offload::vf::fabric::{Ends, Fabric};
use weft_wire::MacAddress;

use crate::error::BuildError;
use crate::subscribers::Room;

/// Places of isolated functions, to be taken by their workers.
#[derive(Default)]
pub struct FunctionQueues {
    places: Vec<(String, Vec<Option<QueuedInstance>>)>,
    /// What takes in packets that come back through a NIC, with the worker it is of.
    vf_paths: Vec<(usize, VfPath)>,
}

/// The way of packets to a function that is elsewhere, and what stands in its place.
pub type QueuedInstance = (RemoteQueue, Box<dyn Instance>);

impl FunctionQueues {
    /// The place of the function at one worker, if it is isolated.
    pub fn take(&mut self, worker: usize, function: &str) -> Option<QueuedInstance> {
        let (_, queues) = self.places.iter_mut().find(|(name, _)| name == function)?;
        queues.get_mut(worker)?.take()
    }

    /// What takes in packets that come back to one worker through a NIC.
    pub fn vf_paths(&mut self, worker: usize) -> impl Iterator<Item = VfPath> + '_ {
        self.vf_paths.extract_if(.., move |(owner, _)| *owner == worker).map(|(_, path)| path)
    }

    /// Adds the place of a function at one worker.
    pub fn put(
        &mut self,
        function: &str,
        worker: usize,
        remote_queue: RemoteQueue,
        away: Box<dyn Instance>,
    ) {
        let at = self.places.iter().position(|(name, _)| name == function);
        let at = at.unwrap_or_else(|| {
            self.places.push((function.to_owned(), Vec::new()));
            self.places.len() - 1
        });
        let places = &mut self.places[at].1;
        places.resize_with(places.len().max(worker + 1), || None);
        places[worker] = Some((remote_queue, away));
    }
}

/// Makes the rings of all isolated functions of a blueprint.
///
/// # Errors
/// [`BuildError`].
pub fn start(
    eal: &Eal,
    blueprint: &Blueprint,
    room: Room,
    clock: &Clock,
    macs: &[MacAddress],
) -> Result<(Vec<Supervisor>, FunctionQueues), BuildError> {
    let (mut supervisors, mut queues) = (Vec::new(), FunctionQueues::default());
    for (number, function) in blueprint.functions.iter().enumerate() {
        let Some(process) = &function.process else { continue };
        let failed = |error| BuildError::Process { function: function.name.clone(), error };
        let plan = plan(blueprint, (number, function, process), room, macs).map_err(|error| {
            failed(weft_offload::process::StartError::Socket { path: PathBuf::from("ring"), error })
        })?;
        let clock = clock.clone();
        let started = Supervisor::start(eal, &plan, move || clock.now());
        let (supervisor, places) = started.map_err(failed)?;
        supervisors.push(supervisor);
        for (worker, WorkerEnd { remote_queue, away, endpoint }) in places.into_iter().enumerate() {
            queues.put(&function.name, worker, remote_queue, Box::new(away));
            if let Some((mut path, vf)) = endpoint.zip(process.vf.as_ref()) {
                path.port = vf.port;
                queues.vf_paths.push((worker, path));
            }
        }
    }
    Ok((supervisors, queues))
}

/// What the supervisor of a function's process is told.
fn plan<'a>(
    blueprint: &'a Blueprint,
    (number, function, process): (usize, &'a FunctionPlan, &'a ProcessPlan),
    room: Room,
    macs: &[MacAddress],
) -> io::Result<Plan<'a>> {
    Ok(Plan {
        instance: &function.name,
        kind: function.kind,
        config: &function.config,
        tags: &blueprint.tags,
        workers: blueprint.workers.count,
        contexts: room.contexts(),
        number: number as u32 + 1,
        ring: ring(blueprint, function, process)?,
        own_folder: process.socket.is_none(),
        start: match process.started {
            true => Start::Program(program()),
            false => Start::Elsewhere,
        },
        restart: process.restart,
        wanted: function.is_isolated(),
        plain: process.plain,
        user: process.user,
        limits: process.limits.clone(),
        policy: process.policy,
        heartbeat: process.heartbeat,
        checkpoint: process.checkpoint,
        fabric: process.vf.as_ref().map(|vf| fabric(blueprint, vf, macs)),
        max_sleep_us: match blueprint.workers.polling {
            Polling::Busy => None,
            Polling::Adaptive => Some(blueprint.workers.max_sleep_us),
        },
    })
}

/// The way to a function behind a NIC's switch.
fn fabric(blueprint: &Blueprint, vf: &VfPlan, macs: &[MacAddress]) -> Fabric {
    // Functions behind one port send packets to each other.
    let functions = (1_u16..).zip(&blueprint.functions);
    let vfs = functions
        .filter_map(|(number, function)| Some((number, function.process.as_ref()?.vf.as_ref()?)));
    let peers =
        vfs.filter(|(_, other)| other.port == vf.port).map(|(number, other)| (number, other.mac));
    Fabric {
        ends: Ends {
            node: macs[usize::from(vf.port)].0,
            function: vf.mac,
            mtu: blueprint.ports[usize::from(vf.port)].mtu,
        },
        peers: peers.collect(),
        devices: vf.devices.clone(),
        descriptors: vf.descriptors,
        timeout: vf.timeout,
    }
}

/// The program that hosts functions: this one, or what `WEFT_PROGRAM` names.
fn program() -> PathBuf {
    let named = std::env::var_os("WEFT_PROGRAM").map(PathBuf::from);
    named.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| "weft".into())
}

/// Where the ring of a function is. One that the node chooses is in a folder of
/// this process.
fn ring(
    blueprint: &Blueprint,
    function: &FunctionPlan,
    process: &ProcessPlan,
) -> io::Result<PathBuf> {
    if let Some(socket) = &process.socket {
        return Ok(socket.clone());
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|folder| folder.is_absolute());
    let base = runtime.unwrap_or_else(|| match Path::new("/run").metadata() {
        Ok(run) if !run.permissions().readonly() && is_root() => PathBuf::from("/run"),
        _ => std::env::temp_dir(),
    });
    let folder = base.join(format!("weft-{}-{}", blueprint.name, std::process::id()));
    own_folder(&folder)?;
    Ok(folder.join(format!("{}.sock", function.name)))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
