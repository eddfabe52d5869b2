//! The graph of a system's components, and its limit.
//!
//! A [`System`] is the directed graph of Bauer et al., §V: components with
//! capacities, in the order in which packets pass them. Each [`Class`] of traffic
//! says what its packets cost at each component that they visit. The limit is the
//! largest rate λ of all classes together with λ·Σ share·cost ≤ capacity at every
//! component; as shares are given, that linear program has one variable, and its
//! optimum is the least of capacity / Σ share·cost. The component where the least
//! stands is the bottleneck.

use std::fmt;

/// What is limited at a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bits per second on a link or a bus.
    Bits,
    /// Cycles per second of a processor.
    Cycles,
    /// Packets per second.
    Packets,
}

impl Kind {
    /// The unit of capacities.
    pub fn capacity_unit(self) -> &'static str {
        match self {
            Kind::Bits => "bit/s",
            Kind::Cycles => "cycles/s",
            Kind::Packets => "packets/s",
        }
    }

    /// The unit of costs.
    pub fn cost_unit(self) -> &'static str {
        match self {
            Kind::Bits => "bit",
            Kind::Cycles => "cycles",
            Kind::Packets => "packets",
        }
    }
}

/// Which part of a machine a component is; a limit that is lifted is lifted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The line of the NIC, in each direction.
    NicLine,
    /// Packets that the NIC takes from the line and from its switch.
    NicPackets,
    /// Computational resources of the NIC.
    NicProcessing,
    /// The bus between NIC and memory, in each direction.
    Bus,
    /// Memory.
    Memory,
    /// The cores that have the ports.
    WorkerCores,
    /// A core that functions have to themselves.
    FunctionCore,
    /// A link in software.
    SoftwareLink,
    /// The core of a node elsewhere.
    RemoteCore,
}

/// A component with its capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Its name, for people.
    pub name: String,
    /// Which part of the machine it is.
    pub part: Part,
    /// What is limited.
    pub kind: Kind,
    /// How much of it there is in a second.
    pub capacity: f64,
}

/// What a packet of a class costs at a component.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    /// Index of the component.
    pub component: usize,
    /// What for: "receive", the name of a function.
    pub what: String,
    /// How much per packet, in the component's unit.
    pub cost: f64,
}

/// Packets that are alike in cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name, for people.
    pub name: String,
    /// Its share of all packets; shares need not add up to one.
    pub share: f64,
    /// What its packets cost, in the order of their way.
    pub charges: Vec<Charge>,
}

/// Components, and the traffic that passes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct System {
    /// The components.
    pub components: Vec<Component>,
    /// The traffic.
    pub classes: Vec<Class>,
}

/// What a component bears.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Cost per packet, the mean over all classes by share, in the component's unit.
    pub cost: f64,
    /// The rate that it allows, in packets per second; infinite without cost.
    pub limit: f64,
    /// The share of its capacity that is in use at the system's limit.
    pub utilisation: f64,
}

/// The limit of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The largest rate of all classes together, in packets per second. Infinite
    /// where nothing costs anything.
    pub rate: f64,
    /// The saturated components, as indices; several only in a tie.
    pub bottleneck: Vec<usize>,
    /// What each component bears.
    pub loads: Vec<Load>,
}

/// Rates that differ by less than this share are the same.
const TIE: f64 = 1e-9;

impl System {
    /// Adds a component; returns its index.
    pub fn component(
        &mut self,
        name: impl Into<String>,
        part: Part,
        kind: Kind,
        capacity: f64,
    ) -> usize {
        self.components.push(Component { name: name.into(), part, kind, capacity });
        self.components.len() - 1
    }

    /// Shares of the classes, which add up to one.
    fn shares(&self) -> impl Iterator<Item = (&Class, f64)> {
        let sum: f64 = self.classes.iter().map(|class| class.share).sum();
        self.classes.iter().map(move |class| (class, class.share / sum))
    }

    /// What a packet costs at a component, the mean over all classes by share.
    pub fn cost(&self, component: usize) -> f64 {
        // The sum of nothing is -0.
        self.shares().map(|(class, share)| share * class.cost(component)).sum::<f64>() + 0.0
    }

    /// The limit, and what bears how much of it.
    pub fn limit(&self) -> Limit {
        let costs: Vec<f64> = (0..self.components.len()).map(|index| self.cost(index)).collect();
        let limits = self.components.iter().zip(&costs).map(|(component, &cost)| {
            if cost > 0.0 { component.capacity / cost } else { f64::INFINITY }
        });
        let limits: Vec<f64> = limits.collect();
        let rate = limits.iter().copied().fold(f64::INFINITY, f64::min);
        let is_least = |limit: &f64| limit.is_finite() && *limit <= rate * (1.0 + TIE);
        let bottleneck = (0..limits.len()).filter(|&index| is_least(&limits[index])).collect();
        let loads = costs.iter().zip(&limits).map(|(&cost, &limit)| {
            let utilisation = if limit.is_finite() && limit > 0.0 { rate / limit } else { 0.0 };
            // A component without capacity is full without a packet.
            let utilisation = if limit == 0.0 { 1.0 } else { utilisation };
            Load { cost, limit, utilisation }
        });
        Limit { rate, bottleneck, loads: loads.collect() }
    }

    /// What costs how much at a component, as the mean over all classes by share,
    /// dearest first.
    pub fn contributions(&self, component: usize) -> Vec<(String, f64)> {
        let mut sums: Vec<(String, f64)> = Vec::new();
        for (class, share) in self.shares() {
            for charge in class.charges.iter().filter(|charge| charge.component == component) {
                let cost = share * charge.cost;
                match sums.iter_mut().find(|(what, _)| *what == charge.what) {
                    Some((_, sum)) => *sum += cost,
                    None => sums.push((charge.what.clone(), cost)),
                }
            }
        }
        sums.retain(|(_, cost)| *cost > 0.0);
        sums.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        sums
    }

    /// The same with a part's capacity multiplied by a factor.
    pub fn with_capacity(&self, part: Part, factor: f64) -> System {
        let mut system = self.clone();
        for component in system.components.iter_mut().filter(|component| component.part == part) {
            component.capacity *= factor;
        }
        system
    }

    /// The same with all charges of that name at a part multiplied by a factor.
    pub fn with_cost(&self, part: Part, what: &str, factor: f64) -> System {
        let mut system = self.clone();
        for class in &mut system.classes {
            for charge in &mut class.charges {
                if self.components[charge.component].part == part && charge.what == what {
                    charge.cost *= factor;
                }
            }
        }
        system
    }
}

impl Class {
    /// What one of its packets costs at a component.
    pub fn cost(&self, component: usize) -> f64 {
        let charges = self.charges.iter().filter(|charge| charge.component == component);
        charges.map(|charge| charge.cost).sum()
    }

    /// The components that its packets cost anything, in order, each once: a packet
    /// that comes back is charged for all its visits.
    pub fn way(&self) -> Vec<usize> {
        let mut way = Vec::new();
        for charge in self.charges.iter().filter(|charge| charge.cost > 0.0) {
            if !way.contains(&charge.component) {
                way.push(charge.component);
            }
        }
        way
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.capacity_unit())
    }
}
