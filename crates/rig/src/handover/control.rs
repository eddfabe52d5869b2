//! The controller's machine and the messages between it and the nodes' agents.

use std::collections::VecDeque;

use weft_dpdk::tsc;
use weft_mobility_protocol::controller::Notice;
use weft_mobility_protocol::{
    Controller, Envelope, Epoch, Incarnation, Message, NodeId, Output, RouteStage, Settings, Step,
    Timers, User,
};
use weft_node::Agent;
use weft_node::mobility::{Mail, NoHandover};

use super::ends::Ends;
use super::nodes::NUMBERS;

/// Messages that are handed over in a turn: traffic waits meanwhile.
const AT_ONCE: usize = 8;

/// Something that happened in a move.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Whose move.
    pub user: u32,
    /// When, in cycles of the time-stamp counter.
    pub at: u64,
    /// What.
    pub what: StepOfMove,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOfMove {
    /// A message was sent: the name of its step.
    Sent(&'static str),
    /// The anchor said that it steers so.
    Routed(RouteStage),
    /// The source was told that the radio has left it.
    RadioLeft,
    /// The controller told that the move is complete.
    Moved,
}

/// The controller, and its messages.
pub struct Control {
    controller: Controller,
    mails: Vec<Mail>,
    inbox: VecDeque<Envelope>,
    timers: Timers<u64>,
    /// Where each user's radio is.
    radios: Vec<Option<usize>>,
    notices: Vec<Notice>,
    /// Moves and additions that are under way.
    under_way: usize,
    /// Why moves have failed, one for each.
    pub failed: Vec<String>,
    pub marks: Vec<Mark>,
}

impl Control {
    /// A controller that knows no user; the nodes say hello to it.
    ///
    /// # Errors
    /// When a node takes part in handovers already.
    pub fn new(agents: &mut [&mut Agent], users: u32) -> Result<Control, NoHandover> {
        let join =
            |agent: &mut &mut Agent| agent.join_handover(Incarnation(1), b"a secret of nodes");
        let mails = agents.iter_mut().map(join).collect::<Result<_, _>>()?;
        let mut out = Vec::new();
        let controller = Controller::new(Settings::default(), [], Epoch(1), &mut out);
        let mut control = Control {
            controller,
            mails,
            inbox: VecDeque::new(),
            timers: Timers::default(),
            radios: vec![None; users as usize],
            notices: Vec::new(),
            under_way: 0,
            failed: Vec::new(),
            marks: Vec::new(),
        };
        control.carry_out(out);
        Ok(control)
    }

    /// Whether all nodes have said hello.
    pub fn is_connected(&self) -> bool {
        NUMBERS.iter().all(|number| self.controller.incarnation(NodeId(*number)).is_some())
    }

    /// The user is to exist, at this station.
    pub fn add(&mut self, user: u32, station: usize) {
        self.under_way += 1;
        let (anchor, node) = (NodeId(NUMBERS[0]), NodeId(NUMBERS[station + 1]));
        self.order(|controller, out| controller.add(User(user.into()), anchor, node, out));
    }

    /// The users move to this station.
    pub fn move_all(&mut self, users: u32, station: usize) {
        self.under_way += users as usize;
        let node = NodeId(NUMBERS[station + 1]);
        let users = (0..users).map(|user| User(user.into()));
        self.order(|controller, out| controller.move_users(users, node, out));
    }

    /// Whether every user is where it was ordered to, or the order has failed.
    pub fn is_at_rest(&self) -> bool {
        self.under_way == 0
    }

    /// Moves messages, and lets agents and controller do their work.
    pub fn turn(&mut self, agents: &mut [&mut Agent], ends: &mut Ends) {
        for (agent, mail) in agents.iter_mut().zip(&self.mails) {
            agent.poll();
            self.inbox.extend(mail.from_node.try_iter());
        }
        for _ in 0..AT_ONCE {
            let Some(envelope) = self.inbox.pop_front() else { break };
            self.deliver(envelope);
        }
        while let Some(key) = self.timers.due(tsc::now()) {
            self.order(|controller, out| controller.timer(key, out));
        }
        for notice in std::mem::take(&mut self.notices) {
            self.hear(notice, agents, ends);
        }
    }

    fn deliver(&mut self, envelope: Envelope) {
        if let Message::Handover { user, step, .. } = &envelope.message {
            let what = match step {
                Step::Routed(stage) => StepOfMove::Routed(*stage),
                step => StepOfMove::Sent(step.name()),
            };
            self.mark(*user, what);
        }
        let to = NUMBERS.iter().position(|number| NodeId(*number) == envelope.to);
        match to {
            // A node that has stopped hears nothing.
            Some(node) => drop(self.mails[node].to_node.send(envelope)),
            None => self.order(|controller, out| controller.message(envelope, out)),
        }
    }

    fn mark(&mut self, user: User, what: StepOfMove) {
        self.marks.push(Mark { user: user.0 as u32, at: tsc::now(), what });
    }

    fn order(&mut self, order: impl FnOnce(&mut Controller, &mut Vec<Output>)) {
        let mut out = Vec::new();
        order(&mut self.controller, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(envelope) => self.inbox.push_back(envelope),
                Output::SetTimer(key, after) => {
                    let cycles = (after.as_secs_f64() * tsc::hz() as f64) as u64;
                    self.timers.set(key, tsc::now().saturating_add(cycles));
                }
                Output::CancelTimer(key) => self.timers.cancel(key),
                // There is no disk here: what is to be durable is so at once.
                Output::Persist { user, record: Some(record), .. } => {
                    self.order(|controller, out| controller.persisted(user, record.epoch(), out));
                }
                Output::Tell(notice) => self.notices.push(notice),
                _ => {}
            }
        }
    }

    fn hear(&mut self, notice: Notice, agents: &mut [&mut Agent], ends: &mut Ends) {
        match notice {
            Notice::Ready(user, node) => self.move_radio(user, node, agents, ends),
            Notice::Aborting(user, node) => self.move_radio(user, node, agents, ends),
            Notice::Owned(user, node) => {
                self.move_radio(user, node, agents, ends);
                self.under_way = self.under_way.saturating_sub(1);
            }
            Notice::Moved(user, _) => {
                self.mark(user, StepOfMove::Moved);
                self.under_way = self.under_way.saturating_sub(1);
            }
            Notice::Aborted(user, node) => self.fail(format!("{user} stayed at {node}")),
            Notice::Refused(user, why) => self.fail(format!("{user}: {why}")),
            Notice::NoOwner(user) => self.failed.push(format!("{user} has no owner")),
            Notice::Removed(_) => {}
        }
    }

    fn fail(&mut self, why: String) {
        self.failed.push(why);
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// The radio goes to a station at once, behind all that it had from the other.
    fn move_radio(&mut self, user: User, node: NodeId, agents: &mut [&mut Agent], ends: &mut Ends) {
        let Some(station) = NUMBERS[1..].iter().position(|number| NodeId(*number) == node) else {
            return;
        };
        let before = self.radios.get_mut(user.0 as usize).and_then(|at| at.replace(station));
        if before == Some(station) {
            return;
        }
        if let Some(before) = before {
            ends.drain(before);
            agents[before + 1].radio_left(user);
            self.mark(user, StepOfMove::RadioLeft);
        }
        agents[station + 1].radio_arrived(user);
    }
}
