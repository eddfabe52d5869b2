//! A serving gateway that carries packets of some bearers while commands establish,
//! modify and delete others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use weft_dpdk::{Pool, Port, PortOptions, RxQueue, TxQueue, pin_to_core};
use weft_functions::KINDS;
use weft_node::{Agent, Node};
use weft_node_config as config;
use weft_state::{Owner, Role, Store};
use weft_traffic::{Expected, Rate, Receiver, Source};

use crate::experiments::sgw::sessions::{DESCRIPTORS, Sessions, document};
use weft_rig::Failure;
use weft_rig::{Gateway, Look, Rig};

/// Packets of the traffic's pool.
const PACKETS: u32 = 4095;
/// Turns of generator and receiver between two looks at the clock.
const TURNS: u32 = 8;
/// Packets that do not arrive for so long do not arrive any more.
const PATIENCE: Duration = Duration::from_millis(20);
/// Longest wait for the worker to work off the last commands.
const SETTLING: Duration = Duration::from_secs(5);

/// What is offered in a trial.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// Packets per second.
    pub packets: f64,
    /// Commands per second.
    pub commands: f64,
    /// How long.
    pub duration: Duration,
    /// Bytes of frames with their checksum.
    pub frame_bytes: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were due and could not be sent.
    pub unsent: u64,
    /// Packets that were sent and did not arrive.
    pub lost: u64,
    /// Commands that were applied.
    pub commands: u64,
    /// Commands that were due and came too late for the trial.
    pub commands_late: u64,
    /// Time that the agent took for commands.
    pub commanding: Duration,
    /// The share of the time that was taken from either core.
    pub disturbance: f64,
}

/// The gateway, the far ends of its ports, and its sessions.
pub struct Signalled<'r> {
    rig: &'r Rig,
    node: Node,
    pool: Pool,
    tx: TxQueue,
    rx: RxQueue,
    streams: u16,
    bearers: u32,
    sessions: Sessions,
    /// Where what commands set is kept, if it is.
    _folder: Option<TempDir>,
    /// They close with the last of port and queues.
    _ports: [Port; 2],
}

impl<'r> Signalled<'r> {
    /// A gateway with so many bearers that have traffic, and so many sessions that
    /// come and go, `batch` commands at a time. With `durable` they are kept on the disk.
    ///
    /// # Errors
    /// When the machine has one core only, or lacks something else.
    pub fn new(
        rig: &'r Rig,
        (bearers, sessions): (u32, u32),
        batch: usize,
        durable: bool,
    ) -> Result<Self, Failure> {
        rig.cores.traffic()?;
        let ring = |side: &str| format!("ring:bench-{side}{}", rig.serial());
        let devices = [ring("access"), ring("core")];
        let mut document = document(&devices, bearers, sessions);
        if durable {
            document["state"] = json!({"directory": "unused"});
        }
        let blueprint = config::read(&document.to_string(), "bench", KINDS);
        let blueprint = blueprint.map_err(|error| error.to_string())?;
        let folder = durable.then(tempfile::tempdir).transpose()?;
        let mut node = match &folder {
            Some(folder) => Node::restore(rig.eal, blueprint, store(folder)?)?,
            None => Node::build(rig.eal, blueprint)?,
        };
        let pool = Pool::new(rig.eal, &format!("traffic{}", rig.serial()), PACKETS)?;
        let options = PortOptions { descriptors: DESCRIPTORS, ..PortOptions::default() };
        let [access, core] = devices;
        let access = Port::open(rig.eal, &access, &options, &pool)?;
        let core = Port::open(rig.eal, &core, &options, &pool)?;
        let queues = access.take_tx(0).zip(core.take_rx(0));
        let (tx, rx) = queues.ok_or("a device without queues")?;
        let mut sessions = Sessions::new(node.agent(), sessions, batch)?;
        sessions.establish_all(node.agent())?;
        while node.step() {}
        let _ports = [access, core];
        let (streams, _folder) = (0, folder);
        Ok(Signalled { rig, node, pool, tx, rx, streams, bearers, sessions, _folder, _ports })
    }

    /// Offers packets and commands at the same time. One core has the worker; the
    /// other has the generator, the receiver and the agent in turn.
    ///
    /// # Errors
    /// When no packets can be made, a thread fails or a command is refused.
    pub fn offer(&mut self, offered: &Offered) -> Result<Outcome, Failure> {
        let (traffic, system) = (self.rig.cores.traffic()?, self.rig.cores.system);
        let (rig, done) = (self.rig, AtomicBool::new(false));
        let Signalled { node, pool, tx, rx, streams, bearers, sessions, .. } = self;
        let (agent, workers) = node.parts();
        let worker = workers.first_mut().ok_or("a node without workers")?;
        *streams = streams.wrapping_add(1);
        let rate = Rate::Packets(offered.packets);
        let mut load = Gateway::Relay.load_in_turn(*bearers, offered.frame_bytes, rate);
        load.shares.iter_mut().for_each(|share| share.template.stream = *streams);
        thread::scope(|scope| {
            let system = scope.spawn(|| {
                let _registration = rig.eal.register_thread();
                pin_to_core(system)?;
                let look = Look::now(system)?;
                while !done.load(Ordering::Acquire) {
                    worker.poll();
                }
                Ok::<_, std::io::Error>(look.since()?.disturbance())
            });
            let outcome = rig.on_core(traffic, || {
                let mut far = Far { pool, tx, rx };
                far.run(&load, offered, agent, sessions, traffic)
            });
            done.store(true, Ordering::Release);
            let taken = system.join().map_err(|_| "the measured thread panicked")??;
            let outcome = outcome?;
            Ok(Outcome { disturbance: outcome.disturbance.max(taken), ..outcome })
        })
    }
}

fn store(folder: &TempDir) -> Result<Store, Failure> {
    let owner = Owner { role: Role::Node, name: "bench".to_owned() };
    Store::open(folder.path(), &owner).map_err(|error| error.to_string().into())
}

/// The far ends of the gateway's ports.
struct Far<'a> {
    pool: &'a Pool,
    tx: &'a mut TxQueue,
    rx: &'a mut RxQueue,
}

impl Far<'_> {
    fn run(
        &mut self,
        load: &weft_traffic::Load,
        offered: &Offered,
        agent: &mut Agent,
        sessions: &mut Sessions,
        core: usize,
    ) -> Result<Outcome, Failure> {
        let mut source = Source::of(load)?;
        let expected = load.shares.iter().map(|share| Expected::of(&share.template, share.users));
        let mut receiver = Receiver::new(expected);
        let (mut commands, mut commanding) = (0, Duration::ZERO);
        let durable = Arc::new(AtomicU64::new(0));
        let (look, start) = (Look::now(core)?, Instant::now());
        while start.elapsed() < offered.duration {
            for _ in 0..TURNS {
                source.send(self.tx, self.pool);
                receiver.receive(self.rx);
            }
            let begun = Instant::now();
            let due = ((begun - start).as_secs_f64() * offered.commands) as u64;
            if due >= commands + sessions.batch as u64 {
                let batch = sessions.signal(agent)?;
                let durable = durable.clone();
                agent.when_durable(Box::new(move |kept| {
                    durable.fetch_add(if kept.is_ok() { batch } else { 0 }, Ordering::Release);
                }));
                commands += batch;
                commanding += begun.elapsed();
            }
            agent.poll();
        }
        source.finish();
        let disturbance = look.since()?.disturbance();
        let mut since = Instant::now();
        while since.elapsed() < PATIENCE {
            if receiver.receive(self.rx) > 0 {
                since = Instant::now();
            }
        }
        settle(agent, || durable.load(Ordering::Acquire) == commands)?;
        let received: u64 = receiver.streams().iter().map(|stream| stream.received).sum();
        let tally = source.tally();
        let due = (offered.duration.as_secs_f64() * offered.commands) as u64;
        Ok(Outcome {
            sent: tally.sent,
            unsent: tally.unsent(),
            lost: tally.sent.saturating_sub(received),
            commands,
            // The last batch need not be full.
            commands_late: due.saturating_sub(commands + sessions.batch as u64),
            commanding,
            disturbance,
        })
    }
}

/// Waits until workers and disk have all commands.
fn settle(agent: &mut Agent, is_durable: impl Fn() -> bool) -> Result<(), Failure> {
    let since = Instant::now();
    while !(agent.is_settled() && is_durable()) && since.elapsed() < SETTLING {
        agent.poll();
    }
    if !agent.is_settled() {
        return Err("the worker did not work off the commands".into());
    }
    if !is_durable() {
        return Err("the disk did not take the commands".into());
    }
    Ok(())
}
