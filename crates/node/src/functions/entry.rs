//! A function as the agent knows it: its name and what is counted for it.

use std::sync::Arc;

use weft_compose::Kind;
use weft_dataplane::counters::FunctionCounters;
use weft_node_config::FunctionPlan;

/// A function as the agent knows it.
#[derive(Clone, Debug)]
pub struct FunctionEntry {
    /// Name of the instance.
    pub name: Arc<str>,
    /// What function it is.
    pub kind: Kind,
    /// What is counted for it, by worker.
    pub counters: Vec<Arc<FunctionCounters>>,
}

impl FunctionEntry {
    /// A function that has counted nothing yet.
    pub fn new(plan: &FunctionPlan, workers: usize) -> FunctionEntry {
        let fresh = || Arc::new(FunctionCounters::new(plan.kind.reasons().count()));
        FunctionEntry {
            name: plan.name.as_str().into(),
            kind: plan.kind,
            counters: (0..workers).map(|_| fresh()).collect(),
        }
    }

    /// Whether what this one has counted is counted on for `plan`.
    pub fn is_for(&self, plan: &FunctionPlan) -> bool {
        *self.name == *plan.name && self.kind.name == plan.kind.name
    }
}
