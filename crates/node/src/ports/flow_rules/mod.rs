//! Flow rules (`rte_flow`) by which the device of a port sends packets of users to the queues of
//! their workers.

mod scheme;
mod set;
#[cfg(test)]
mod tests;

use std::fmt;

use weft_dataplane::classify::UserKey;
use weft_dpdk::{FlowId, FlowRefusal, FlowRule, Port, SteeringRun};

pub(crate) use self::scheme::RuleScheme;
pub(crate) use self::set::RuleCounts;
use self::set::{RuleSet, RuleTable};

/// Rules that one device is given, or gives back, in a turn of the agent.
const BUDGET: usize = 32;

/// The flow rules of one port.
#[derive(Debug)]
pub(crate) struct FlowRules {
    /// Name of the port.
    name: String,
    scheme: RuleScheme,
    rules: RuleSet<FlowId>,
}

impl RuleTable for Port {
    type Id = FlowId;

    fn add(&self, rule: &FlowRule) -> Result<FlowId, FlowRefusal> {
        self.add_flow(rule)
    }

    fn remove(&self, id: FlowId) -> Result<(), FlowRefusal> {
        self.remove_flow(id)
    }
}

impl FlowRules {
    /// Of a port of that name that is this to users; without any of them.
    pub fn new(name: &str, scheme: RuleScheme) -> FlowRules {
        FlowRules { name: name.to_owned(), scheme, rules: RuleSet::new() }
    }

    /// The users of the configuration are these from now on.
    pub fn configure(&mut self, runs: impl Iterator<Item = SteeringRun>) {
        let mut rules = self.scheme.of_codes();
        let (of_users, beyond) = self.scheme.of_runs(runs);
        rules.extend(of_users);
        self.rules.configure(rules, beyond);
    }

    /// A user whom a command has added is found by that key, and has that worker; or is not found
    /// by it any more.
    pub fn note(&mut self, key: &UserKey, worker: Option<usize>) {
        for (of, _) in self.scheme.matches(key) {
            self.rules.remove(&of);
        }
        let rules = worker.map(|worker| self.scheme.of_key(key, worker));
        rules.iter().flatten().for_each(|rule| self.rules.add(rule));
    }

    /// Gives a device some of them, and takes others back; whether there was anything to do. Says
    /// once why it refuses any.
    pub fn work(&mut self, port: &Port) -> bool {
        let busy = self.rules.work(port, BUDGET);
        if let Some(refusal) = self.rules.news() {
            let RuleCounts { present, refused } = self.counts();
            tracing::warn!(
                port = self.name,
                present,
                refused,
                %refusal,
                "the device takes no more flow rules: other users are spread as without"
            );
        }
        busy
    }

    /// The device has none of them any more.
    pub fn lose_all(&mut self) {
        self.rules.lose_all();
    }

    /// How many there are.
    pub fn counts(&self) -> RuleCounts {
        self.rules.counts()
    }
}

impl fmt::Display for FlowRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counts() {
            RuleCounts { present, refused: 0 } => write!(f, "flow rules {present}"),
            RuleCounts { present, refused } => {
                write!(f, "flow rules {present} ({refused} refused)")
            }
        }
    }
}
