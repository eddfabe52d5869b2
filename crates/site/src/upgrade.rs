//! One node after another comes to run the program that is installed at it.
//!
//! A node is asked which process it is, and is then told to go over to a new one, or its users
//! leave it and it is told to end. It is upgraded when another process of it answers and its users
//! are where they are to be. The first node that fails ends the upgrade: the others stay as they
//! are.
//!
//! Nothing is told twice that would do harm: a node is told which process is to go, and another
//! one only says that it is another one. So what is durable is enough to go on with, whenever a
//! controller dies.

mod records;
mod terms;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use records::Records;
pub use terms::{Action, Answer, Doing, Method, NodePhase, NodeUpgrade, Phase, Standing, View};

/// How long a node that is away is waited for at its turn.
pub const COMING: Duration = Duration::from_secs(60);
/// How long a node may take to say which process it is.
pub const ANSWERING: Duration = Duration::from_secs(15);
/// For how long a node is told again that says `try again`.
pub const TRYING: Duration = Duration::from_secs(60);
/// How long it may take until another process of a node answers.
pub const CHANGING: Duration = Duration::from_secs(180);
/// How long users may take to leave, or to come back.
pub const MOVING: Duration = Duration::from_secs(600);
/// How long users may need to be where they are to be, once nothing of the upgrade moves them.
pub const SETTLING: Duration = Duration::from_secs(60);
/// After how long a node is told again that has not answered.
const AGAIN: Duration = Duration::from_secs(2);
/// After how long one is told again that says `try again`, and users are counted again.
const PAUSE: Duration = Duration::from_secs(1);
/// Characters of a reason that are kept.
const REASON: usize = 400;
/// Characters of a version that are kept.
const VERSION: usize = 40;

/// What a controller remembers of the node in progress as long as it lives.
#[derive(Debug)]
struct Work {
    /// Since when this is done.
    since: Duration,
    /// When the node was asked first which process it is.
    asked: Option<Duration>,
    /// When the node was told something last, and when its users were counted.
    told: Option<Duration>,
    counted: Option<Duration>,
    /// The request that it is told.
    request: u64,
    answer: Option<Answer>,
}

impl Work {
    fn begin(now: Duration) -> Work {
        let (asked, told, counted, answer) = (None, None, None, None);
        Work { since: now, asked, told, counted, request: 0, answer }
    }

    /// Whether users are to be counted: each of a site is looked at for that.
    fn counts(&mut self, now: Duration) -> bool {
        let is_due = self.counted.is_none_or(|at| at + PAUSE <= now);
        if is_due {
            self.counted = Some(now);
        }
        is_due
    }
}

/// The upgrade of a site.
#[derive(Debug, Default)]
pub struct Upgrade {
    /// Its number, which no other has; 0 if there was none.
    pub number: u64,
    /// How nodes are upgraded.
    pub method: Method,
    /// How far it is.
    pub phase: Phase,
    /// Why it failed; else empty.
    pub reason: String,
    /// Whether it ends with the node in progress.
    pub is_cancelled: bool,
    /// The nodes, in their order.
    pub nodes: Vec<NodeUpgrade>,
    work: Option<Work>,
    request: u64,
}

impl Upgrade {
    /// These nodes are to be upgraded one after another; those with a reason are skipped.
    pub fn begin(number: u64, method: Method, nodes: Vec<(String, Option<String>)>) -> Upgrade {
        let node = |(node, skipped): (String, Option<String>)| NodeUpgrade {
            node,
            phase: if skipped.is_some() { NodePhase::Skipped } else { NodePhase::Waiting },
            reason: skipped.unwrap_or_default(),
            ..NodeUpgrade::default()
        };
        let nodes = nodes.into_iter().map(node).collect();
        let phase = Phase::Running;
        Upgrade { number, method, phase, nodes, request: number, ..Upgrade::default() }
    }

    /// Requests have numbers beyond this one, which no controller before has used.
    pub fn number_from(&mut self, number: u64) {
        self.request = self.request.max(number);
    }

    /// Whether it goes on.
    pub fn is_running(&self) -> bool {
        self.number > 0 && self.phase == Phase::Running
    }

    /// Whether a node is being upgraded.
    pub fn is_busy(&self) -> bool {
        self.is_running() && self.current().is_some()
    }

    /// It ends with the node in progress.
    pub fn cancel(&mut self) {
        self.is_cancelled |= self.is_running();
    }

    /// A node says something.
    pub fn answered(&mut self, node: &str, answer: Answer) {
        let is_meant = self.current().is_some_and(|at| self.nodes[at].node == node);
        if let Some(work) = self.work.as_mut().filter(|_| is_meant) {
            work.answer = Some(answer);
        }
    }

    /// A node has connected: what it was told may be lost.
    pub fn connected(&mut self, node: &str) {
        let is_meant = self.current().is_some_and(|at| self.nodes[at].node == node);
        if let Some(work) = self.work.as_mut().filter(|_| is_meant) {
            (work.told, work.answer) = (None, None);
        }
    }

    /// Users of the node in progress were ordered to leave it, by orders from that number on.
    pub fn leaves(&mut self, orders: u64, was_cordoned: bool) {
        if let Some(at) = self.current().filter(|at| self.nodes[*at].orders == 0) {
            let node = &mut self.nodes[at];
            (node.orders, node.was_cordoned) = (orders, was_cordoned);
        }
    }

    /// The node in progress cannot be upgraded.
    pub fn fail(&mut self, reason: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(at) = self.current() else { return actions };
        let reason: String = plain(reason).chars().take(REASON).collect();
        let node = &mut self.nodes[at];
        if node.orders > 0 && !node.was_cordoned {
            actions.push(Action::Uncordon(node.node.clone()));
        }
        self.reason = format!("{}: {reason}", node.node);
        (node.phase, node.reason) = (NodePhase::Failed, reason);
        (self.phase, self.work) = (Phase::Failed, None);
        actions.push(Action::Over(Phase::Failed, self.reason.clone()));
        actions
    }

    fn current(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.phase == NodePhase::InProgress)
    }

    /// What is to be done now.
    pub fn step(&mut self, now: Duration, view: &impl View) -> Vec<Action> {
        if !self.is_running() {
            return Vec::new();
        }
        let Some(at) = self.current() else { return self.next(now, view) };
        if self.is_cancelled && self.nodes[at].doing == Doing::Asking {
            self.nodes[at].phase = NodePhase::Waiting;
            self.nodes[at].reason.clear();
            self.work = None;
            return self.next(now, view);
        }
        // A controller has just begun to lead.
        let mut work = self.work.take().unwrap_or_else(|| Work::begin(now));
        let looked = match self.nodes[at].doing {
            Doing::Asking => self.ask(at, &mut work, now, view),
            Doing::Leaving => self.leave(at, &mut work, now, view),
            Doing::Changing => self.change(at, &mut work, now, view),
            Doing::Returning => self.come_back(at, &work, now, view),
        };
        match looked {
            Look::Wait(actions) => {
                self.work = Some(work);
                actions
            }
            Look::Next(doing, actions) => {
                self.nodes[at].doing = doing;
                self.work = Some(Work::begin(now));
                actions
            }
            Look::Done(mut actions) => {
                self.nodes[at].phase = NodePhase::Done;
                actions.push(Action::Upgraded(self.nodes[at].node.clone()));
                actions.extend(self.next(now, view));
                actions
            }
            Look::Wrong(reason) => self.fail(&reason),
        }
    }

    /// The next node begins, or there is none.
    fn next(&mut self, now: Duration, view: &impl View) -> Vec<Action> {
        let waiting = self.nodes.iter().position(|node| node.phase == NodePhase::Waiting);
        let over = match waiting {
            None => Phase::Complete,
            Some(_) if self.is_cancelled => Phase::Cancelled,
            Some(_) if view.is_held() => return Vec::new(),
            Some(at) => {
                self.nodes[at].phase = NodePhase::InProgress;
                self.work = Some(Work::begin(now));
                return Vec::new();
            }
        };
        self.phase = over;
        vec![Action::Over(over, String::new())]
    }

    fn ask(&mut self, at: usize, work: &mut Work, now: Duration, view: &impl View) -> Look {
        let node = &mut self.nodes[at];
        if !view.is_connected(&node.node) {
            let away = match view.has_expired(&node.node) {
                true => "it is not connected, and its lease has ended",
                false => "it is not connected",
            };
            if now >= work.since + COMING {
                return Look::Wrong(away.to_owned());
            }
            node.reason = format!("{away}; it is waited for");
            // The time to answer begins when it is there.
            return Look::Wait(Vec::new());
        }
        if let Some(answer) = work.answer.take() {
            node.reason.clear();
            node.process = answer.process;
            node.incarnation = view.incarnation(&node.node);
            node.before = version(&answer.version);
            return match self.method {
                Method::InPlace => Look::Next(Doing::Changing, Vec::new()),
                Method::Drain => Look::Next(Doing::Leaving, vec![Action::Drain(node.node.clone())]),
            };
        }
        if *work.asked.get_or_insert(now) + ANSWERING <= now {
            return Look::Wrong(
                "it does not say which process it is: it runs a release that cannot be upgraded \
                 by its site"
                    .to_owned(),
            );
        }
        if work.told.is_some_and(|told| now < told + AGAIN) {
            return Look::Wait(Vec::new());
        }
        work.told = Some(now);
        Look::Wait(vec![Action::Tell { node: node.node.clone(), request: None }])
    }

    fn leave(&mut self, at: usize, work: &mut Work, now: Duration, view: &impl View) -> Look {
        let node = &mut self.nodes[at];
        let under_way = view.under_way(&node.node, node.orders);
        if under_way > 0 {
            return match work.since + MOVING <= now {
                true => Look::Wrong(format!("{under_way} users have not left it in time")),
                false => Look::Wait(Vec::new()),
            };
        }
        if !work.counts(now) {
            return Look::Wait(Vec::new());
        }
        match view.users(&node.node) {
            [0, 0] => Look::Next(Doing::Changing, Vec::new()),
            [users, moving] if work.since + SETTLING <= now => {
                Look::Wrong(format!("{} users do not leave it", users + moving))
            }
            // Some did not move, or have come before it was cordoned.
            [0, _] => Look::Wait(Vec::new()),
            _ => Look::Wait(vec![Action::Drain(node.node.clone())]),
        }
    }

    fn change(&mut self, at: usize, work: &mut Work, now: Duration, view: &impl View) -> Look {
        let node = &mut self.nodes[at];
        let is_connected = view.is_connected(&node.node);
        match work.answer.clone() {
            Some(answer) if answer.process != node.process => {
                node.after = version(&answer.version);
                return self.changed(at, work, now, view);
            }
            Some(Answer { request, standing: Standing::Refused, reason, .. })
                if request == work.request =>
            {
                if !reason.contains("try again") || work.since + TRYING <= now {
                    return Look::Wrong(reason);
                }
                node.reason = format!("it is told again: {}", plain(&reason));
                node.reason = node.reason.chars().take(REASON).collect();
                if work.told.is_some_and(|told| now < told + PAUSE) {
                    return Look::Wait(Vec::new());
                }
                (work.request, work.told, work.answer) = (0, None, None);
            }
            Some(_) | None => {}
        }
        if work.since + CHANGING <= now {
            let seconds = CHANGING.as_secs();
            return Look::Wrong(match is_connected {
                true => format!("no other process has it after {seconds} s"),
                false => format!("it has ended, and no other process of it came in {seconds} s"),
            });
        }
        if !is_connected || work.told.is_some_and(|told| now < told + AGAIN) {
            return Look::Wait(Vec::new());
        }
        if work.request == 0 {
            self.request += 1;
            work.request = self.request;
        }
        work.told = Some(now);
        let request = Some((work.request, node.process));
        Look::Wait(vec![Action::Tell { node: node.node.clone(), request }])
    }

    /// Another process of the node answers.
    fn changed(&mut self, at: usize, work: &mut Work, now: Duration, view: &impl View) -> Look {
        let node = &mut self.nodes[at];
        node.reason.clear();
        if self.method == Method::Drain {
            let back = Action::Return(node.node.clone());
            let uncordon = Action::Uncordon(node.node.clone());
            let uncordon = (!node.was_cordoned).then_some(uncordon);
            // One that takes no users has none that come back.
            let actions = uncordon.into_iter().flat_map(|uncordon| [uncordon, back.clone()]);
            return Look::Next(Doing::Returning, actions.collect());
        }
        if view.incarnation(&node.node) != node.incarnation {
            return Look::Wrong(
                "it has started anew in place of going over to another process".to_owned(),
            );
        }
        if !work.counts(now) {
            return Look::Wait(Vec::new());
        }
        match view.users(&node.node) {
            [_, 0] => Look::Done(Vec::new()),
            [_, moving] if work.since + CHANGING + SETTLING <= now => {
                Look::Wrong(format!("{moving} of its users are not settled"))
            }
            _ => Look::Wait(Vec::new()),
        }
    }

    fn come_back(&mut self, at: usize, work: &Work, now: Duration, view: &impl View) -> Look {
        let node = &mut self.nodes[at];
        match view.under_way(&node.node, node.orders) {
            0 => Look::Done(Vec::new()),
            left if work.since + MOVING <= now => {
                node.reason = format!("{left} users have not come back in time");
                Look::Done(Vec::new())
            }
            _ => Look::Wait(Vec::new()),
        }
    }
}

/// What a look at the node in progress says.
enum Look {
    Wait(Vec<Action>),
    Next(Doing, Vec<Action>),
    Done(Vec<Action>),
    Wrong(String),
}

/// A version that a node has said.
fn version(said: &str) -> String {
    said.chars().filter(char::is_ascii_graphic).take(VERSION).collect()
}

/// One line.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
