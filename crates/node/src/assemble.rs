//! Puts a node together from its blueprint: ports, rings, workers, agent.

mod elsewhere;
mod rings;
mod worker;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::time::{SystemTime, UNIX_EPOCH};

use weft_compose::SlotShift;
use weft_dataplane::classify::Tables;
use weft_dataplane::clock::Clock;
use weft_dataplane::command::{Replacement, UserChange, Waker};
use weft_dataplane::forward::Plan;
use weft_dataplane::transmit::to_agent::PUNT_RING;
use weft_dataplane::worker::Worker;
use weft_dpdk::numa::{self, Near};
use weft_dpdk::{Eal, Pool, Port, PortOptions, Wakeup, is_pci_address};
use weft_function::{EventSender, Events};
use weft_fusion::{Compiled, FusedPlan, fuse};
use weft_node_config::{Blueprint, HandoverPlan, PortPlan, UserPlan};
use weft_offload::thread::ThreadPool;
use weft_rules::{Condition, Program, RuleSet};
use weft_wire::MacAddress;

use self::elsewhere::Elsewhere;
use self::rings::Rings;
use self::worker::{Shared, looked_at};
use crate::agent::{Agent, Configuration, Handle, PANIC_WARNINGS, Persistence, configured};
use crate::bearer::session::Sessions;
use crate::bearer::{Bearers, Listeners, Subscribers};
use crate::error::BuildError;
use crate::functions::{self, FunctionEntry};
use crate::gtpu_peers::GtpuPeers;
use crate::migration::Migration;
use crate::plan::{self, Classes, Trials};
use crate::ports::device::{OfferedDevice, Opening, PortDevice};
use crate::ports::redirection::Redirection;
use crate::ports::{PortControl, Ports};
use crate::subscribers::steering::{has_queues_for_workers, queues_of_users};
use crate::subscribers::{Changes, Keys, Room, Users};
use crate::workers::{Link, Workers};

/// Commands and reports that wait between agent and worker.
const COMMAND_RING: usize = 1024;

/// Packets that one worker keeps for all of its users together, at most.
const KEPT_PACKETS: usize = 1 << 16;

/// Packets that wait between two workers.
const CROSSING_RING: u32 = 1024;

/// Events of functions that wait to be exported.
const EVENTS: usize = 4096;

/// How a node comes to the devices of its ports.
#[derive(Clone, Copy, Debug)]
pub enum Devices<'a> {
    /// No other process has them.
    Own,
    /// Another process has these open as well, which stay as they are if nothing comes of this node.
    Beside(&'a [OfferedDevice]),
    /// Another process has them: they are opened once it has closed them.
    Held(&'a [OfferedDevice]),
}

/// An agent with its workers.
pub struct Assembled {
    /// The agent.
    pub agent: Agent,
    /// The workers.
    pub workers: Vec<Worker>,
    /// How to ask the agent.
    pub handle: Handle,
    /// What functions tell to be exported, where something is.
    pub events: Option<Events>,
}

/// Builds a node. With `time`, its clock shows what is stored there.
///
/// # Errors
/// [`BuildError`].
pub fn assemble(
    eal: &Eal,
    blueprint: Blueprint,
    time: Option<Arc<AtomicU64>>,
    devices: Devices<'_>,
) -> Result<Assembled, BuildError> {
    let _near = Near::socket(socket_of_node(&blueprint));
    let count = blueprint.workers.count;
    let shift = SlotShift::for_workers(count);
    let room = Room::of(&blueprint.limits, count, !blueprint.groups.is_empty());
    let Pools { pool, answers, punts } = Pools::new(eal, &blueprint)?;
    let (clock, waker) = (time.map_or_else(Clock::start, Clock::Virtual), Waker::default());
    let mut initial = InitialUsers::of(&blueprint, room)?;
    let ports = open_ports(eal, &blueprint, &pool, (&initial.users, devices))?;
    let rings = Rings::new(eal, &blueprint, &ports)?;
    let steering = Steering::of(&blueprint, &initial.classes, shift)?;
    let macs: Vec<_> = ports.iter().map(|open| open.mac).collect();
    let (supervisors, queues) = functions::start(eal, &blueprint, room, &clock, &macs)?;
    let mut elsewhere = Elsewhere::new(queues);
    let (sender, events) = events(&blueprint).unzip();
    let mut threads = ThreadPool::new(count, blueprint.workers.pause(), &pool);
    let wakeups = wakeups(&blueprint.workers);
    let shared = Shared {
        blueprint: &blueprint,
        ports: &ports,
        pool: &pool,
        punts: &punts,
        clock: &clock,
        room,
        waker: &waker,
        wakeups: &wakeups,
        events: sender.as_ref(),
    };
    let ways = (rings, &mut threads, &mut elsewhere);
    let (workers, links) = shared.workers(eal, &steering, &mut initial, ways)?;
    let InitialUsers { classes, profiles, users, taken, .. } = initial;
    let ports = Ports::new(port_controls(&blueprint, ports));
    let (ask, requests) = channel();
    let (keys, sessions) = (Keys::of(&blueprint), Sessions::new(&blueprint));
    let (configuration, entries) = steering.configuration(blueprint, classes, profiles);
    let mut agent = Agent {
        gtpu_peers: GtpuPeers::new(configuration.blueprint.gtpu.echo),
        persistence: Persistence::new(configured(&configuration.blueprint)),
        configuration,
        subscribers: Subscribers { users, bearers: Bearers::new(taken), sessions, room, keys },
        workers: Workers::new(links),
        functions: elsewhere.functions(entries, threads, supervisors, sender),
        ports,
        redirection: Redirection::default(),
        migration: Migration::default(),
        mobility: None,
        listeners: Listeners::default(),
        pool,
        answers,
        clock,
        started: seconds_since_1970(),
        requests,
        waker: waker.clone(),
        next_tap: 0,
        last_look: 0,
        panic_warnings: PANIC_WARNINGS,
    };
    agent.note_first_tunnels();
    agent.start_flow_rules();
    Ok(Assembled { agent, workers, handle: Handle::new(ask, waker), events })
}

/// The socket of the machine that is best for what all of a node use: where most of its ports
/// are, and its workers.
fn socket_of_node(blueprint: &Blueprint) -> Option<u32> {
    let ports = blueprint.devices().iter().map(|port| &*port.device);
    let ports = ports.filter(|device| is_pci_address(device)).map(numa::socket_of_pci);
    let workers = (0..blueprint.workers.count).map(|worker| socket_of(blueprint, worker));
    numa::common_socket(ports.chain(workers))
}

/// The socket of a worker's core, if it was given one.
fn socket_of(blueprint: &Blueprint, worker: usize) -> Option<u32> {
    numa::socket_of_core(*blueprint.workers.cores.as_ref()?.get(worker)?)
}

/// What ends the sleep of each worker, where they sleep until something comes. Without
/// descriptors for that they sleep for a time.
fn wakeups(plan: &weft_node_config::Workers) -> Vec<Wakeup> {
    let wanted = (0..plan.count).filter(|_| plan.sleeps_until_woken());
    wanted.map(|_| Wakeup::new()).collect::<Result<_, _>>().unwrap_or_default()
}

/// Where functions tell what is exported, and what takes it to the exporter.
fn events(blueprint: &Blueprint) -> Option<(EventSender, Events)> {
    let is_told = blueprint.ipfix.as_ref().is_some_and(|plan| !plan.port_blocks.is_empty());
    is_told.then(|| weft_function::events(EVENTS))
}

pub(crate) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Where packets come from.
struct Pools {
    pool: Pool,
    /// Those of the node's own.
    answers: Pool,
    /// The agent's copies.
    punts: Pool,
}

impl Pools {
    fn new(eal: &Eal, blueprint: &Blueprint) -> Result<Pools, BuildError> {
        let mtu = blueprint.greatest_mtu();
        let pool = Pool::for_mtu(eal, &blueprint.name, blueprint.memory.packets, mtu)?;
        let small = |name, size| Pool::without_caches_for_mtu(eal, name, size, mtu);
        let answers = small("answers", blueprint.limits.local.answers)?;
        let count = 2 * PUNT_RING * blueprint.workers.count as u32;
        let punts = small("punts", count)?;
        Ok(Pools { pool, answers, punts })
    }
}

impl Shared<'_> {
    /// All workers, with their users, rules and functions.
    fn workers(
        &self,
        eal: &Eal,
        steering: &Steering,
        initial: &mut InitialUsers,
        (mut rings, threads, elsewhere): (Rings, &mut ThreadPool, &mut Elsewhere),
    ) -> Result<(Vec<Worker>, Vec<Link>), BuildError> {
        let blueprint = self.blueprint;
        let stages = threads.add(plan::stages(blueprint));
        let changes = std::mem::take(&mut initial.changes);
        let InitialUsers { classes, profiles, users, .. } = initial;
        let (mut workers, mut links) = (Vec::new(), Vec::new());
        for (number, (mut changes, stages)) in changes.into_iter().zip(stages).enumerate() {
            // Tables and contexts of a worker lie where its core is.
            let _near =
                Near::socket(socket_of(blueprint, number).or_else(|| socket_of_node(blueprint)));
            let (mut worker, link) = self.worker(eal, number, &mut rings)?;
            elsewhere.welcome(self, &steering.trials, &mut worker, number);
            let parts = self.parts(&steering.functions, threads, &mut worker, number, elsewhere)?;
            let replacement = Replacement {
                plan: steering.plan(blueprint, classes),
                parts,
                tags: plan::tags(blueprint, &classes.tags),
                profiles: profiles.clone(),
                stages,
                maps: plan::maps(threads, blueprint, &steering.program),
                arrival: None,
            };
            elsewhere.note_remote_queues(&mut worker, &replacement.parts);
            worker.start_with(Box::new(replacement), &mut changes);
            if let Some(plan) = &blueprint.handover {
                let moving = moving(plan, users, number);
                worker.start_gates(&plan.gates(), moving, blueprint.workers.count);
            }
            workers.push(worker);
            links.push(link);
        }
        Ok((workers, links))
    }
}

/// The users of the configuration, and what they are found by.
struct InitialUsers {
    classes: Classes,
    profiles: Vec<Vec<Condition>>,
    users: Users,
    /// What each worker is told of them.
    changes: Changes,
    /// Their keys.
    taken: Tables,
}

impl InitialUsers {
    fn of(blueprint: &Blueprint, room: Room) -> Result<InitialUsers, BuildError> {
        let (mut classes, mut profiles) = (Classes::default(), vec![Vec::new()]);
        let class_numbers = classes.adopt(blueprint, blueprint)?;
        let profile_numbers = plan::bearer_profiles(&mut profiles, blueprint);
        let mut users = Users::new(room, blueprint.workers.count);
        let changes = users.become_those_of(blueprint, &[], &class_numbers, &profile_numbers)?;
        let mut taken = Tables::new(&Keys::of(blueprint).capacity(blueprint, room));
        for change in &changes[0] {
            if let UserChange::Key(key, slot) = change {
                // There is room for all users of the file.
                let _ = taken.insert(key, *slot);
            }
        }
        Ok(InitialUsers { classes, profiles, users, changes, taken })
    }
}

/// Rules and functions, as all workers have them.
struct Steering {
    rules: Arc<RuleSet>,
    program: Program,
    functions: Vec<FunctionEntry>,
    trials: Trials,
    fused: Option<Arc<FusedPlan>>,
    compiled: Compiled,
}

impl Steering {
    fn of(
        blueprint: &Blueprint,
        classes: &Classes,
        shift: SlotShift,
    ) -> Result<Steering, BuildError> {
        let program = plan::compile(blueprint, &classes.tags)?;
        let trials = Trials::of(blueprint)
            .map_err(|error| BuildError::Function { function: "on trial".to_owned(), error })?;
        let mut compiled = Compiled::default();
        let fused = fuse(&program, &trials.lowered(blueprint), shift, &mut compiled);
        Ok(Steering {
            rules: Arc::new(blueprint.rules.clone()),
            program,
            functions: function_entries(blueprint),
            trials,
            fused,
            compiled,
        })
    }

    /// What the node runs by, and the entries of its functions.
    fn configuration(
        self,
        blueprint: Blueprint,
        classes: Classes,
        profiles: Vec<Vec<Condition>>,
    ) -> (Configuration, Vec<FunctionEntry>) {
        let Steering { functions, trials, fused, compiled, .. } = self;
        let configuration = Configuration { blueprint, classes, profiles, trials, fused, compiled };
        (configuration, functions)
    }

    fn plan(&self, blueprint: &Blueprint, classes: &Classes) -> Box<Plan> {
        let Steering { rules, program, fused, .. } = self;
        Box::new(plan::plan(blueprint, rules, program, classes.tags.len(), fused.as_ref()))
    }
}

/// Slots and numbers of the users of a worker that move.
fn moving(plan: &HandoverPlan, users: &Users, worker: usize) -> Vec<u32> {
    let moves = |user: &UserPlan| plan.users.iter().any(|range| range.plan == user.name);
    let own = users.iter().filter(|(_, _, slot)| users.worker_of(*slot) == worker);
    own.filter(|(user, ..)| moves(user)).map(|(_, _, slot)| slot).collect()
}

/// The node's own part at each port.
fn port_controls(blueprint: &Blueprint, ports: Vec<OpenPort>) -> Vec<PortControl> {
    let neighbours = blueprint.limits.neighbours as usize;
    let own: Arc<[_]> = own_addresses(blueprint).collect();
    let port_control = |(number, (open, plan)): (usize, (OpenPort, &PortPlan))| {
        let looked_at = looked_at(blueprint, plan, open.mac);
        let OpenPort { port, tx_queues, mac, opening } = open;
        let device = PortDevice::new(number as u16, opening, (port, tx_queues), looked_at);
        PortControl::new(number as u16, plan, mac, device, own.clone(), neighbours)
    };
    ports.into_iter().zip(&blueprint.ports).enumerate().map(port_control).collect()
}

impl<'a> Devices<'a> {
    /// What another process has said of the device of that string.
    fn offered(self, device: &str) -> Option<&'a OfferedDevice> {
        match self {
            Devices::Own => None,
            Devices::Beside(all) | Devices::Held(all) => {
                all.iter().find(|offered| offered.device == device)
            }
        }
    }
}

/// A port that was opened, or that another process has open still; how many queues it has for
/// packets that are sent, and the MAC address it uses.
struct OpenPort {
    port: Option<Port>,
    tx_queues: u16,
    mac: MacAddress,
    opening: Opening,
}

fn open_ports(
    eal: &Eal,
    blueprint: &Blueprint,
    pool: &Pool,
    (users, devices): (&Users, Devices<'_>),
) -> Result<Vec<OpenPort>, BuildError> {
    let open = |(number, plan): (usize, &PortPlan)| {
        // A memory ring has as many queues at either end and in either
        // direction; other devices get a transmit queue for each worker.
        let own = if plan.device.starts_with("ring:") { plan.queues } else { 0 };
        let offered = devices.offered(&plan.device);
        let options = PortOptions {
            rx_queues: plan.queues,
            tx_queues: own.max(if own == 0 { blueprint.workers.count as u16 } else { 1 }),
            descriptors: plan.descriptors,
            steering: queues_of_users(blueprint, plan, users),
            flow_rules: plan.flow_rules && has_queues_for_workers(blueprint.workers.count, plan),
            interrupts: blueprint.workers.sleeps_until_woken(),
            checksums: plan.checksums,
            sends_own_buffers: blueprint.sends_own_buffers(),
            mtu: plan.mtu,
            mac: offered.map(|offered| offered.mac),
            is_beside: matches!(devices, Devices::Beside(_)),
        };
        let (port, own_mac, tx_queues) = match (devices, offered) {
            (Devices::Held(_), Some(offered)) => (None, offered.mac, offered.tx_queues),
            _ => {
                let port = Port::open(eal, &plan.device, &options, pool)
                    .map_err(|error| BuildError::Port { port: plan.name.clone(), error })?;
                let (mac, queues) = (port.mac(), port.tx_queues());
                (Some(port), mac, queues)
            }
        };
        let mac = plan.mac.or(Some(own_mac).filter(|mac| *mac != [0; 6]));
        // Locally administered, for devices without an address of their own.
        let mac = MacAddress(mac.unwrap_or([2, 0, 0, 0, 0, number as u8 + 1]));
        let (workers, pool) = (blueprint.workers.count, pool.clone());
        let (device, plan) = (plan.device.clone(), plan.clone());
        let opening = Opening { device, options, pool, plan, workers };
        Ok(OpenPort { port, tx_queues, mac, opening })
    };
    blueprint.devices().iter().enumerate().map(open).collect()
}

/// Addresses of the node, at any port.
fn own_addresses(blueprint: &Blueprint) -> impl Iterator<Item = IpAddr> {
    blueprint.ports.iter().flat_map(|port| &port.addresses).map(|(address, _)| *address)
}

fn function_entries(blueprint: &Blueprint) -> Vec<FunctionEntry> {
    blueprint
        .functions
        .iter()
        .map(|function| FunctionEntry::new(function, blueprint.workers.count))
        .collect()
}
