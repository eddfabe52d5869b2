//! A node with bearers that commands have added; it is killed, and another goes on with what
//! is on the disk.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_functions::KINDS;
use weft_node::bearer::{Action, BearerCommand, BearerId, BearerSettings, Detection, Settings};
use weft_node::{Agent, Node};
use weft_node_config::{self as config, Blueprint, Loading, UserKey};
use weft_state::{Owner, Role, Store};

use weft_rig::{Failure, FirstPackets, Rig};

pub(super) const DESCRIPTORS: u16 = 4096;
/// Buffers of a generator: more than the rings of two nodes hold.
pub(super) const PACKETS: u32 = 4 * DESCRIPTORS as u32 - 1;
/// Buffers of a node: more than both of its rings and all that is under way.
const MEMORY: u32 = 8 * DESCRIPTORS as u32 - 1;
/// Commands that are given at once where their time is not measured.
const AT_ONCE: u32 = 1000;
/// What is not on the disk within this time does not come there any more.
const PATIENCE: Duration = Duration::from_secs(120);
pub(super) const FRAME_BYTES: usize = 128;

/// How commands are given.
pub struct Commands {
    /// For how long.
    pub length: Duration,
    /// At once.
    pub batch: usize,
    /// By so many.
    pub clients: usize,
}

/// What commands cost.
pub struct Commanded {
    /// Durable commands a second.
    pub per_second: f64,
    /// Time from a batch to its answer that 99 of 100 keep to.
    pub p99: Duration,
}

/// How long it took, from the beginning.
pub struct Started {
    /// Until the node takes packets.
    pub ready: Duration,
    /// Until the first packet has left.
    pub first: Duration,
    /// Until a packet of half of the users has left.
    pub half: Duration,
    /// Until a packet of each user has left.
    pub all: Duration,
    /// The share of users whose packet has left before all that was kept was there.
    pub before_loaded: f64,
}

/// The node, and the folder of its store.
pub struct Restart<'r> {
    rig: &'r Rig,
    folder: TempDir,
    node: Node,
    bearers: u32,
    settings: Settings,
}

fn owner() -> Owner {
    Owner { role: Role::Node, name: "bench".to_owned() }
}

pub(super) fn store(folder: &TempDir) -> Result<Store, Failure> {
    Store::open(folder.path(), &owner()).map_err(|error| error.to_string().into())
}

impl<'r> Restart<'r> {
    /// A node with so many bearers that are durable.
    ///
    /// # Errors
    /// When the machine or the disk has no room.
    pub fn new(rig: &'r Rig, bearers: u32) -> Result<Restart<'r>, Failure> {
        let folder = tempfile::tempdir()?;
        let (_, blueprint) = blueprint(rig, bearers)?;
        let mut node = Node::restore(rig.eal, blueprint, store(&folder)?)?;
        let settings = add_bearers(&mut node, bearers)?;
        wait_durable(&mut node)?;
        Ok(Restart { rig, folder, node, bearers, settings })
    }

    /// Gives commands that change bearers, by several clients, each of which waits for its
    /// answer.
    ///
    /// # Errors
    /// When a command is refused.
    pub fn commands(&mut self, how: &Commands) -> Result<Commanded, Failure> {
        // Clients that have not ended. A node that keeps things always has something to do.
        let (at_work, handle) = (AtomicUsize::new(how.clients), self.node.handle());
        let (count, latencies) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let begun = Instant::now();
        let failure = Mutex::new(None);
        let (bearers, settings, node) = (self.bearers, &self.settings, &mut self.node);
        thread::scope(|scope| {
            for client in 0..how.clients as u32 {
                let (handle, count, latencies) = (handle.clone(), &count, &latencies);
                let (at_work, failure) = (&at_work, &failure);
                scope.spawn(move || {
                    // Every client has bearers of its own, spread over all.
                    let mut next = client;
                    while begun.elapsed() < how.length {
                        let ids = (0..how.batch as u32)
                            .map(|at| (next + at * how.clients as u32) % bearers);
                        let commands: Vec<_> = ids.map(|id| change(id, settings)).collect();
                        next = (next + (how.batch * how.clients) as u32) % bearers;
                        let since = Instant::now();
                        let asked = handle.ask_durable(move |agent: &mut Agent| {
                            agent.change_bearers(&commands).map_err(|error| error.to_string())
                        });
                        let outcome = asked.map_err(|error| error.to_string());
                        let outcome = outcome.and_then(|(changed, kept)| {
                            kept.map_err(|why| why.to_string())?;
                            changed
                        });
                        match outcome {
                            Ok(_) => {
                                count.fetch_add(how.batch as u64, Ordering::Relaxed);
                                if let Ok(mut all) = latencies.lock() {
                                    all.push(since.elapsed());
                                }
                            }
                            Err(why) => {
                                if let Ok(mut failure) = failure.lock() {
                                    *failure = Some(why);
                                }
                                break;
                            }
                        }
                    }
                    at_work.fetch_sub(1, Ordering::Release);
                });
            }
            while at_work.load(Ordering::Acquire) > 0 {
                if !node.step() {
                    thread::sleep(Duration::from_micros(50));
                }
            }
        });
        if let Ok(Some(why)) = failure.into_inner() {
            return Err(why.into());
        }
        let mut latencies = latencies.into_inner().unwrap_or_default();
        latencies.sort_unstable();
        let p99 = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default();
        let per_second = count.into_inner() as f64 / how.length.as_secs_f64();
        Ok(Commanded { per_second, p99 })
    }

    /// Contexts of all bearers are on the disk.
    ///
    /// # Errors
    /// When they are not in time.
    pub fn checkpoint_all(&mut self) -> Result<(), Failure> {
        let (told, tells) = channel();
        self.node.agent().checkpoint_all(move |contexts| {
            // Who waits may have given up.
            let _ = told.send(contexts);
        });
        let begun = Instant::now();
        loop {
            while self.node.step() {}
            match tells.recv_timeout(Duration::from_millis(1)) {
                Ok(_) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < PATIENCE => {}
                Err(_) => return Err("contexts are not kept, or the disk is slow".into()),
            }
        }
    }

    /// What is on the disk at this moment is all that another node has.
    ///
    /// # Errors
    /// When it does not start, or a user's packet does not leave.
    pub fn kill_and_start(mut self, loading: Loading) -> Result<Started, Failure> {
        let left = tempfile::tempdir()?;
        wait_until_at_rest(&mut self.node)?;
        fs::copy(self.folder.path().join("state.redb"), left.path().join("state.redb"))?;
        let Restart { rig, bearers, folder, node, .. } = self;
        drop(node);
        drop(folder);
        let ([access, core], mut blueprint) = blueprint(rig, bearers)?;
        blueprint.state.iter_mut().for_each(|state| state.loading = loading);
        let users = (bearers, FRAME_BYTES);
        let name = format!("traffic{}", rig.serial());
        let packets = FirstPackets::of(rig.eal, &name, users, DESCRIPTORS)?;
        let begun = Instant::now();
        let node = Node::restore(rig.eal, blueprint, store(&left)?)?.start(rig.eal)?;
        let (ready, handle) = (begun.elapsed(), node.handle());
        // It is answered once all is there.
        let asking = handle.clone();
        let asked = thread::spawn(move || asking.ask(|_| Instant::now()));
        let passed = packets.pass(rig.eal, &access, &core);
        let loaded = asked.join().map_err(|_| "a thread has panicked")??;
        let passed = passed?;
        let drops = handle.ask(|agent| agent.snapshot().drops)?;
        drop(handle);
        node.stop();
        if let Some(drop) = drops.iter().find(|drop| drop.packets > 0) {
            return Err(format!("{} packets were dropped: {}", drop.packets, drop.reason).into());
        }
        Ok(Started {
            ready,
            first: passed.first - begun,
            half: passed.time_of(0.5) - begun,
            all: passed.all - begun,
            before_loaded: passed.share_by(loaded),
        })
    }
}

/// Adds so many bearers, each with a tunnel of its own; returns what they were given.
pub(super) fn add_bearers(node: &mut Node, bearers: u32) -> Result<Settings, Failure> {
    let tunnel = json!({"tunnel": {"teid": 1, "peer": "10.9.0.1", "local": "10.9.0.254"}});
    let settings = node.agent().settings("to-radio", &tunnel);
    let settings = settings.map_err(|wrong| wrong.to_string())?;
    for first in (0..bearers).step_by(AT_ONCE as usize) {
        let ids = first..bearers.min(first + AT_ONCE);
        let commands: Vec<_> = ids.map(|id| add(id, &settings)).collect();
        node.agent().change_bearers(&commands)?;
        while node.step() {}
    }
    Ok(settings)
}

/// Waits until everything so far is durable.
fn wait_durable(node: &mut Node) -> Result<(), Failure> {
    let (told, tells) = channel();
    node.agent().when_durable(Box::new(move |outcome| drop(told.send(outcome))));
    while node.step() {}
    let outcome = tells.recv().map_err(|error| error.to_string())?;
    outcome.map_err(|why| why.to_string().into())
}

/// Waits until nothing is being written any more: a file that is written cannot be copied as it is
/// at one moment. The agent has no rounds meanwhile, and so gives nothing more to write.
fn wait_until_at_rest(node: &mut Node) -> Result<(), Failure> {
    let begun = Instant::now();
    while node.agent().state_view().is_some_and(|view| view.behind > 0) {
        if begun.elapsed() > PATIENCE {
            return Err("the disk does not keep up".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn add(id: u32, settings: &Settings) -> BearerCommand {
    let keys = vec![
        UserKey::Ipv4 { network: 0, first: (0x0a00_0000 + id).into() },
        UserKey::Teid { network: 0, first: 1 + id },
    ];
    BearerCommand::Add {
        id: BearerId(id.into()),
        detection: Detection::User { like: "like".to_owned(), nth: 0, keys, user: None },
        action: Action::Forward,
        settings: vec![given(id, settings)],
    }
}

fn change(id: u32, settings: &Settings) -> BearerCommand {
    BearerCommand::Change {
        id: BearerId(id.into()),
        action: Some(Action::Forward),
        settings: vec![given(id, settings)],
        end_marker: false,
    }
}

fn given(id: u32, settings: &Settings) -> BearerSettings {
    BearerSettings { function: "to-radio".to_owned(), settings: settings.clone(), nth: id }
}

/// Devices and configuration of a node with room for so many bearers.
pub(super) fn blueprint(rig: &Rig, bearers: u32) -> Result<([String; 2], Blueprint), Failure> {
    let ring = |side: &str| format!("ring:bench-{side}{}", rig.serial());
    let devices = [ring("access"), ring("core")];
    let blueprint = read(&document_at(&devices, bearers))?;
    Ok((devices, blueprint))
}

pub(super) fn read(document: &Value) -> Result<Blueprint, Failure> {
    let blueprint = config::read(&document.to_string(), "bench", KINDS);
    Ok(blueprint.map_err(|error| error.to_string())?)
}

/// The configuration at these devices.
pub(super) fn document_at([access, core]: &[String; 2], bearers: u32) -> Value {
    json!({
        "apiVersion": "weft/v1",
        "kind": "Node",
        "metadata": {"name": "bench"},
        "workers": {"polling": "busy"},
        "memory": {"packets": MEMORY},
        "limits": {"users": bearers + 1},
        "gtpu": {"echoInterval": 0},
        "state": {"directory": "unused"},
        "ports": {
            "access": {"device": access, "direction": "uplink", "descriptors": DESCRIPTORS},
            "core": {"device": core, "direction": "downlink", "descriptors": DESCRIPTORS},
        },
        "functions": {
            "count": {"function": "counter"},
            "police": {"function": "marker", "config": {"meter": {"singleRate":
                {"committedRate": "1 Gbit/s", "committedBurst": "64 KiB"}}}},
            "to-radio": {"function": "gtpu-encapsulate"},
        },
        "users": [{"name": "like", "match": {"ipv4": "9.0.0.1", "teid": 0xf000_0000_u32}}],
        "rules": "from access -> count\nfrom count when direction == downlink -> to-radio\n\
                  from count -> police\nfrom police -> core\nfrom core -> count\n\
                  from to-radio -> access\n",
    })
}
