//! A chain on a machine, and the templates that make a [`System`] of it: one for
//! each way to link functions.
//!
//! The formulas of Bauer et al., §V, for a chain of n functions:
//!
//! - software links: C_NIC = C_NIC,RX + C_NIC,TX and
//!   C_CPU = C_CPU,RX + n·C_SF + (n − 1)·C_SW + C_CPU,TX, the bus once;
//! - SR-IOV: C_NIC = C_NIC,RX + (n + 1)·C_NIC,switch + C_NIC,TX and
//!   C_CPU = n·(C_CPU,RX + C_SF + C_CPU,TX), the bus n times.
//!
//! The others are ours, in the same terms. Where functions differ, n·C_SF is the sum
//! over them.

use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;

use crate::costs::Costs;
use crate::graph::{Charge, Class, Kind, Part, System};
use crate::hardware::Hardware;
use crate::mixture::Mixture;
pub use crate::mixture::Traffic;

/// How the functions of a chain are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum Composition {
    /// Links in software, veth pairs say: packets stay with the CPU.
    SoftwareLinks,
    /// Virtual functions of a NIC, which switches between functions.
    SrIov,
    /// Compound: all functions in one thread, each called for a burst.
    Call,
    /// Compound: all functions in one piece of machine code.
    Fused,
    /// Functions on cores of their own in one process, linked by rings.
    Thread,
    /// A virtual machine for each function, behind a virtual switch.
    Classical,
    /// A process for each function, behind rings.
    Process,
    /// Functions on other nodes, reached by tunnels.
    Remote,
}

impl Composition {
    /// All of them.
    pub const ALL: [Composition; 8] = [
        Composition::SoftwareLinks,
        Composition::SrIov,
        Composition::Call,
        Composition::Fused,
        Composition::Thread,
        Composition::Classical,
        Composition::Process,
        Composition::Remote,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Composition::SoftwareLinks => "softwareLinks",
            Composition::SrIov => "srIov",
            Composition::Call => "call",
            Composition::Fused => "fused",
            Composition::Thread => "thread",
            Composition::Classical => "classical",
            Composition::Process => "process",
            Composition::Remote => "remote",
        }
    }

    /// Whether it is a way of a node of ours, with costs of its own.
    fn is_node(self) -> bool {
        use Composition::{Classical, SoftwareLinks, SrIov};
        !matches!(self, SoftwareLinks | SrIov | Classical)
    }

    /// Whether functions can have cores of their own.
    pub fn has_function_cores(self) -> bool {
        use Composition::{Classical, Process, Remote, Thread};
        matches!(self, Thread | Classical | Process | Remote)
    }
}

/// Traffic that takes chains on a machine.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The machine.
    pub hardware: Hardware,
    /// What the steps of the way cost.
    pub costs: Costs,
    /// How functions are linked.
    pub composition: Composition,
    /// Cores that share the ports' packets evenly, from 1.
    pub workers: usize,
    /// Cores that functions have to themselves, where the composition allows it; 0
    /// leaves functions on the workers' cores.
    pub function_cores: usize,
    /// The traffic.
    pub traffic: Vec<Traffic>,
}

/// A scenario that cannot be reckoned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScenarioError {
    /// A function without a cost.
    #[error("no cost is known of the function `{0}`")]
    UnknownFunction(String),
    /// A machine without a clock rate.
    #[error("the machine's cpu has no frequency")]
    NoFrequency,
    /// No traffic, or shares that are not numbers from 0 with a sum above 0.
    #[error("the shares of the traffic are no numbers from 0 with a sum above 0")]
    Shares,
}

/// A scenario on its way to become a system.
struct Builder<'s> {
    scenario: &'s Scenario,
    mixture: Mixture<'s>,
    system: System,
    line: Option<usize>,
    packets: Option<usize>,
    processing: Option<usize>,
    bus: Option<usize>,
    memory: Option<usize>,
    link: Option<usize>,
    workers: usize,
    /// Empty where functions have no cores of their own.
    function_cores: Vec<usize>,
}

impl Scenario {
    /// The system of components and costs.
    ///
    /// # Errors
    /// [`ScenarioError`]: what the file does not say.
    pub fn system(&self) -> Result<System, ScenarioError> {
        let is_right = |traffic: &Traffic| traffic.share.is_finite() && traffic.share >= 0.0;
        let sum: f64 = self.traffic.iter().map(|traffic| traffic.share).sum();
        if !self.traffic.iter().all(is_right) || sum <= 0.0 {
            return Err(ScenarioError::Shares);
        }
        let mut builder = Builder::new(self)?;
        for traffic in &self.traffic {
            let class = builder.class(traffic)?;
            builder.system.classes.push(class);
        }
        Ok(builder.system)
    }

    /// The same with every chain of `length` functions: as many of its own as there
    /// are, and from the first again.
    pub fn with_length(&self, length: usize) -> Scenario {
        let mut scenario = self.clone();
        for traffic in &mut scenario.traffic {
            let own = traffic.functions.clone();
            traffic.functions = own.iter().cycle().take(length).cloned().collect();
        }
        scenario
    }

    /// The same with all frames of one size.
    pub fn with_size(&self, size: f64) -> Scenario {
        let mut scenario = self.clone();
        scenario.traffic.iter_mut().for_each(|traffic| traffic.size = size);
        scenario
    }

    /// Switching decisions of the NIC for each packet, as the text of Bauer et al.
    /// counts them (n) and as their formula does (n + 1); none without a switch in
    /// the NIC.
    pub fn switching_decisions(&self) -> Option<(f64, f64)> {
        use crate::costs::Decisions::{Formula, Text};
        let sum: f64 = self.traffic.iter().map(|traffic| traffic.share).sum();
        let mean = |decisions: crate::costs::Decisions| -> f64 {
            let of =
                |traffic: &Traffic| traffic.share / sum * decisions.of(traffic.functions.len());
            self.traffic.iter().map(of).sum()
        };
        (self.composition == Composition::SrIov).then(|| (mean(Text), mean(Formula)))
    }

    /// Bits that each packet moves over the bus in one direction, the mean over the
    /// traffic.
    pub fn bus_bits(&self) -> f64 {
        let sum: f64 = self.traffic.iter().map(|traffic| traffic.share).sum();
        let bits = self.traffic.iter().map(|one| one.share / sum * self.bus_bits_of(one));
        bits.sum()
    }

    fn bus_bits_of(&self, Traffic { size, functions, .. }: &Traffic) -> f64 {
        let (once, functions) = (self.hardware.bus_bits(*size), functions.len() as f64);
        match self.composition {
            Composition::SrIov => functions * once,
            Composition::Remote => {
                once + functions * self.hardware.bus_bits(size + self.costs.tunnel_bytes())
            }
            _ => once,
        }
    }

    /// Bytes of a frame, the mean over the traffic.
    pub fn mean_size(&self) -> f64 {
        let sum: f64 = self.traffic.iter().map(|traffic| traffic.share).sum();
        self.traffic.iter().map(|traffic| traffic.share / sum * traffic.size).sum()
    }
}

impl<'s> Builder<'s> {
    fn new(scenario: &'s Scenario) -> Result<Self, ScenarioError> {
        let Scenario { hardware, composition, workers, function_cores, .. } = scenario;
        let frequency = hardware.cpu.frequency.ok_or(ScenarioError::NoFrequency)?.0;
        let mut system = System::default();
        let mut add = |name: &str, part, kind, capacity: Option<f64>| {
            capacity.map(|capacity| system.component(name, part, kind, capacity))
        };
        let nic = &hardware.nic;
        let line =
            add("NIC line rate", Part::NicLine, Kind::Bits, nic.line_rate.map(|rate| rate.0));
        let packets = nic.packet_rate.map(|rate| rate.0);
        let packets = add("NIC packet rate", Part::NicPackets, Kind::Packets, packets);
        let processing = nic.frequency.map(|rate| rate.0);
        let processing = add("NIC processing", Part::NicProcessing, Kind::Cycles, processing);
        let bus = hardware.pcie.bandwidth.map(|rate| rate.0);
        let bus = add("PCIe bus", Part::Bus, Kind::Bits, bus);
        let memory = hardware.memory.bandwidth.map(|rate| rate.0);
        let memory = add("memory", Part::Memory, Kind::Bits, memory);
        let link = hardware.software_link.packet_rate.map(|rate| rate.0);
        let link = link.filter(|_| *composition == Composition::SoftwareLinks);
        let link = add("software link", Part::SoftwareLink, Kind::Packets, link);
        let workers = (*workers).max(1);
        let name = match workers {
            1 => "worker core".to_owned(),
            many => format!("{many} worker cores"),
        };
        let capacity = frequency * workers as f64;
        let workers = system.component(name, Part::WorkerCores, Kind::Cycles, capacity);
        let (own, name, part) = match composition {
            Composition::Remote => ((*function_cores).max(1), "remote core", Part::RemoteCore),
            _ => (*function_cores, "function core", Part::FunctionCore),
        };
        let own = if composition.has_function_cores() { own } else { 0 };
        let function_cores = (1..=own).map(|number| {
            system.component(format!("{name} {number}"), part, Kind::Cycles, frequency)
        });
        let function_cores = function_cores.collect();
        Ok(Builder {
            scenario,
            mixture: Mixture::of(&scenario.traffic),
            system,
            line,
            packets,
            processing,
            bus,
            memory,
            link,
            workers,
            function_cores,
        })
    }

    /// What a packet costs, in the order of its way.
    fn class(&self, traffic: &Traffic) -> Result<Class, ScenarioError> {
        let mut way = PacketCharges { charges: Vec::new(), size: traffic.size };
        self.nic(&mut way, traffic);
        let cpu = &self.scenario.costs.cpu;
        if self.scenario.composition == Composition::SrIov {
            for name in &traffic.functions {
                way.cycles(self.workers, "receive", &cpu.receive);
                self.function(&mut way, name, self.workers, false)?;
                way.cycles(self.workers, "transmit", &cpu.transmit);
                way.cycles(self.workers, "virtual function", &cpu.virtual_function);
            }
        } else {
            way.cycles(self.workers, "receive", &cpu.receive);
            if self.scenario.composition.is_node() {
                way.cycles(self.workers, "node", &cpu.node);
                if !traffic.functions.is_empty() {
                    way.cycles(self.workers, "chain", &cpu.chain);
                }
                let others = self.mixture.others(&traffic.functions);
                way.times(others, self.workers, "mix", &cpu.mix);
            }
            self.chain(&mut way, &traffic.functions)?;
            way.cycles(self.workers, "transmit", &cpu.transmit);
        }
        Ok(Class { name: traffic.name.clone(), share: traffic.share, charges: way.charges })
    }

    /// What it costs at the NIC, on the bus and in memory.
    fn nic(&self, way: &mut PacketCharges, traffic: &Traffic) {
        let Scenario { hardware, costs, composition, .. } = self.scenario;
        let functions = traffic.functions.len();
        // To other nodes and back, each time in a tunnel.
        let trips = if *composition == Composition::Remote { functions as f64 } else { 0.0 };
        let tunnelled = traffic.size + costs.tunnel_bytes();
        let bits = hardware.line_bits(traffic.size) + trips * hardware.line_bits(tunnelled);
        way.add(self.line, "frame", bits);
        let nic = &costs.nic;
        let (receive, transmit) = (nic.receive.unwrap_or(0.0), nic.transmit.unwrap_or(0.0));
        way.add(self.processing, "receive", receive * (1.0 + trips));
        let mut packets = 1.0 + trips;
        if *composition == Composition::SrIov {
            let decisions = nic.decisions.of(functions);
            way.add(self.processing, "switch", nic.switch.unwrap_or(0.0) * decisions);
            packets = 1.0 + functions as f64;
        }
        way.add(self.processing, "transmit", transmit * (1.0 + trips));
        way.add(self.packets, "packet", packets);
        let bus = self.scenario.bus_bits_of(traffic);
        way.add(self.bus, "transfer", bus);
        // In and out by the NIC; each copy reads and writes.
        way.add(self.memory, "transfer", 2.0 * bus);
        if matches!(composition, Composition::Process | Composition::Classical) {
            let copies = 2.0 * functions as f64;
            way.add(self.memory, "copy", copies * 2.0 * traffic.size * 8.0);
        }
        if *composition == Composition::SoftwareLinks && functions > 1 {
            way.add(self.link, "packet", 1.0);
        }
    }

    /// What the functions and the ways between them cost.
    fn chain(&self, way: &mut PacketCharges, functions: &[String]) -> Result<(), ScenarioError> {
        let cpu = &self.scenario.costs.cpu;
        let composition = self.scenario.composition;
        // One function has no neighbour to be fused with: a node calls it.
        let is_called = functions.len() == 1 && cpu.machine_code.is_some();
        let is_fused = composition == Composition::Fused && !is_called;
        if is_fused && !functions.is_empty() {
            way.cycles(self.workers, "machine code", &cpu.machine_code);
        }
        let mut at = self.workers;
        for (index, name) in functions.iter().enumerate() {
            let core = self.core(index, functions.len());
            match composition {
                Composition::SoftwareLinks if index > 0 => {
                    way.cycles(self.workers, "software link", &cpu.software_link);
                }
                Composition::Thread => self.cross(way, &mut at, core),
                _ => self.there(way, core),
            }
            if composition.is_node() && !is_fused {
                let dilution = self.mixture.dilution(functions, index);
                way.times(dilution, core, "hop", &cpu.hop);
            }
            self.function(way, name, core, is_fused)?;
            self.back(way, core);
        }
        match composition {
            Composition::Thread => self.cross(way, &mut at, self.workers),
            Composition::Classical => {
                way.cycles(self.workers, "virtual switch", &cpu.virtual_switch);
            }
            _ => {}
        }
        Ok(())
    }

    /// From the worker to a function in a process, a machine or another node.
    fn there(&self, way: &mut PacketCharges, core: usize) {
        let cpu = &self.scenario.costs.cpu;
        match self.scenario.composition {
            Composition::Process => {
                way.cycles(self.workers, "ring", &cpu.ring);
                way.cycles(core, "ring", &cpu.ring);
            }
            Composition::Classical => {
                way.cycles(self.workers, "virtual switch", &cpu.virtual_switch);
                way.cycles(self.workers, "ring", &cpu.ring);
                way.cycles(core, "ring", &cpu.ring);
            }
            Composition::Remote => {
                way.cycles(self.workers, "encapsulate", &cpu.encapsulate);
                way.cycles(self.workers, "transmit", &cpu.transmit);
                way.cycles(core, "receive", &cpu.receive);
                way.cycles(core, "node", &cpu.node);
                way.cycles(core, "decapsulate", &cpu.decapsulate);
            }
            _ => {}
        }
    }

    /// And back from there.
    fn back(&self, way: &mut PacketCharges, core: usize) {
        let cpu = &self.scenario.costs.cpu;
        match self.scenario.composition {
            Composition::Process | Composition::Classical => {
                way.cycles(core, "ring", &cpu.ring);
                way.cycles(self.workers, "ring", &cpu.ring);
            }
            Composition::Remote => {
                way.cycles(core, "encapsulate", &cpu.encapsulate);
                way.cycles(core, "transmit", &cpu.transmit);
                way.cycles(self.workers, "receive", &cpu.receive);
                way.cycles(self.workers, "decapsulate", &cpu.decapsulate);
            }
            _ => {}
        }
    }

    /// From core to core by a ring, if they differ.
    fn cross(&self, way: &mut PacketCharges, at: &mut usize, core: usize) {
        if *at != core {
            let cpu = &self.scenario.costs.cpu;
            let ring = if cpu.thread.is_some() { &cpu.thread } else { &cpu.ring };
            way.cycles(*at, "ring", ring);
            way.cycles(core, "ring", ring);
            *at = core;
        }
    }

    /// The core of the function at an index of a chain. Threads take neighbours
    /// together, the others deal functions out in turn.
    fn core(&self, index: usize, functions: usize) -> usize {
        let cores = &self.function_cores;
        if cores.is_empty() {
            return self.workers;
        }
        match self.scenario.composition {
            Composition::Thread => {
                let each = functions.div_ceil(cores.len());
                cores[(index / each).min(cores.len() - 1)]
            }
            _ => cores[index % cores.len()],
        }
    }

    fn function(
        &self,
        way: &mut PacketCharges,
        name: &str,
        core: usize,
        is_fused: bool,
    ) -> Result<(), ScenarioError> {
        let cost = self.scenario.costs.function(name, is_fused);
        let cost = cost.ok_or_else(|| ScenarioError::UnknownFunction(name.to_owned()))?;
        way.add(Some(core), &format!("function {name}"), cost.at(way.size));
        Ok(())
    }
}

/// The charges of a packet on its way.
struct PacketCharges {
    charges: Vec<Charge>,
    size: f64,
}

impl PacketCharges {
    fn add(&mut self, component: Option<usize>, what: &str, cost: f64) {
        if let Some(component) = component.filter(|_| cost > 0.0) {
            self.charges.push(Charge { component, what: what.to_owned(), cost });
        }
    }

    fn cycles(&mut self, core: usize, what: &str, cost: &Option<crate::cost::Cost>) {
        self.times(1.0, core, what, cost);
    }

    /// So many times the cost.
    fn times(&mut self, times: f64, core: usize, what: &str, cost: &Option<crate::cost::Cost>) {
        let cost = cost.as_ref().map_or(0.0, |cost| cost.at(self.size));
        self.add(Some(core), what, times * cost);
    }
}
