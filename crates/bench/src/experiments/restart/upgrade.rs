//! A node that another process takes over, as both in this one: everything but what a kernel
//! interface adds to it.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use weft_node::bearer::BearerId;
use weft_node::show::ProcessView;
use weft_node::{Node, Predecessor};

use super::trial::{add_bearers, document_at, read};
use weft_rig::Failure;
use weft_rig::Rig;

/// Where counter and meter are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Functions {
    /// In the node.
    Called,
    /// In a process of its own each, with the contexts.
    InProcesses,
}

/// Processes that do not come within this time do not come any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// For how long packets wait while a node with so many users, each with a tunnel, a counter and
/// a meter, goes over.
///
/// # Errors
/// When the machine has no room, or the node does not go over whole.
pub fn upgrade(rig: &Rig, users: u32, functions: Functions) -> Result<Duration, Failure> {
    let device = || format!("net_null{},no-rx=1", rig.serial());
    let folder = tempfile::tempdir()?;
    let blueprint = |node: &str| {
        let mut document = document_at(&[device(), device()], users);
        for name in ["count", "police"].iter().filter(|_| functions == Functions::InProcesses) {
            document["functions"][name]["composition"] = json!("process");
            let socket = folder.path().join(format!("{node}-{name}"));
            document["functions"][name]["process"] = json!({"heartbeat": 10_000, "socket": socket});
        }
        read(&document)
    };
    let mut old = Node::build(rig.eal, blueprint("old")?)?;
    add_bearers(&mut old, users)?;
    await_processes(&mut old)?;
    let next = blueprint("new")?;
    let mut old = old.start(rig.eal)?;
    let (to_new, to_old) = UnixStream::pair()?;
    let (taken, given) = thread::scope(|scope| {
        let given = scope.spawn(|| {
            let _registration = rig.eal.register_thread();
            old.hand_over(rig.eal, to_new, &mut ()).map_err(|error| error.to_string())
        });
        let taken = Predecessor::hear(to_old).and_then(|mut predecessor| {
            predecessor.accept(&next)?;
            predecessor.take(rig.eal, next, None, |_, _| {})
        });
        (taken.map_err(|error| error.to_string()), given.join())
    });
    let (mut new, waited) = taken?;
    given.map_err(|_| "the old node did not come to its end")??;
    old.stop();
    let now = new.agent().bearers(BearerId(0), users as usize).len();
    if now < users as usize {
        return Err(format!("{now} of {users} users have gone over").into());
    }
    Ok(waited)
}

/// Waits until all functions in processes are there.
fn await_processes(node: &mut Node) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        while node.step() {}
        let functions = node.agent().snapshot().functions;
        let is_absent = |process: &ProcessView| process.state != "running";
        let absent = functions.into_iter().find(|one| one.process.as_ref().is_some_and(is_absent));
        let Some(absent) = absent else { return Ok(()) };
        if Instant::now() >= until {
            return Err(format!("{} was not there after {PATIENCE:?}", absent.name).into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}
