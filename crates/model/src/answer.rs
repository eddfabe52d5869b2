//! What people ask of the model: how much a chain carries, what limits it, what to
//! change first, how many cores a load needs. [`running`] asks the same of a node at work.

pub mod running;

use crate::graph::{Kind, Limit, Part, System};
use crate::scenario::{Scenario, ScenarioError};

/// What a scenario carries, and why not more.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The components and their costs.
    pub system: System,
    /// The limit.
    pub limit: Limit,
    /// The limit as a maximum flow (§V of Bauer et al.), which equals it for one
    /// class of traffic and is an upper bound for several.
    pub maximum_flow: f64,
    /// Bytes of a frame, the mean over the traffic.
    pub mean_size: f64,
    /// Switching decisions of the NIC for each packet, n and n + 1, where it switches.
    pub switching_decisions: Option<(f64, f64)>,
}

/// One thing to change, and what comes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What.
    pub what: Lever,
    /// The limit then, in packets per second.
    pub rate: f64,
    /// What limits then, as indices of components.
    pub bottleneck: Vec<usize>,
}

/// What can be changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Lever {
    /// Twice the capacity of a component.
    Capacity(String),
    /// Half the cost of a step at a component.
    Cost {
        /// The component.
        component: String,
        /// The step.
        what: String,
        /// The step's share of what the component spends on a packet.
        share: f64,
    },
}

/// How many cores a load needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Cores {
    /// So many worker cores carry it.
    Enough {
        /// Worker cores.
        workers: usize,
        /// What they carry, in packets per second.
        limit: f64,
    },
    /// No number of cores that the machine has carries it.
    Never {
        /// The least number that carries most.
        workers: usize,
        /// What they carry, in packets per second.
        limit: f64,
        /// What limits them, by name.
        bottleneck: String,
    },
}

/// So many of a bottleneck's steps are looked at.
const STEPS: usize = 3;

impl Scenario {
    /// What it carries.
    ///
    /// # Errors
    /// [`ScenarioError`]: what is not known.
    pub fn answer(&self) -> Result<Answer, ScenarioError> {
        let system = self.system()?;
        Ok(Answer {
            limit: system.limit(),
            maximum_flow: system.maximum_flow(),
            mean_size: self.mean_size(),
            switching_decisions: self.switching_decisions(),
            system,
        })
    }

    /// How many worker cores carry `load` packets per second.
    ///
    /// # Errors
    /// As [`Scenario::answer`].
    pub fn cores_for(&self, load: f64) -> Result<Cores, ScenarioError> {
        let own = if self.composition.has_function_cores() { self.function_cores } else { 0 };
        // Remote functions have their cores elsewhere.
        let own = if self.composition == crate::Composition::Remote { 0 } else { own };
        let most = self.hardware.cores().saturating_sub(own).max(1);
        let mut best: Option<(usize, Answer)> = None;
        for workers in 1..=most {
            let answer = Scenario { workers, ..self.clone() }.answer()?;
            let limit = answer.limit.rate;
            if limit >= load {
                return Ok(Cores::Enough { workers, limit });
            }
            if best.as_ref().is_none_or(|(_, best)| limit > best.limit.rate) {
                best = Some((workers, answer));
            }
        }
        let (workers, answer) = match best {
            Some(best) => best,
            None => (self.workers, self.answer()?),
        };
        let (limit, bottleneck) = (answer.limit.rate, answer.bottleneck());
        Ok(Cores::Never { workers, limit, bottleneck })
    }
}

impl Answer {
    /// The names of what is saturated.
    pub fn bottleneck(&self) -> String {
        names(&self.system, &self.limit.bottleneck)
    }

    /// The part that is saturated; the first in a tie.
    pub fn bottleneck_part(&self) -> Option<Part> {
        self.limit.bottleneck.first().map(|&index| self.system.components[index].part)
    }

    /// The limit in bits per second of frames, without what the line adds.
    pub fn bit_rate(&self) -> f64 {
        self.limit.rate * self.mean_size * 8.0
    }

    /// Cycles per packet at the core that spends most.
    pub fn cycles(&self) -> f64 {
        let cores = self.system.components.iter().zip(&self.limit.loads);
        let cores = cores.filter(|(component, _)| {
            component.kind == Kind::Cycles && component.part != Part::NicProcessing
        });
        cores.map(|(_, load)| load.cost).fold(0.0, f64::max)
    }

    /// What to change first: what each change of the bottleneck alone brings, the best
    /// first. Where several components are saturated at once none brings anything.
    pub fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for &index in &self.limit.bottleneck {
            let component = &self.system.components[index];
            changes.push(self.change(
                Lever::Capacity(component.name.clone()),
                &self.system.with_capacity(component.part, 2.0),
            ));
            let all = self.limit.loads[index].cost;
            let steps = self.system.contributions(index);
            // Half of all there is to bear is twice as much to bear it with.
            let steps = if steps.len() > 1 { steps } else { Vec::new() };
            for (what, cost) in steps.into_iter().take(STEPS) {
                let halved = self.system.with_cost(component.part, &what, 0.5);
                let (component, share) = (component.name.clone(), cost / all);
                changes.push(self.change(Lever::Cost { component, what, share }, &halved));
            }
        }
        changes.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        changes
    }

    fn change(&self, what: Lever, system: &System) -> Change {
        let Limit { rate, bottleneck, .. } = system.limit();
        Change { what, rate, bottleneck }
    }

    /// The names of components.
    pub fn names(&self, components: &[usize]) -> String {
        names(&self.system, components)
    }
}

fn names(system: &System, components: &[usize]) -> String {
    let names = components.iter().map(|&index| system.components[index].name.as_str());
    match names.collect::<Vec<_>>()[..] {
        [] => "nothing".to_owned(),
        ref names => names.join(", "),
    }
}
