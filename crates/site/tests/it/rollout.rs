//! Changes of nodes, in virtual time.

use std::time::Duration;

use weft_site::document::{Described, Pace};
use weft_site::rollout::{Action, Rollout, Said};

const SECOND: Duration = Duration::from_secs(1);

fn pace() -> Pace {
    Pace { watch: 3 * SECOND, answer: 10 * SECOND, drops: 0.01 }
}

fn described(node: &str, generation: u64) -> Described {
    Described { node: node.to_owned(), text: format!("{node} {generation}"), generation }
}

/// Three nodes that carry 1,000 packets a second.
struct Field {
    rollout: Rollout,
    now: Duration,
    nodes: Vec<Node>,
    log: Vec<String>,
}

struct Node {
    name: &'static str,
    is_there: bool,
    generation: u64,
    refuses: u64,
    drops: u64,
    /// Drops from this generation on.
    harmed_by: u64,
    /// Does not do what it is told.
    deaf: bool,
    counts: (u64, u64),
}

impl Field {
    fn new() -> Field {
        let node = |name| Node {
            name,
            is_there: true,
            generation: 0,
            refuses: 0,
            drops: 5,
            harmed_by: 0,
            deaf: false,
            counts: (0, 0),
        };
        let nodes = vec![node("a"), node("b"), node("c")];
        let mut field = Field { rollout: Rollout::new(), now: SECOND, nodes, log: Vec::new() };
        for nth in 0..3 {
            field.rollout.connected(field.nodes[nth].name, true, field.now);
        }
        field
    }

    fn begin(&mut self, generation: u64, is_strict: bool) {
        let nodes = self.nodes.iter().map(|node| described(node.name, generation)).collect();
        self.rollout.begin(nodes, pace(), is_strict);
    }

    fn there(&mut self, nth: usize, is: bool) {
        self.nodes[nth].is_there = is;
        self.rollout.connected(self.nodes[nth].name, is, self.now);
    }

    /// So many seconds pass; at each all nodes that are there say how they run.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += SECOND;
            for node in self.nodes.iter_mut().filter(|node| node.is_there) {
                let is_harmed = node.harmed_by != 0 && node.generation == node.harmed_by;
                node.counts.0 += 1000;
                node.counts.1 += node.drops + if is_harmed { 200 } else { 0 };
                let said = Said {
                    generation: node.generation,
                    refused: node.refuses,
                    received: node.counts.0,
                    dropped: node.counts.1,
                    reason: if node.refuses != 0 { "no".to_owned() } else { String::new() },
                };
                self.rollout.said(node.name, said, self.now);
            }
            for action in self.rollout.step(self.now) {
                match action {
                    Action::Tell(Described { node, generation, .. }) => {
                        self.log.push(format!("{node} {generation}"));
                        let node = self.nodes.iter_mut().find(|one| one.name == node).unwrap();
                        if !node.deaf && node.refuses != generation {
                            node.generation = generation;
                        }
                    }
                    Action::Complete => self.log.push("complete".to_owned()),
                    Action::Failed { node, reason } => self.log.push(format!("{node}: {reason}")),
                }
            }
        }
    }
}

#[test]
fn nodes_are_changed_one_after_another() {
    let mut field = Field::new();
    field.begin(7, true);
    field.pass(2);
    assert_eq!(field.log, ["a 7"], "one at a time");
    field.pass(3);
    assert_eq!(field.log, ["a 7", "b 7"], "once it was looked at");
    field.pass(20);
    assert_eq!(field.log, ["a 7", "b 7", "c 7", "complete"]);
    assert!(field.rollout.nodes().iter().all(|node| node.state == "current"));
    field.pass(20);
    assert_eq!(field.log.len(), 4, "nothing more is said");
}

#[test]
fn drops_that_rise_end_it() {
    let mut field = Field::new();
    field.nodes[1].harmed_by = 7;
    field.pass(4);
    field.begin(7, true);
    field.pass(30);
    assert_eq!(field.log, ["a 7", "b 7", "b: it drops 20.50 % of its packets, and 0.50 % before"]);
    // Back: what fails is told, and the others go on.
    field.log.clear();
    field.begin(6, false);
    field.pass(30);
    assert_eq!(field.log, ["a 6", "b 6", "c 6", "complete"]);
}

#[test]
fn one_that_drops_anyway_is_changed() {
    let mut field = Field::new();
    field.nodes[0].drops = 300;
    field.pass(4);
    field.begin(7, true);
    field.pass(30);
    assert_eq!(field.log.last().unwrap(), "complete");
}

/// A station that starts anew may meet with packets of users that others own now.
#[test]
fn one_of_which_nothing_is_known_is_not_judged_by_its_drops() {
    let mut field = Field::new();
    field.nodes[0].drops = 900;
    field.begin(7, true);
    field.pass(30);
    assert_eq!(field.log, ["a 7", "b 7", "c 7", "complete"]);
}

#[test]
fn refusal_and_silence_end_it() {
    let mut field = Field::new();
    field.nodes[0].refuses = 7;
    field.begin(7, true);
    field.pass(3);
    assert_eq!(field.log, ["a 7", "a: no"]);

    let mut field = Field::new();
    field.nodes[0].deaf = true;
    field.begin(7, true);
    field.pass(30);
    assert_eq!(field.log, ["a 7", "a: it did not change in 10 s"]);
}

#[test]
fn one_that_dies_of_it_ends_it() {
    let mut field = Field::new();
    field.begin(7, true);
    field.pass(2);
    field.there(0, false);
    field.pass(30);
    assert_eq!(field.log, ["a 7", "a: it went away and did not come back"]);

    let mut field = Field::new();
    field.begin(7, true);
    field.pass(2);
    field.there(0, false);
    field.nodes[0].generation = 0;
    field.nodes[0].deaf = true;
    field.there(0, true);
    field.pass(3);
    assert_eq!(field.log[1], "a: it has started anew without its new settings");
}

#[test]
fn who_is_away_is_told_when_it_comes() {
    let mut field = Field::new();
    field.there(1, false);
    field.begin(7, true);
    field.pass(20);
    assert_eq!(field.log, ["a 7", "c 7", "complete"]);
    assert_eq!(field.rollout.nodes()[1].state, "away");
    field.there(1, true);
    field.pass(20);
    assert_eq!(field.log[3..], ["b 7"]);
    assert_eq!(field.rollout.nodes()[1].state, "current");
    // It starts again with its own file.
    field.there(1, false);
    field.nodes[1].generation = 0;
    field.there(1, true);
    field.pass(20);
    assert_eq!(field.log[4..], ["b 7"]);
}

#[test]
fn a_new_controller_waits_for_nodes() {
    let mut field = Field::new();
    (0..3).for_each(|nth| field.there(nth, false));
    field.begin(7, true);
    field.rollout.wait_for_nodes(10 * SECOND);
    field.pass(5);
    assert_eq!(field.log, [""; 0]);
    field.there(0, true);
    field.there(1, true);
    field.pass(30);
    assert_eq!(field.log, ["a 7", "b 7", "complete"], "one stays away");
}

/// Whatever happens, at most one node is between two settings, and what is asked for comes.
#[test]
fn it_ends_whatever_happens() {
    for seed in 0..300_u64 {
        let mut field = Field::new();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        field.begin(7, false);
        for _ in 0..next(20) {
            let nth = next(3) as usize;
            match next(4) {
                0 => field.there(nth, false),
                1 => field.there(nth, true),
                2 => {
                    field.nodes[nth].generation = 0;
                    field.there(nth, true);
                }
                _ => field.begin(7 + next(2), false),
            }
            field.pass(next(6));
        }
        field.begin(9, false);
        (0..3).for_each(|nth| field.there(nth, true));
        field.pass(60);
        assert!(field.log.contains(&"complete".to_owned()), "seed {seed}: {:?}", field.log);
        let states: Vec<_> = field.rollout.nodes().into_iter().map(|node| node.state).collect();
        assert_eq!(states, ["current"; 3], "seed {seed}");
    }
}
