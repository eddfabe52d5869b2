//! One node after another comes to run as documents say.
//!
//! A node is told its settings, says that it runs by them, and is looked at for a while: if it
//! drops a larger share of packets than before, refuses, or does not answer, nothing further is
//! changed, and the controller goes back to what was good. A node that is not there is passed
//! over, and told when it comes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::document::{Described, Pace};

/// Packets below which a share of drops says nothing.
const FEW: u64 = 100;

/// Parts of the time that a node is looked at: of each, two of its words are kept at most.
const PARTS: u32 = 32;

/// What a node has said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Generation of the settings that it runs by; 0 for those of its own file.
    pub generation: u64,
    /// Generation of those that it refuses; 0 for none.
    pub refused: u64,
    /// Packets that it has received since it started.
    pub received: u64,
    /// Packets that it has dropped since then.
    pub dropped: u64,
    /// Why it refuses.
    pub reason: String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A node is to be told how to run.
    Tell(Described),
    /// All nodes that are there run as they are to.
    Complete,
    /// A node does not do well with its change.
    Failed {
        /// Its name.
        node: String,
        /// In one sentence.
        reason: String,
    },
}

/// A node as it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProgress {
    /// Its name.
    pub node: String,
    /// Generation of the settings that it is to run by.
    pub wanted: u64,
    /// Generation of those that it runs by, once it has said so.
    pub runs: Option<u64>,
    /// `current`, `changing`, `waits`, `away`, `silent`, or why it is not as it is to be.
    pub state: String,
}

#[derive(Debug, Default)]
struct Seen {
    /// Since when it is connected.
    since: Option<Duration>,
    said: Option<Said>,
    /// When, packets received and dropped.
    counts: VecDeque<(Duration, u64, u64)>,
}

/// The node that is being changed.
#[derive(Debug)]
struct Changing {
    nth: usize,
    told: Duration,
    /// Share of packets that it dropped before, if it received enough to say so.
    before: Option<f64>,
    /// Since when it runs by its new settings, and what it had counted then.
    runs: Option<(Duration, u64, u64)>,
}

/// Changes of nodes, in the order of the documents.
#[derive(Debug)]
pub struct Rollout {
    nodes: Vec<Described>,
    pace: Pace,
    seen: BTreeMap<String, Seen>,
    changing: Option<Changing>,
    /// Nodes that do not take what they are told, and why.
    failed: BTreeMap<String, String>,
    /// Whether it ends with the first failure.
    is_strict: bool,
    is_over: bool,
    /// Until when nodes that are away are waited for.
    patience: Duration,
}

impl Rollout {
    /// Nothing is to be changed yet.
    pub fn new() -> Rollout {
        Rollout {
            nodes: Vec::new(),
            pace: Pace::default(),
            seen: BTreeMap::new(),
            changing: None,
            failed: BTreeMap::new(),
            is_strict: false,
            is_over: true,
            patience: Duration::ZERO,
        }
    }

    /// Nodes are to run so from now on. A strict one ends with its first failure; otherwise a
    /// node that fails is left alone until it comes anew.
    pub fn begin(&mut self, nodes: Vec<Described>, pace: Pace, is_strict: bool) {
        (self.nodes, self.pace, self.is_strict) = (nodes, pace, is_strict);
        (self.changing, self.is_over) = (None, false);
        self.failed.clear();
    }

    /// It is not complete before that as long as a node is away: nodes have had no time to
    /// connect.
    pub fn wait_for_nodes(&mut self, until: Duration) {
        self.patience = until;
    }

    /// A node has connected, or is away.
    pub fn connected(&mut self, node: &str, is: bool, now: Duration) {
        let seen = self.seen.entry(node.to_owned()).or_default();
        *seen = Seen { since: is.then_some(now), ..Seen::default() };
        self.failed.remove(node);
    }

    /// A node is none any more.
    pub fn forget(&mut self, node: &str) {
        self.seen.remove(node);
    }

    /// A node says how it runs.
    pub fn said(&mut self, node: &str, said: Said, now: Duration) {
        let Some(seen) = self.seen.get_mut(node).filter(|seen| seen.since.is_some()) else {
            return;
        };
        let counted = seen.counts.back();
        // It has started anew.
        if counted.is_some_and(|(_, received, _)| *received > said.received) {
            seen.counts.clear();
        }
        // A node may say more than it is asked for: the newest stands for those close to it.
        let before = seen.counts.len().checked_sub(2).map(|at| seen.counts[at].0);
        if before.is_some_and(|before| now < before + self.pace.watch / PARTS) {
            seen.counts.pop_back();
        }
        seen.counts.push_back((now, said.received, said.dropped));
        while seen.counts.len() > 2
            && seen.counts.front().is_some_and(|(at, ..)| *at + self.pace.watch < now)
        {
            seen.counts.pop_front();
        }
        seen.said = Some(said);
    }

    /// When there may be something to do although nothing has happened.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        let changing = self.changing.as_ref().map(|changing| match changing.runs {
            Some((since, ..)) => since + self.pace.watch,
            None => changing.told + self.pace.answer,
        });
        let silent = self.nodes.iter().filter_map(|node| {
            let seen = self.seen.get(&node.node).filter(|seen| seen.said.is_none())?;
            Some(seen.since? + self.pace.answer).filter(|_| !self.is_over)
        });
        let patience = Some(self.patience).filter(|until| !self.is_over && *until > now);
        let next = changing.into_iter().chain(silent).chain(patience).min();
        // What is late waits for a word of the node.
        next.map(|next| next.max(now + Duration::from_millis(200)))
    }

    /// What is to be done now.
    pub fn step(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(changing) = self.changing.take() {
            match self.look(&changing, now) {
                Look::Wait(runs) => self.changing = Some(Changing { runs, ..changing }),
                Look::Well | Look::Away => {}
                Look::Wrong(reason) => {
                    let node = self.nodes[changing.nth].node.clone();
                    self.failed.insert(node.clone(), reason.clone());
                    actions.push(Action::Failed { node, reason });
                    if self.is_strict {
                        self.is_over = true;
                        self.nodes.clear();
                        return actions;
                    }
                }
            }
        }
        if self.changing.is_some() {
            return actions;
        }
        if let Some(nth) = self.nodes.iter().position(|node| self.is_behind(node)) {
            let node = self.nodes[nth].clone();
            let before = self.seen.get(&node.node).and_then(|seen| share(&seen.counts));
            self.changing = Some(Changing { nth, told: now, before, runs: None });
            actions.push(Action::Tell(node));
        } else if !self.is_over && !self.nodes.iter().any(|node| self.is_awaited(node, now)) {
            // One that comes later and fails is its own trouble.
            (self.is_over, self.is_strict) = (true, false);
            actions.push(Action::Complete);
        }
        actions
    }

    fn look(&self, changing: &Changing, now: Duration) -> Look {
        let wanted = &self.nodes[changing.nth];
        let seen = self.seen.get(&wanted.node).filter(|seen| seen.since.is_some());
        let is_late = changing.told + self.pace.answer <= now;
        let Some(seen) = seen else {
            // It may have died of its change.
            return match (changing.runs, is_late) {
                (Some(_), true) => Look::Wrong("it went away and did not come back".to_owned()),
                (None, true) => Look::Away,
                _ => Look::Wait(changing.runs),
            };
        };
        let Some(said) = &seen.said else {
            return if is_late { Look::Away } else { Look::Wait(changing.runs) };
        };
        if said.refused == wanted.generation {
            return Look::Wrong(said.reason.clone());
        }
        let last = seen.counts.back().copied();
        match (changing.runs, said.generation == wanted.generation) {
            (None, false) if is_late => {
                Look::Wrong(format!("it did not change in {} s", self.pace.answer.as_secs()))
            }
            (None, false) => Look::Wait(None),
            (Some(_), false) => {
                Look::Wrong("it has started anew without its new settings".to_owned())
            }
            (None, true) => Look::Wait(last),
            (Some(start), true) => {
                let Some(last) = last.filter(|(at, ..)| *at >= start.0 + self.pace.watch) else {
                    return Look::Wait(Some(start));
                };
                let now = share(&VecDeque::from([start, last]));
                if let (Some(now), Some(before)) = (now, changing.before)
                    && now > before + self.pace.drops
                {
                    let percent = [now, before].map(|share| share * 100.0);
                    return Look::Wrong(format!(
                        "it drops {:.2} % of its packets, and {:.2} % before",
                        percent[0], percent[1]
                    ));
                }
                Look::Well
            }
        }
    }

    /// Whether a node is there and does not run as it is to.
    fn is_behind(&self, node: &Described) -> bool {
        let seen = self.seen.get(&node.node).filter(|seen| seen.since.is_some());
        let said = seen.and_then(|seen| seen.said.as_ref());
        said.is_some_and(|said| said.generation != node.generation)
            && !self.failed.contains_key(&node.node)
    }

    /// Whether a node is being changed, or one that is there is about to be.
    pub fn is_restless(&self, now: Duration) -> bool {
        let mut nodes = self.nodes.iter();
        self.changing.is_some()
            || nodes.any(|node| self.is_behind(node) || self.is_awaited(node, now))
    }

    /// Whether a node is about to come, or has just come and has said nothing yet.
    fn is_awaited(&self, node: &Described, now: Duration) -> bool {
        let seen = self.seen.get(&node.node);
        match seen.and_then(|seen| Some((seen.since?, &seen.said))) {
            None => now < self.patience,
            Some((since, said)) => said.is_none() && now < since + self.pace.answer,
        }
    }

    /// All nodes that documents speak of.
    pub fn nodes(&self) -> Vec<NodeProgress> {
        let node = |(nth, wanted): (usize, &Described)| {
            let seen = self.seen.get(&wanted.node);
            let runs = seen.and_then(|seen| seen.said.as_ref()).map(|said| said.generation);
            let is_changing = self.changing.as_ref().is_some_and(|changing| changing.nth == nth);
            let state = match (self.failed.get(&wanted.node), seen.and_then(|seen| seen.since)) {
                (Some(reason), _) => reason.as_str(),
                _ if is_changing => "changing",
                (None, None) => "away",
                (None, Some(_)) if runs.is_none() => "silent",
                (None, Some(_)) if runs == Some(wanted.generation) => "current",
                (None, Some(_)) => "waits",
            };
            NodeProgress {
                node: wanted.node.clone(),
                wanted: wanted.generation,
                runs,
                state: state.to_owned(),
            }
        };
        self.nodes.iter().enumerate().map(node).collect()
    }
}

impl Default for Rollout {
    fn default() -> Rollout {
        Rollout::new()
    }
}

/// What a look at the node that is being changed says.
enum Look {
    Wait(Option<(Duration, u64, u64)>),
    Well,
    /// It went before it had changed, and is told when it comes.
    Away,
    Wrong(String),
}

/// Share of packets that were dropped between the first and the last count; none if there were
/// too few.
fn share(counts: &VecDeque<(Duration, u64, u64)>) -> Option<f64> {
    let (first, last) = (counts.front()?, counts.back()?);
    let received = last.1.saturating_sub(first.1);
    let dropped = last.2.saturating_sub(first.2);
    let all = received.max(dropped);
    (all >= FEW).then(|| dropped as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However often a node says how it runs, little is kept, and its share is of the whole time
    /// that it is looked at.
    #[test]
    fn a_node_that_floods_its_controller_is_kept_in_bounds() {
        let mut rollout = Rollout::new();
        let watch = Duration::from_secs(3600);
        rollout.begin(Vec::new(), Pace { watch, ..Pace::default() }, false);
        let start = Duration::from_secs(1);
        rollout.connected("node", true, start);
        for word in 0..100_000 {
            let (received, dropped) = (1000 * word, 10 * word);
            let said = Said { received, dropped, ..Said::default() };
            rollout.said("node", said, start + Duration::from_millis(72 * word));
            assert!(rollout.seen["node"].counts.len() <= 2 * PARTS as usize + 3, "{word}");
        }
        let counts = &rollout.seen["node"].counts;
        let (first, last) = (counts.front().unwrap(), counts.back().unwrap());
        assert_eq!(last.1, 1000 * 99_999);
        assert!(last.0 - first.0 >= watch - watch / PARTS, "{first:?} {last:?}");
        assert_eq!(share(counts), Some(0.01));
    }
}
