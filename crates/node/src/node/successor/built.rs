//! The node of the new process before it is started: contexts come, and what the other process
//! has carried is left out.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weft_dataplane::worker::Copies;
use weft_dpdk::{Ingress, await_delivery};
use weft_node_config::Blueprint;
use weft_offload::process::Supervisor;

use crate::agent::{Agent, Offer, take_neighbours};
use crate::node::Node;
use crate::node::conversation::{Drained, UpgradeError};
use crate::ports::Means;

/// How long processes of functions may take to come, how often they may fail, and how often they
/// are looked for.
const COMING: Duration = Duration::from_secs(10);
const FAILURES: u64 = 3;
const LOOK: Duration = Duration::from_millis(20);
/// How long the kernel may take to deliver a packet to both processes, where it does not say.
const DELIVERY: Duration = Duration::from_millis(100);

/// A function of this process whose contexts come, and their slots.
pub(super) struct Destination {
    pub number: u16,
    pub slots: Vec<Option<u32>>,
}

/// A node that is built and waits for contexts.
pub(super) struct Built {
    pub node: Node,
    /// By the number of the function at the other process.
    pub destinations: Vec<Option<Destination>>,
    pub ingress: Vec<(u16, String, Ingress)>,
    /// Functions whose sockets the other process has: where they belong.
    pub sockets: Vec<(usize, PathBuf)>,
}

impl Built {
    /// Takes contexts as the other process sends them.
    pub fn import(&mut self, octets: &[u8]) -> Result<(), UpgradeError> {
        let damaged = || UpgradeError::Foreign("contexts that are none");
        let (function, mut rest) = octets.split_first_chunk().ok_or_else(damaged)?;
        let number = usize::from(u16::from_le_bytes(*function));
        let destination = self.destinations.get(number).ok_or_else(damaged)?;
        let shift = self.node.agent.workers.shift();
        let mut given = Vec::new();
        while !rest.is_empty() {
            let (at, behind) = rest.split_first_chunk().ok_or_else(damaged)?;
            let (length, behind) = behind.split_first_chunk().ok_or_else(damaged)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (octets, behind) = behind.split_at_checked(length).ok_or_else(damaged)?;
            rest = behind;
            let Some(Destination { number, slots }) = destination else { continue };
            let slot = slots.get(u32::from_le_bytes(*at) as usize).ok_or_else(damaged)?;
            if let (Some(slot), false) = (slot, octets.is_empty()) {
                let worker = &mut self.node.workers[shift.worker(*slot)];
                let taken = worker.begin_with_context(*number, *slot, octets);
                taken.map_err(|error| self.not_taken(*number, &error))?;
                given.push(*slot);
            }
        }
        let Some(Destination { number, .. }) = destination else { return Ok(()) };
        self.wait_for_process(*number, &given)
    }

    /// Waits until the process of a function has contexts that it was given, where it is in one.
    fn wait_for_process(&self, number: u16, slots: &[u32]) -> Result<(), UpgradeError> {
        let Agent { configuration, functions, workers, .. } = &self.node.agent;
        let plan = &configuration.blueprint.functions[usize::from(number)];
        let process = plan.process.as_ref().filter(|_| plan.is_isolated());
        let Some(process) = process.filter(|_| !slots.is_empty()) else { return Ok(()) };
        let function = (&*plan.name, process.started);
        let taken = functions.wait_for_imports(function, slots, workers.shift());
        taken.map_err(|error| self.not_taken(number, &error))
    }

    fn not_taken(&self, number: u16, why: &dyn Display) -> UpgradeError {
        let functions = &self.node.agent.configuration.blueprint.functions;
        let name = &functions[usize::from(number)].name;
        UpgradeError::Refused(format!("function {name}: a context: {why}"))
    }

    /// Waits for the processes of functions, which fail some times at most.
    pub fn wait_for_functions(&self) -> Result<(), UpgradeError> {
        let until = Instant::now() + COMING;
        while let Some(name) = self.node.wait_for_functions(LOOK) {
            let supervisor = self.node.agent.functions.supervisor(&name);
            let view = supervisor.map(Supervisor::view).unwrap_or_default();
            if view.failures >= FAILURES || Instant::now() >= until {
                let why = view.last_failure;
                let why = why.unwrap_or_else(|| "it does not attach to its ring".to_owned());
                let why = format!("function {name}: its process does not come: {why}");
                return Err(UpgradeError::Refused(why));
            }
        }
        Ok(())
    }

    /// Contexts have settings in them; those of the configuration hold.
    pub fn settle(&mut self, offer: &Offer) {
        let Node { agent, workers, .. } = &mut self.node;
        for number in 0..agent.configuration.blueprint.functions.len() {
            for configure in agent.subscribers.users.settings_of(number) {
                workers[agent.workers.owner(configure.slot)].begin_with_settings(&configure);
            }
        }
        agent.restoration(workers).take_on_sessions();
        agent.workers.apply_commands(workers);
        let Agent { ports, workers, answers: pool, clock, .. } = agent;
        take_neighbours(&offer.neighbours, ports, &mut Means { workers, pool }, clock.now());
    }

    /// Puts sockets of functions where they belong.
    pub fn put_in_place(&mut self) {
        let Agent { configuration, functions, .. } = &mut self.node.agent;
        for (number, socket) in self.sockets.drain(..) {
            let plan = &mut configuration.blueprint.functions[number];
            if let Err(error) = functions.put_in_place(&plan.name, &socket) {
                let (function, path) = (&plan.name, socket.display());
                tracing::error!(function, %path, %error, "nothing can attach to its ring");
            }
            plan.process.iter_mut().for_each(|process| process.socket = Some(socket.clone()));
        }
    }

    /// Leaves out what the other process has carried.
    pub fn leave_out(&mut self, mut drained: Drained) -> io::Result<()> {
        let of_port = |(number, name, _): &(u16, String, Ingress)| {
            let (_, seen) = drained.seen.remove(name)?;
            Some((*number, seen.into_iter().collect()))
        };
        let copies = Arc::new(Copies::new(self.ingress.iter().filter_map(of_port).collect()));
        self.node.leave_out(&copies);
        let wait = move || {
            if let Err(error) = await_delivery() {
                tracing::debug!(%error, "waits for copies of packets without the kernel's help");
                thread::sleep(DELIVERY);
            }
            copies.end();
            tracing::debug!(packets = copies.dropped(), "the other process had them");
        };
        thread::Builder::new().name("copies".to_owned()).spawn(wait)?;
        Ok(())
    }
}

/// Lets sockets of functions lie beside those that the other process has; returns where they
/// belong.
pub(super) fn set_aside(blueprint: &mut Blueprint) -> Vec<(usize, PathBuf)> {
    let functions = blueprint.functions.iter_mut().enumerate();
    let sockets = functions.filter_map(|(number, plan)| {
        let socket = plan.process.as_mut()?.socket.as_mut()?;
        let mut beside = socket.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        Some((number, std::mem::replace(socket, beside.into())))
    });
    sockets.collect()
}
