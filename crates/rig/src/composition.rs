//! How the functions of a node under test are run, and what runs them elsewhere.
//!
//! A chain that is called or fused runs in the worker. Otherwise its functions share the
//! core that traffic has elsewhere: in one thread of the node, in processes of their own,
//! behind software VF or not, or at a second node, which a memory ring leads to. The node under test has a core of
//! its own either way.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use thiserror::Error;
use weft_node::{Agent, Node, Running};
use weft_switch::Child;

use crate::Failure;
use crate::Rig;
use crate::setup::{Composition, Devices, PACKETS, Setup, build};

/// How long functions elsewhere may take to be there.
const PATIENCE: Duration = Duration::from_secs(20);

/// The number of the service path of the first function.
const FIRST_PATH: usize = 10;
/// Longest packet between the two nodes: one of 1,500 octets in its headers.
pub(super) const FABRIC_MTU: u16 = 1700;
const NEAR: &str = "02:00:00:00:00:f1";
const FAR: &str = "02:00:00:00:00:f2";

/// A chain that was to be fused and is not: what is measured of it would be called so
/// wrongly.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the chain is not fused as it says: {} would be called; choose functions that can be \
         fused (`weft show fused` shows them)", .0.join(", "))]
pub struct NotFused(pub Vec<String>);

/// A node, and what runs its functions elsewhere.
pub struct Composed {
    /// The node under test.
    pub node: Node,
    /// Longest sleep of its worker between packets; none never sleeps.
    pub(super) pause: Option<Duration>,
    /// The node that its functions are at, if they are.
    serving: Option<Running>,
    /// The switch between them, which goes last.
    switch: Option<Child>,
}

impl Setup {
    /// Builds the node and what runs its functions, and waits until these are there.
    ///
    /// # Errors
    /// As [`Setup::build`]; when the machine has one core only and functions need another;
    /// or when they do not come.
    pub fn compose(&self, rig: &Rig, devices: &Devices) -> Result<Composed, Failure> {
        if !self.composition.is_elsewhere() {
            let mut document = self.document(devices);
            document["composition"] = json!(self.composition.name());
            let mut node = build(rig, &document)?;
            self.check_fused(node.agent())?;
            let pause = node.agent().blueprint().workers.pause();
            return Ok(Composed { node, pause, serving: None, switch: None });
        }
        let core = rig.cores.traffic()?;
        let fabric = format!("ring:bench-fabric{}", rig.serial());
        let mut document = self.document(devices);
        // Processes have sockets in a folder of the node's name.
        document["metadata"]["name"] = json!(format!("bench{}", rig.serial()));
        let functions = document["functions"].as_object_mut().into_iter().flatten();
        let named = self.composition != Composition::SoftwareVf;
        for (number, (_, function)) in functions.enumerate().filter(|_| named) {
            function["composition"] = json!(self.composition.name());
            let (key, how) = self.elsewhere(core, number);
            function[key] = how;
        }
        if self.composition == Composition::Remote {
            document["ports"]["fabric"] = port(&fabric, NEAR);
            // The node that runs functions has their settings.
            for block in document["users"].as_array_mut().into_iter().flatten() {
                block.as_object_mut().map(|block| block.remove("functions"));
            }
        }
        // What a thread starts, threads and processes, has the cores that it has.
        rig.on_core(core, || {
            let serving = match self.composition {
                Composition::Remote => Some(self.serving(rig, &fabric, core)?),
                _ => None,
            };
            let switch = match self.composition {
                Composition::SoftwareVf => Some(rig.software_vf(&mut document, self.share)?),
                _ => None,
            };
            let mut node = build(rig, &document)?;
            node.start_stages(rig.eal);
            let mut composed = Composed { node, pause: None, serving, switch };
            composed.wait()?;
            Ok(composed)
        })
    }

    /// A chain that is to be fused is, unless it is of one function, which has no neighbour.
    fn check_fused(&self, agent: &Agent) -> Result<(), NotFused> {
        if self.composition != Composition::Fused {
            return Ok(());
        }
        let is_alone = |name: &String| {
            let chains = self.chains.iter().map(|(_, functions)| functions);
            chains.filter(|functions| functions.contains(name)).all(|chain| chain.len() < 2)
        };
        let called = self.functions.iter().map(|(name, _)| name);
        let called = called.filter(|name| !is_alone(name) && !agent.is_fused(name));
        let called: Vec<String> = called.cloned().collect();
        if called.is_empty() { Ok(()) } else { Err(NotFused(called)) }
    }

    /// What a function's entry says of where it is run.
    fn elsewhere(&self, core: usize, number: usize) -> (&'static str, Value) {
        match self.composition {
            Composition::Thread => ("thread", json!({ "core": core })),
            Composition::Remote => (
                "remote",
                json!({
                    "path": FIRST_PATH + number, "port": "fabric", "to": FAR,
                    "timeout": 10_000, "probe": 1000,
                }),
            ),
            // Many share a core.
            _ => ("process", json!({ "heartbeat": 10_000, "checkpoint": 0 })),
        }
    }

    /// Starts the node that functions are at.
    fn serving(&self, rig: &Rig, fabric: &str, core: usize) -> Result<Running, Failure> {
        let (mut paths, mut rules) = (Map::new(), String::new());
        for (number, (name, _)) in self.functions.iter().enumerate() {
            let path = json!({
                "path": FIRST_PATH + number, "index": 255, "direction": "uplink",
                "port": "fabric", "to": NEAR,
            });
            paths.insert(format!("p{number}"), path);
            rules += &format!("from p{number} -> {name}\nfrom {name} -> p{number}\n");
        }
        let mut users = self.user_blocks();
        for block in &mut users {
            block.as_object_mut().map(|block| block.remove("chain"));
        }
        let node = build(
            rig,
            &json!({
                "apiVersion": "weft/v1",
                "kind": "Node",
                "metadata": {"name": "serving"},
                "workers": {
                    "cores": [core],
                    "polling": if self.adaptive { "adaptive" } else { "busy" },
                },
                "memory": {"packets": PACKETS},
                "ports": {"fabric": port(fabric, FAR)},
                "paths": paths,
                "functions": self.functions.iter().cloned().collect::<Map<_, _>>(),
                "users": users,
                "rules": rules + "from fabric -> drop\n",
            }),
        )?;
        Ok(node.start(rig.eal)?)
    }
}

impl Composed {
    /// A node whose functions need nothing else.
    pub(super) fn alone(node: Node) -> Composed {
        Composed { node, pause: None, serving: None, switch: None }
    }

    /// What the switch between node and functions has counted, if there is one.
    pub(super) fn switch(&self) -> Option<&Child> {
        self.switch.as_ref()
    }

    /// Waits until all functions are there.
    fn wait(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let absent = self.absent();
            let Some(absent) = absent else { return Ok(()) };
            if Instant::now() >= until {
                return Err(format!("{absent} was not there after {PATIENCE:?}").into());
            }
            self.node.step();
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn absent(&mut self) -> Option<String> {
        let functions = self.node.agent().snapshot().functions;
        let is_absent = |process: &weft_node::show::ProcessView| {
            !matches!(process.state.as_str(), "running" | "reachable")
        };
        functions.into_iter().find_map(|function| {
            function.process.is_some_and(|process| is_absent(&process)).then_some(function.name)
        })
    }
}

impl Drop for Composed {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop();
        }
    }
}

/// An end of the ring between the two nodes.
fn port(fabric: &str, mac: &str) -> Value {
    json!({"device": fabric, "direction": "uplink", "mac": mac, "mtu": FABRIC_MTU})
}
