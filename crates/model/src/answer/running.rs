//! A node that runs, as a system: what it could carry beside what it carries, from what it has
//! counted and, where there is one, a calibration of its machine.
//!
//! A node counts cycles at the bursts that it has now. A nearly idle node has small ones, whose
//! packets are dear; a calibration has the costs of full ones. Costs of a calibration therefore
//! come first, and what was counted fills in the functions that it does not have.

use super::{Answer, Lever};
use crate::calibration::Calibration;
use crate::cost::Cost;
use crate::graph::{Charge, Class, Kind, Part, System};

/// What a node has counted of its packets over some seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Cycles per second of the counter.
    pub frequency: f64,
    /// Workers.
    pub workers: usize,
    /// Packets per second that were received.
    pub rate: f64,
    /// Bytes of a frame with its checksum, the mean.
    pub size: f64,
    /// The node's own steps, in the order of a packet's way: their names, and their cycles for
    /// each packet.
    pub stages: Vec<(String, f64)>,
    /// The functions.
    pub functions: Vec<Visited>,
}

/// A function as a node has counted it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Visited {
    /// Name of the instance.
    pub name: String,
    /// What function it is.
    pub kind: String,
    /// Visits for each packet that the node received.
    pub share: f64,
    /// Cycles of a visit; none where none was timed.
    pub cycles: Option<f64>,
    /// Where it is run.
    pub place: Place,
}

/// Where a function is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On its worker's core, called.
    #[default]
    Worker,
    /// On its worker's core, in machine code with its neighbours.
    Fused,
    /// On a thread of that name.
    Thread(String),
    /// In a process, behind a NIC or at another node, whose cores the node does not see.
    Away,
}

/// A node's prediction of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The components, and what a packet costs there.
    pub system: System,
    /// The steps, with where their costs are from.
    pub steps: Vec<Step>,
    /// Most packets per second.
    pub rate: f64,
    /// What limits them.
    pub bottleneck: String,
    /// What brings most is first.
    pub changes: Vec<Change>,
    /// Functions whose cores the node does not see, or whose cost is not known.
    pub left_out: Vec<String>,
}

/// What a step costs for each packet that the node receives.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Where.
    pub component: String,
    /// What.
    pub what: String,
    /// Cycles that count here.
    pub cycles: f64,
    /// Cycles as they were counted, where they were.
    pub counted: Option<f64>,
    /// Whether the cycles are those of the calibration.
    pub calibrated: bool,
}

/// What would come of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What.
    pub what: What,
    /// The limit then, in packets per second.
    pub rate: f64,
    /// What would limit then.
    pub bottleneck: String,
}

/// What can be changed of a node that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// One more worker, on a core of its own.
    Worker,
    /// A thread of its own for a function.
    Thread(String),
    /// Functions that are called are fused.
    Fuse(Vec<String>),
    /// Half the cycles of a step.
    Half(String),
}

/// Changes that are told.
const CHANGES: usize = 5;
/// Functions that are looked at for a thread of their own.
const DEAREST: usize = 3;

impl Observed {
    /// What the node could carry; none where nothing was received or no clock is known.
    pub fn predict(&self, calibration: Option<&Calibration>) -> Option<Prediction> {
        let known = self.frequency.is_finite() && self.frequency > 0.0 && self.rate > 0.0;
        if !known || self.workers == 0 {
            return None;
        }
        let model = self.model(calibration);
        let limit = model.system.limit();
        if !limit.rate.is_finite() {
            return None;
        }
        let (rate, bottleneck) = (limit.rate, names(&model.system, &limit.bottleneck));
        let mut changes = self.changes(calibration, &model.system);
        changes.retain(|change| change.rate > rate * 1.005);
        changes.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        changes.truncate(CHANGES);
        let Built { system, steps, left_out } = model;
        Some(Prediction { system, steps, rate, bottleneck, changes, left_out })
    }

    fn model(&self, calibration: Option<&Calibration>) -> Built {
        let mut built = Builder::new(self, calibration);
        built.stages();
        built.machine_code();
        self.functions.iter().for_each(|function| built.function(function));
        built.done()
    }

    /// What each change alone brings.
    fn changes(&self, calibration: Option<&Calibration>, now: &System) -> Vec<Change> {
        let with = |what, observed: Observed| change(what, &observed.model(calibration).system);
        let one_more = Observed { workers: self.workers + 1, ..self.clone() };
        let mut changes = vec![with(What::Worker, one_more)];
        // Without a calibration nothing is known of the way between two cores or of machine code.
        let cpu = calibration.map(|calibration| &calibration.cpu);
        if cpu.is_some_and(|cpu| cpu.thread.is_some() || cpu.ring.is_some()) {
            changes.extend(self.on_threads().map(|(name, moved)| with(What::Thread(name), moved)));
        }
        if let Some((names, fused)) = calibration.and_then(|known| self.fused(known)) {
            changes.push(with(What::Fuse(names), fused));
        }
        let limit = now.limit();
        let answer = Answer {
            // As for all systems of one class.
            maximum_flow: limit.rate,
            limit,
            mean_size: self.size,
            switching_decisions: None,
            system: now.clone(),
        };
        let halves = answer.changes().into_iter().filter_map(|found| match found.what {
            Lever::Cost { what, .. } => Some(Change {
                what: What::Half(what),
                rate: found.rate,
                bottleneck: names(now, &found.bottleneck),
            }),
            Lever::Capacity(_) => None,
        });
        changes.extend(halves);
        changes
    }

    /// The dearest functions of workers, each on a thread of its own.
    fn on_threads(&self) -> impl Iterator<Item = (String, Observed)> {
        let cost = |at: usize| {
            let function = &self.functions[at];
            function.share * function.cycles.unwrap_or(0.0)
        };
        let called = |at: &usize| self.functions[*at].place == Place::Worker && cost(*at) > 0.0;
        let mut order: Vec<usize> = (0..self.functions.len()).filter(called).collect();
        order.sort_by(|&a, &b| cost(b).total_cmp(&cost(a)));
        order.into_iter().take(DEAREST).map(|at| {
            let mut moved = self.clone();
            let name = moved.functions[at].name.clone();
            moved.functions[at].place = Place::Thread(name.clone());
            (name, moved)
        })
    }

    /// All called functions whose fused cost is known in machine code; at least two.
    fn fused(&self, calibration: &Calibration) -> Option<(Vec<String>, Observed)> {
        calibration.cpu.machine_code.as_ref()?;
        let mut fused = self.clone();
        let known = |one: &Visited| find(&calibration.fused.0, one).is_some();
        let able = |one: &&mut Visited| one.place == Place::Worker && one.share > 0.0 && known(one);
        let mut names = Vec::new();
        for function in fused.functions.iter_mut().filter(able) {
            function.place = Place::Fused;
            names.push(function.name.clone());
        }
        (names.len() > 1).then_some((names, fused))
    }
}

/// A system on its way.
struct Builder<'o> {
    observed: &'o Observed,
    calibration: Option<&'o Calibration>,
    built: Built,
    charges: Vec<Charge>,
    workers: usize,
    enters_chain: bool,
}

#[derive(Default)]
struct Built {
    system: System,
    steps: Vec<Step>,
    left_out: Vec<String>,
}

impl<'o> Builder<'o> {
    fn new(observed: &'o Observed, calibration: Option<&'o Calibration>) -> Builder<'o> {
        let mut built = Built::default();
        let name = match observed.workers {
            1 => "the worker's core".to_owned(),
            many => format!("{many} workers' cores"),
        };
        let capacity = observed.frequency * observed.workers as f64;
        let workers = built.system.component(name, Part::WorkerCores, Kind::Cycles, capacity);
        let enters_chain = observed.functions.iter().any(|function| function.share > 0.0);
        Builder { observed, calibration, built, charges: Vec::new(), workers, enters_chain }
    }

    fn charge(&mut self, component: usize, what: &str, used: Used) {
        let Used { cycles, counted, calibrated } = used;
        let (what, component_name) =
            (what.to_owned(), self.built.system.components[component].name.clone());
        if cycles > 0.0 {
            self.charges.push(Charge { component, what: what.clone(), cost: cycles });
        }
        let step = Step { component: component_name, what, cycles, counted, calibrated };
        self.built.steps.push(step);
    }

    /// What a calibration has of a packet of this size.
    fn calibrated(&self, of: impl Fn(&Calibration) -> Option<&Cost>) -> Option<f64> {
        of(self.calibration?).map(|cost| cost.at(self.observed.size))
    }

    /// The node's own steps: a calibration knows reception, transmission, and all between them
    /// as one.
    fn stages(&mut self) {
        let stages = &self.observed.stages;
        let (first, last) = (0, stages.len().saturating_sub(1));
        let receive = self.calibrated(|known| known.cpu.receive.as_ref());
        let node = self.calibrated(|known| known.cpu.node.as_ref());
        let transmit = self.calibrated(|known| known.cpu.transmit.as_ref());
        let (Some(receive), Some(node), Some(transmit)) = (receive, node, transmit) else {
            for (name, cycles) in stages {
                self.charge(self.workers, name, Used::counted(*cycles));
            }
            return;
        };
        let chain = self.calibrated(|known| known.cpu.chain.as_ref()).unwrap_or(0.0);
        let node = node + if self.enters_chain { chain } else { 0.0 };
        let counted = |at: usize| stages.get(at).map(|(_, cycles)| *cycles);
        let between = (stages.len() > 2)
            .then(|| stages[first + 1..last].iter().map(|(_, cycles)| cycles).sum::<f64>());
        for (what, cycles, counted) in [
            ("receive", receive, counted(first)),
            ("parse, classify, forward", node, between),
            ("transmit", transmit, counted(last)),
        ] {
            self.charge(self.workers, what, Used { cycles, counted, calibrated: true });
        }
    }

    /// Entering the machine code of fused functions, once for each packet that goes there.
    fn machine_code(&mut self) {
        let fused = self.observed.functions.iter().filter(|one| one.place == Place::Fused);
        let share = fused.map(|one| one.share).fold(0.0, f64::max);
        let cost = self.calibrated(|known| known.cpu.machine_code.as_ref());
        if let Some(cost) = cost.filter(|cost| cost * share > 0.0) {
            self.charge(self.workers, "machine code", Used::calibrated(cost * share));
        }
    }

    fn function(&mut self, function: &Visited) {
        if function.share <= 0.0 {
            return;
        }
        let hop = self.calibrated(|known| known.cpu.hop.as_ref()).unwrap_or(0.0);
        let ring = self.calibrated(|known| known.cpu.ring.as_ref()).unwrap_or(0.0);
        let thread = self.calibrated(|known| known.cpu.thread.as_ref()).unwrap_or(ring);
        let (core, crossings, hop) = match &function.place {
            Place::Worker => (self.workers, None, hop),
            Place::Fused => (self.workers, None, 0.0),
            Place::Thread(name) => (self.thread(name), Some(thread), hop),
            Place::Away => {
                // Its own core is elsewhere; the worker gives and takes each packet.
                self.built.left_out.push(function.name.clone());
                if ring > 0.0 {
                    let used = Used::calibrated(2.0 * ring * function.share);
                    self.charge(self.workers, &format!("rings of {}", function.name), used);
                }
                return;
            }
        };
        let is_fused = function.place == Place::Fused;
        let own = self.calibrated(|known| {
            let fused = find(&known.fused.0, function).filter(|_| is_fused);
            fused.or_else(|| find(&known.functions.0, function))
        });
        let counted = function.cycles.map(|cycles| cycles * function.share);
        let used = match own {
            Some(own) => Used { cycles: (own + hop) * function.share, counted, calibrated: true },
            None => match counted {
                Some(cycles) => Used::counted(cycles),
                None => return self.built.left_out.push(function.name.clone()),
            },
        };
        self.charge(core, &function.name, used);
        if let Some(crossing) = crossings.filter(|crossing| *crossing > 0.0) {
            // There and back, with two ends at each core.
            let what = format!("crossing to {}", function.name);
            for core in [self.workers, core] {
                self.charge(core, &what, Used::calibrated(2.0 * crossing * function.share));
            }
        }
    }

    /// The core of a thread.
    fn thread(&mut self, name: &str) -> usize {
        let name = format!("the core of thread {name}");
        let components = &self.built.system.components;
        let known = components.iter().position(|component| component.name == name);
        known.unwrap_or_else(|| {
            let frequency = self.observed.frequency;
            self.built.system.component(name, Part::FunctionCore, Kind::Cycles, frequency)
        })
    }

    fn done(mut self) -> Built {
        let (name, share) = ("all packets".to_owned(), 1.0);
        self.built.system.classes.push(Class { name, share, charges: self.charges });
        self.built
    }
}

/// What counts of a step.
struct Used {
    cycles: f64,
    counted: Option<f64>,
    calibrated: bool,
}

impl Used {
    fn counted(cycles: f64) -> Used {
        Used { cycles, counted: Some(cycles), calibrated: false }
    }

    fn calibrated(cycles: f64) -> Used {
        Used { cycles, counted: None, calibrated: true }
    }
}

/// The cost of a function, by its own name or by that of its kind.
fn find<'c>(costs: &'c [(String, Cost)], function: &Visited) -> Option<&'c Cost> {
    let named = |name: &str| costs.iter().find(|(known, _)| known == name);
    named(&function.name).or_else(|| named(&function.kind)).map(|(_, cost)| cost)
}

fn change(what: What, system: &System) -> Change {
    let limit = system.limit();
    Change { what, rate: limit.rate, bottleneck: names(system, &limit.bottleneck) }
}

fn names(system: &System, components: &[usize]) -> String {
    let names = components.iter().filter_map(|&at| system.components.get(at));
    names.map(|component| component.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
