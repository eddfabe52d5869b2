//! Orders to hand users over, and what has become of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::sync::oneshot;
use weft_mobility_protocol::controller::{Intent, Notice, Refusal, Stage};
use weft_mobility_protocol::{NodeId, User};

use super::Engine;
use crate::journal::{End, Entry, Ordered};

/// Orders that are remembered, finished ones among them.
const REMEMBERED: usize = 1000;
/// Users of one order of whom it is remembered why they are not where they were
/// to be.
const REASONS: usize = 100;

/// Who is to be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// One user.
    User(User),
    /// All users of a node.
    AllFrom(NodeId),
}

/// An order, and how far it is.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its number, which no other order has, nor had.
    pub number: u64,
    /// Where the users are to go.
    pub to: NodeId,
    /// Whose users they are, if it is all of a node's.
    pub from: Option<NodeId>,
    /// Users that are meant.
    pub users: usize,
    /// Users that are there.
    pub moved: usize,
    /// Users that stayed, or went elsewhere: their moves were given up.
    pub aborted: usize,
    /// Users whose moves did not begin.
    pub refused: usize,
    /// Why, for the first of those.
    pub reasons: Vec<(User, String)>,
    /// Users whose moves are under way, or wait to be.
    waiting: HashSet<User>,
}

impl Order {
    /// Whether nothing more will come of it.
    pub fn is_finished(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Users of whom it is not known yet.
    pub fn under_way(&self) -> usize {
        self.waiting.len()
    }

    /// An order of before the controller has started again. Why users are not where they
    /// were to be is forgotten.
    fn again(ordered: &Ordered, users: &BTreeSet<User>) -> Order {
        let [moved, aborted, refused] = ordered.ended.map(|count| count as usize);
        Order {
            number: ordered.number,
            to: ordered.to,
            from: ordered.from,
            users: ordered.users as usize,
            moved,
            aborted,
            refused,
            reasons: Vec::new(),
            waiting: users.iter().copied().collect(),
        }
    }

    /// As it is made durable.
    fn kept(&self) -> Ordered {
        Ordered {
            number: self.number,
            to: self.to,
            from: self.from,
            users: self.users as u64,
            ended: [self.moved, self.aborted, self.refused].map(|count| count as u64),
        }
    }
}

/// Why an order is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// No user would be handed over.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// From a node to itself.
    #[error("the users of a node cannot go to that node")]
    Same,
    /// The target takes no further users.
    #[error("the node takes no further users: it is cordoned")]
    Cordoned,
    /// There is no node for the users.
    #[error("no other node can take the users: none is connected and takes users")]
    Nowhere,
    /// There are no two stations.
    #[error("there are no two stations: nodes that are connected, not cordoned and no anchor")]
    Few,
    /// Stations are to be compared by what not all of them say.
    #[error("not all stations say that of themselves, or have said it of late")]
    Unmeasured,
    /// The target stands before the stations.
    #[error("the anchor cannot own a user itself")]
    Anchor,
}

/// What has become of a user.
enum Outcome {
    Moved,
    Aborted(String),
    Refused(Refusal),
}

/// All orders.
#[derive(Debug)]
pub struct Orders {
    next: u64,
    orders: BTreeMap<u64, Order>,
    of_user: HashMap<User, u64>,
    /// Users whose moves had not begun when the controller stopped, by where they are to go.
    resumed: BTreeMap<NodeId, Vec<User>>,
    /// What is to be made durable.
    entries: Vec<Entry>,
    waiters: HashMap<u64, Vec<oneshot::Sender<()>>>,
}

impl Orders {
    /// Those that were durable.
    pub fn new(
        recovered: &BTreeMap<u64, (Ordered, BTreeSet<User>)>,
        since_1970: Duration,
    ) -> Orders {
        // A controller whose records were lost does not use numbers again.
        let seconds = since_1970.as_secs();
        let last = recovered.keys().next_back().copied().unwrap_or_default();
        let mut orders = Orders {
            next: last.max((seconds & 0xffff_ffff) << 20),
            orders: BTreeMap::new(),
            of_user: HashMap::new(),
            resumed: BTreeMap::new(),
            entries: Vec::new(),
            waiters: HashMap::new(),
        };
        for (ordered, users) in recovered.values() {
            orders.of_user.extend(users.iter().map(|user| (*user, ordered.number)));
            orders.orders.insert(ordered.number, Order::again(ordered, users));
        }
        orders.forget();
        orders
    }

    /// Users of whom it is not known yet what becomes of them.
    pub fn under_way(&self) -> usize {
        self.of_user.len()
    }

    /// How much is to be made durable.
    pub fn unwritten(&self) -> usize {
        self.entries.len()
    }

    /// What is to be made durable.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    /// All that is to be durable.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.orders.values().flat_map(|order| {
            let meant = order.waiting.iter().map(|user| Entry::Meant(*user, order.number));
            [Entry::Order(order.kept())].into_iter().chain(meant)
        })
    }

    /// A node does not come back: users whose moves to it had not begun stay where they are.
    pub fn target_gone(&mut self, node: NodeId) {
        for user in self.resumed.remove(&node).unwrap_or_default() {
            self.end(user, Outcome::Refused(Refusal::UnknownNode));
        }
    }

    /// The order of that number.
    pub fn get(&self, number: u64) -> Option<&Order> {
        self.orders.get(&number)
    }

    /// All that are remembered, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Order> {
        self.orders.values()
    }

    /// Says when the order is finished.
    pub fn finished(&mut self, number: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        if self.orders.get(&number).is_some_and(|order| !order.is_finished()) {
            let waiters = self.waiters.entry(number).or_default();
            waiters.retain(|waiter| !waiter.is_closed());
            waiters.push(sender);
        }
        receiver
    }

    /// The number of the next order.
    pub fn next_number(&self) -> u64 {
        self.next + 1
    }

    fn open(&mut self, to: NodeId, from: Option<NodeId>, users: &[User]) -> u64 {
        self.next += 1;
        let number = self.next;
        let waiting = users.iter().copied().collect();
        let order = Order {
            number,
            to,
            from,
            users: users.len(),
            moved: 0,
            aborted: 0,
            refused: 0,
            reasons: Vec::new(),
            waiting,
        };
        self.of_user.extend(users.iter().map(|user| (*user, number)));
        self.entries.push(Entry::Order(order.kept()));
        self.entries.extend(users.iter().map(|user| Entry::Meant(*user, number)));
        self.orders.insert(number, order);
        self.forget();
        number
    }

    /// Forgets the oldest that are finished.
    fn forget(&mut self) {
        while self.orders.len() > REMEMBERED {
            let finished = self.orders.values().find(|order| order.is_finished());
            let Some(number) = finished.map(|order| order.number) else { return };
            self.orders.remove(&number);
        }
    }

    /// What the machine tells.
    pub fn noted(&mut self, notice: &Notice) {
        match *notice {
            Notice::Moved(user, node) | Notice::Owned(user, node) => {
                let to = self.of_user.get(&user).and_then(|number| self.orders.get(number));
                if to.is_some_and(|order| order.to == node) {
                    self.end(user, Outcome::Moved);
                } else {
                    self.end(user, Outcome::Aborted(format!("it is at {node} now")));
                }
            }
            Notice::Aborted(user, _) => {
                self.end(user, Outcome::Aborted("the move was given up".to_owned()));
            }
            Notice::Removed(user) => self.end(user, Outcome::Aborted("it was removed".to_owned())),
            Notice::Refused(user, refusal) => self.end(user, Outcome::Refused(refusal)),
            Notice::Ready(..) | Notice::Aborting(..) | Notice::NoOwner(_) => {}
        }
    }

    fn end(&mut self, user: User, outcome: Outcome) {
        let Some(number) = self.of_user.remove(&user) else { return };
        let Some(order) = self.orders.get_mut(&number) else { return };
        order.waiting.remove(&user);
        let (end, reason) = match outcome {
            Outcome::Moved => {
                order.moved += 1;
                (End::Moved, None)
            }
            Outcome::Aborted(reason) => {
                order.aborted += 1;
                (End::Aborted, Some(reason))
            }
            Outcome::Refused(refusal) => {
                order.refused += 1;
                (End::Refused, Some(refusal.to_string()))
            }
        };
        self.entries.push(Entry::Ended(user, number, end));
        if let Some(reason) = reason.filter(|_| order.reasons.len() < REASONS) {
            order.reasons.push((user, reason));
        }
        if order.is_finished() {
            for waiter in self.waiters.remove(&number).unwrap_or_default() {
                // It may not wait any more.
                let _ = waiter.send(());
            }
        }
    }
}

impl Engine {
    /// Hands users over; returns the order.
    ///
    /// # Errors
    /// When there is nothing to do, or no node that can do it.
    pub fn hand_over(&mut self, who: Ways, to: NodeId) -> Result<Order, OrderError> {
        if self.machine.incarnation(to).is_none() {
            return Err(Refusal::UnknownNode.into());
        }
        if self.is_cordoned(to) {
            return Err(OrderError::Cordoned);
        }
        let (from, users) = match who {
            Ways::User(user) => (None, vec![self.movable(user, to)?]),
            Ways::AllFrom(node) if node == to => return Err(OrderError::Same),
            Ways::AllFrom(node) => (Some(node), self.users_of(node)),
        };
        let behind = |user: &User| self.machine.record(*user).map(|record| record.anchor);
        if users.iter().filter_map(behind).any(|anchor| anchor == to) {
            return Err(OrderError::Anchor);
        }
        let number = self.orders.open(to, from, &users);
        self.drive(|machine, out| machine.move_users(users, to, out));
        // It was opened just now.
        self.orders.get(number).cloned().ok_or(Refusal::UnknownUser.into())
    }

    /// An order for users of a node.
    pub(super) fn open_order(&mut self, to: NodeId, from: NodeId, users: &[User]) -> u64 {
        self.orders.open(to, Some(from), users)
    }

    /// Sorts users of orders that were not finished when the controller stopped: those
    /// whose moves had begun are going already.
    pub(super) fn look_at_orders(&mut self) {
        let users: Vec<_> = self.orders.of_user.iter().map(|(user, at)| (*user, *at)).collect();
        for (user, number) in users {
            let Some(to) = self.orders.get(number).map(|order| order.to) else { continue };
            let Some(record) = self.machine.record(user) else {
                self.orders.end(user, Outcome::Refused(Refusal::UnknownUser));
                continue;
            };
            match record.intent {
                Intent::Settled if record.owner.is_some_and(|leg| leg.node == to) => {
                    self.orders.end(user, Outcome::Moved);
                }
                Intent::Settled => self.orders.resumed.entry(to).or_default().push(user),
                Intent::Move { .. } | Intent::Remove { .. } => {}
            }
        }
        self.orders.resumed.values_mut().for_each(|users| users.sort_unstable());
    }

    /// Goes on with orders to nodes that have said hello.
    pub(super) fn go_on_with_orders(&mut self) {
        let is_known = |node: &NodeId| self.machine.incarnation(*node).is_some();
        let known: Vec<_> = self.orders.resumed.keys().copied().filter(is_known).collect();
        for to in known {
            let users = self.orders.resumed.remove(&to).unwrap_or_default();
            self.drive(|machine, out| machine.move_users(users, to, out));
        }
    }

    /// A user for whom nothing else is to be done.
    fn movable(&self, user: User, to: NodeId) -> Result<User, Refusal> {
        let Some(record) = self.machine.record(user) else { return Err(Refusal::UnknownUser) };
        let settled = self.machine.stage(user) == Some(Stage::Settled);
        match record.owner {
            Some(owner) if settled && owner.node == to => Err(Refusal::AlreadyThere),
            _ if !settled || self.orders.of_user.contains_key(&user) => Err(Refusal::Busy),
            _ => Ok(user),
        }
    }

    /// Users that a node owns, or is to own, and that no other order means.
    pub(super) fn users_of(&self, node: NodeId) -> Vec<User> {
        let users = self.machine.users_at(node, User(0));
        let there = users.filter(|(user, record, _)| {
            let leg = super::view::target(record).or(record.owner);
            leg.is_some_and(|leg| leg.node == node) && !self.orders.of_user.contains_key(user)
        });
        there.map(|(user, _, _)| user).collect()
    }

    /// The order of that number.
    pub fn order(&self, number: u64) -> Option<Order> {
        self.orders.get(number).cloned()
    }

    /// All orders that are remembered, oldest first.
    pub fn orders(&self) -> Vec<Order> {
        self.orders.iter().cloned().collect()
    }

    /// The order, and who says when it is finished.
    pub fn follow(&mut self, number: u64) -> Option<(Order, oneshot::Receiver<()>)> {
        let order = self.order(number)?;
        Some((order, self.orders.finished(number)))
    }
}
