//! Operators: they order, and ask.

use std::sync::{Arc, Weak};

use weft_mobility_controller::engine::{Answer, Engine, Happening, Input, UserView, Ways};
use weft_mobility_protocol::{NodeId, User};
use weft_site::document;
use weft_site::upgrade::Method;

use super::documents::Said;
use super::{Event, Promise, SECOND, Shared, World};
use crate::history::Seen;

/// What an operator orders.
#[derive(Clone, Debug)]
enum Order {
    One(User, NodeId),
    All(NodeId, NodeId),
    Drain(NodeId),
    Upgrade(Method),
    Documents(String),
}

impl World {
    fn stations(&self) -> Vec<NodeId> {
        self.nodes.values().filter(|node| node.is_station()).map(|node| node.number).collect()
    }

    /// Gives something to a replica that takes itself for the leader; false if there is none.
    fn ask_leader(
        &mut self,
        question: impl FnOnce(&mut Engine) -> Answer + Send + 'static,
    ) -> bool {
        let leaders: Vec<_> =
            (0..self.replicas.len()).filter(|nth| self.replicas[*nth].leads.is_some()).collect();
        let Some(replica) = self.random.pick(&leaders) else { return false };
        let Some(leads) = &mut self.replicas[replica].leads else { return false };
        leads.give(Input::Ask(Box::new(question)));
        let process = leads.process;
        self.notify(process);
        true
    }

    /// An operator orders something, until there are enough orders.
    pub(super) fn order(&mut self) {
        if self.orders >= self.scenario.orders {
            return;
        }
        let pause = self.random.between(100_000, 2 * SECOND);
        self.after(pause, Event::Order);
        let stations = self.stations();
        let user = User(self.random.between(1, self.scenario.users + 1));
        let (from, to) = (self.random.pick(&stations), self.random.pick(&stations));
        let (Some(from), Some(to)) = (from, to) else { return };
        let order = match self.random.between(0, 11) {
            0 if self.random.one_in_thousand(300) => {
                let methods = [Method::InPlace, Method::Drain];
                Order::Upgrade(self.random.pick(&methods).unwrap_or(Method::InPlace))
            }
            0 => Order::Drain(from),
            1..4 => Order::All(from, to),
            10 => Order::Documents(self.next_revision()),
            _ => Order::One(user, to),
        };
        let said = format!("{order:?}");
        let asked = self.ask_leader(move |engine| {
            // What is refused was worth nothing at that moment.
            match order {
                Order::One(user, to) => drop(engine.hand_over(Ways::User(user), to)),
                Order::All(from, to) => drop(engine.hand_over(Ways::AllFrom(from), to)),
                Order::Drain(node) => {
                    drop(engine.drain(node, false));
                    engine.cordon(node, false);
                }
                Order::Upgrade(method) => drop(engine.begin_upgrade(method, &[])),
                Order::Documents(text) => {
                    let documents = document::read(&text, "simulated").unwrap_or_default();
                    drop(engine.apply_documents(documents, String::new(), false));
                }
            }
            Box::new(|| {})
        });
        self.orders += u64::from(asked);
        self.note(|| format!("ordered: {said}: {asked}"));
    }

    /// An operator asks where a user is.
    pub(super) fn ask(&mut self) {
        let pause = self.random.between(5_000, 200_000);
        self.after(pause, Event::Ask);
        let user = User(self.random.between(1, self.scenario.users + 1));
        let asked = self.time();
        let Some(shared) = self.shared() else { return };
        self.ask_leader(move |engine| {
            let read = engine.user(user);
            Box::new(move || {
                if let (Some(read), Some(shared)) = (read, shared.upgrade()) {
                    shared.lock().answered(&read, asked);
                }
            })
        });
    }

    fn answered(&mut self, view: &UserView, asked: u64) {
        let answered = self.time();
        self.statistics.answers += 1;
        let UserView { user, owner, owned: least, epoch: most, .. } = *view;
        let owner = owner.map(|node| node.0);
        self.history.answered(user.0, Seen::Read { owner, least, most, asked, answered });
    }

    /// It is looked whether all is well, after the last fault.
    pub(super) fn look(&mut self) {
        self.after(SECOND / 5, Event::Look);
        let Some(shared) = self.shared() else { return };
        let asked = self.ask_leader(move |engine| {
            let users = engine.users(None, User(0), usize::MAX);
            let open = engine.orders().iter().filter(|order| !order.is_finished()).count();
            let said = Said::by(engine);
            let open = open + engine.waiting() + usize::from(engine.upgrade().is_running());
            Box::new(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.lock().settled(&users, open, &said);
                }
            })
        });
        if !asked {
            self.unwell = (Promise::Placed, "no replica leads".to_owned());
        }
    }

    /// What the leader has told.
    pub(super) fn happened(&mut self, happening: &Happening) {
        match happening.event.as_str() {
            "moved" => self.statistics.moves[0] += 1,
            "aborted" => self.statistics.moves[1] += 1,
            "owned" => self.statistics.adopted += 1,
            "rollout-complete" => self.statistics.revisions[0] += 1,
            "rollout-failed" => self.statistics.revisions[1] += 1,
            "spread" => {
                self.statistics.spreads += 1;
                self.spread(happening.reason.as_deref().unwrap_or_default());
            }
            _ => {}
        }
        let Happening { event, user, node, .. } = happening;
        self.note(|| format!("told: {event} {user:?} {node:?}"));
    }

    fn shared(&self) -> Option<Weak<Shared>> {
        self.own.clone()
    }
}

impl Shared {
    /// The world knows who has it.
    pub(super) fn introduce(self: &Arc<Shared>) {
        self.lock().own = Some(Arc::downgrade(self));
    }
}
