//! A node that control planes drive, in this process. One core has the worker; agent, PFCP and
//! control planes have the others.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use weft_dpdk::{Eal, Pool, Port, PortOptions, keep_off_core, pin_to_core};
use weft_functions::KINDS;
use weft_node::Node;
use weft_node_config::{self as config, PfcpPlan};
use weft_pfcp::Server;
use weft_traffic::{Direction, Encapsulation, Load, Rate, Source};
use weft_wire::gtpu::Teid;

use crate::experiments::users::resident;
use weft_rig::Failure;
use weft_rig::{Cost, Measured, Rig, Schedule, uplink};

/// Where the node listens; control planes speak from the addresses behind it.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 29, 44, 1);
/// The base station, and the node's address towards it.
pub const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
pub const ACCESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// TEID of the first session.
pub const FIRST_TEID: u32 = 0x1000;

const DESCRIPTORS: u16 = 1024;
const PACKETS: u32 = 4095;
/// Pause of agent and generator when there is nothing to do.
const PAUSE: Duration = Duration::from_micros(50);
/// The name of the agent's thread, and those of all threads that work on messages in the node.
const AGENT: &str = "agent";
const OF_MESSAGES: [&str; 3] = [AGENT, "pfcp", "pfcp-receive"];
/// The last packets leave within this time.
const SETTLING: Duration = Duration::from_millis(50);

/// The node.
pub struct UserPlane<'r> {
    rig: &'r Rig,
    node: Node,
    plan: PfcpPlan,
    frame_bytes: usize,
    /// Where packets come in: from base stations, the same beside messages, from the core.
    rings: [String; 3],
}

/// The node while it is driven.
pub struct Driven<'a> {
    rig: &'a Rig,
    ring: &'a str,
    frame_bytes: usize,
    /// Packets that have left towards the core.
    left: &'a (dyn Fn() -> u64 + Sync),
}

/// What a packet takes uplink and downlink, and the share of the time that was taken.
pub type BothWays = (Measured, Measured, f64);

impl<'r> UserPlane<'r> {
    /// A node with room for so many sessions.
    ///
    /// # Errors
    /// When the machine has one core only, or no room.
    pub fn new(rig: &'r Rig, sessions: u32, frame_bytes: usize) -> Result<Self, Failure> {
        rig.cores.traffic()?;
        let ring = |side: &str| format!("ring:bench-{side}{}", rig.serial());
        let rings = [ring("access"), ring("beside"), ring("core")];
        let sink = || format!("net_null{},no-rx=1", rig.serial());
        let port = |device: &str, direction: &str| json!({"device": device, "direction": direction, "descriptors": DESCRIPTORS});
        let mut access = port(&rings[0], "uplink");
        access["addresses"] = json!([format!("{ACCESS}/24")]);
        let to = |direction: &str| {
            let mut to = port(&sink(), direction);
            to["nextHopMac"] = json!("02:00:00:00:00:99");
            to
        };
        let mut beside = port(&rings[1], "uplink");
        beside["addresses"] = json!(["192.0.3.1/24"]);
        let document = json!({
            "apiVersion": "weft/v1",
            "kind": "Node",
            "metadata": {"name": "bench"},
            "workers": {"polling": "busy"},
            "memory": {"packets": weft_rig::setup::PACKETS},
            "limits": {"users": sessions},
            "gtpu": {"echoInterval": 0},
            "ports": {
                "access": access,
                "beside": beside,
                "core": port(&rings[2], "downlink"),
                "to-access": to("uplink"),
                "to-core": to("downlink"),
            },
            "functions": {
                "detect": {"function": "session-detection"},
                "act": {"function": "session-forwarding"},
            },
            "users": [{"name": "session", "count": 0}],
            "pfcp": {
                "listen": [ADDRESS],
                "peers": ["127.29.44.0/24"],
                "like": "session",
                // A control plane is not heard of behind its run, and its sessions stay.
                "timers": {"heartbeat": 0},
                "interfaces": [
                    {"interface": "access", "addresses": [ACCESS]},
                    {"interface": "core"},
                ],
            },
            "rules": "from access -> detect\nfrom beside -> detect\nfrom core -> detect\n\
                      from to-access -> drop\nfrom to-core -> drop\nfrom detect -> act\n\
                      from act when interface == access -> to-access\nfrom act -> to-core\n",
        });
        let blueprint = config::read(&document.to_string(), "bench", KINDS);
        let blueprint = blueprint.map_err(|error| error.to_string())?;
        let plan = blueprint.pfcp.clone().ok_or("a node without PFCP")?;
        let node = Node::build(rig.eal, blueprint)?;
        Ok(UserPlane { rig, node, plan, frame_bytes, rings })
    }

    /// The number of a port.
    fn port(&mut self, name: &str) -> Result<usize, Failure> {
        let ports = &self.node.agent().blueprint().ports;
        let at = ports.iter().position(|port| port.name == name);
        Ok(at.ok_or("a port that is not there")?)
    }

    /// Lets the node be driven while `what` lasts.
    ///
    /// # Errors
    /// Those of `what`, and when a thread or the socket cannot be had.
    pub fn drive<T>(
        &mut self,
        what: impl FnOnce(&Driven<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let core = self.port("to-core")?;
        let UserPlane { rig, node, plan, frame_bytes, rings } = self;
        let (rig, done, handle) = (*rig, AtomicBool::new(false), node.handle());
        let (eal, core_of_worker) = (rig.eal, rig.cores.system);
        let (agent, workers) = node.parts();
        let worker = workers.first_mut().ok_or("a node without workers")?;
        let counters = worker.counters.clone();
        let left = || counters.ports[core].transmitted.packets.get();
        // Threads that are started here are kept off that core as well.
        let _others = keep_off_core(core_of_worker)?;
        thread::scope(|scope| {
            let working = scope.spawn(|| {
                let _registration = eal.register_thread();
                pin_to_core(core_of_worker)?;
                while !done.load(Ordering::Acquire) {
                    worker.poll();
                }
                Ok::<_, std::io::Error>(())
            });
            let asked =
                thread::Builder::new().name(AGENT.to_owned()).spawn_scoped(scope, || {
                    let _registration = eal.register_thread();
                    while !done.load(Ordering::Acquire) {
                        if !agent.poll() {
                            thread::sleep(PAUSE);
                        }
                    }
                })?;
            let outcome = Server::start(plan, handle).map_err(Failure::from).and_then(|server| {
                let ring = &rings[1];
                let outcome = what(&Driven { rig, ring, frame_bytes: *frame_bytes, left: &left });
                drop(server);
                outcome
            });
            done.store(true, Ordering::Release);
            working.join().map_err(|_| "the worker panicked")??;
            asked.join().map_err(|_| "the agent panicked")?;
            outcome
        })
    }

    /// Cycles that a packet of so many sessions, in random order, takes besides the devices:
    /// uplink, downlink, and the share of the time that was taken.
    ///
    /// # Errors
    /// When nothing leaves.
    pub fn cycles(&mut self, count: u32, length: Duration) -> Result<BothWays, Failure> {
        let (core, access) = (self.port("to-core")?, self.port("to-access")?);
        let up = tunnelled(count, self.frame_bytes, Rate::Unlimited);
        let mut down = uplink(count, self.frame_bytes, Rate::Unlimited);
        down.shares[0].template.endpoints.direction = Direction::Downlink;
        let rig = self.rig;
        let [from_access, _, from_core] = &self.rings;
        let (from_access, from_core) = (from_access.clone(), from_core.clone());
        let worker = self.node.workers().first_mut().ok_or("a node without workers")?;
        let (uplink, one) = rig.cost_of_worker(worker, (&from_access, core), &up, length)?;
        let (downlink, other) = rig.cost_of_worker(worker, (&from_core, access), &down, length)?;
        let (of_devices, third) = rig.cost_of_devices(&up, length)?;
        let besides = |cost: Cost| cost.cycles - of_devices.cycles;
        let disturbance = one.max(other).max(third);
        Ok((besides(uplink), besides(downlink), disturbance))
    }
}

impl Driven<'_> {
    /// Bytes of this process that are in memory.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn resident(&self) -> Result<u64, Failure> {
        resident()
    }

    /// Processor time that the node has had for messages so far: that of the agent and of the
    /// PFCP threads, kernel and all.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn processor_time(&self) -> Result<Duration, Failure> {
        let mut time = Duration::ZERO;
        for thread in fs::read_dir("/proc/self/task")? {
            let thread = thread?.path();
            // Another thread may end meanwhile.
            let Ok(name) = fs::read_to_string(thread.join("comm")) else { continue };
            if OF_MESSAGES.contains(&name.trim_end()) {
                time += Schedule::read(&thread.join("schedstat"))?.running;
            }
        }
        Ok(time)
    }

    /// What `what` comes to while so many sessions carry so many packets a second, and how
    /// many of these a second did not leave.
    ///
    /// # Errors
    /// Those of `what`, and when no packets can be made.
    pub fn under_traffic<T>(
        &self,
        (sessions, packets): (u32, f64),
        what: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, f64), Failure> {
        let done = AtomicBool::new(false);
        let before = (self.left)();
        let load = tunnelled(sessions, self.frame_bytes, Rate::Packets(packets));
        let (eal, ring, name) = (self.rig.eal, self.ring, format!("traffic{}", self.rig.serial()));
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let _registration = eal.register_thread();
                let sent = Pool::new(eal, &name, PACKETS).map_err(Failure::from);
                let sent = sent.and_then(|pool| send(eal, (ring, &pool), &load, &done));
                sent.map_err(|error| error.to_string())
            });
            let start = Instant::now();
            let outcome = what();
            let lasted = start.elapsed().as_secs_f64();
            done.store(true, Ordering::Release);
            let sent = sending.join().map_err(|_| "the generator panicked")??;
            thread::sleep(SETTLING);
            let left = (self.left)() - before;
            Ok((outcome?, sent.saturating_sub(left) as f64 / lasted))
        })
    }
}

/// Sends packets until it is done; how many.
fn send(
    eal: &Eal,
    (ring, pool): (&str, &Pool),
    load: &Load,
    done: &AtomicBool,
) -> Result<u64, Failure> {
    let options = PortOptions { descriptors: DESCRIPTORS, ..PortOptions::default() };
    let port = Port::open(eal, ring, &options, pool)?;
    let mut tx = port.take_tx(0).ok_or("a device without queues")?;
    let mut source = Source::of(load)?;
    while !done.load(Ordering::Acquire) {
        if source.send(&mut tx, pool) == 0 {
            // It shares a core with what is measured, and a core that it polled on would be its
            // own for a time slice at each message.
            thread::sleep(PAUSE);
        }
    }
    source.finish();
    Ok(source.tally().sent)
}

/// Packets of so many sessions in their tunnels.
fn tunnelled(sessions: u32, frame_bytes: usize, rate: Rate) -> Load {
    let mut load = uplink(sessions, frame_bytes, rate);
    load.shares[0].template.encapsulation = Encapsulation::Gtpu {
        source: STATION.into(),
        destination: ACCESS.into(),
        first_teid: Teid(FIRST_TEID),
        qfi: None,
    };
    load
}
