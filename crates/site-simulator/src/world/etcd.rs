//! etcd: requests reach its members, and are answered, or not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_etcd::{Carried, Etcd, EtcdError, Fence, Operation, Page, Range};
use weft_mobility_controller::surroundings::Clock;

use super::{Event, Party, SECOND, Shared, World};
use crate::processes::{ProcessId, own};
use crate::scenario::Mutation;

/// How long a replica waits for one member, as [`weft_etcd::Cluster`] does.
const PATIENCE: u64 = 800_000;
/// Pause where a key cannot be watched.
const PAUSE: u64 = 200_000;
/// etcd makes no lease shorter than that.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);
pub(super) const PREFIX: &str = "/weft/simulated/";

/// A member of etcd.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub is_dead: bool,
}

/// What is asked of etcd.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Transact(Vec<Fence>, Vec<Operation>),
    Range(Range),
    Grant(Duration),
    Renew(i64),
    Revoke(i64),
}

/// What it answers.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Carried(Carried),
    Page(Page),
    Granted(i64, Duration),
    Renewed(bool),
    Revoked,
}

impl World {
    fn is_cut(&self, one: Party, other: Party) -> bool {
        let cut = self.cuts.get(&(one.min(other), one.max(other)));
        cut.is_some_and(|until| *until > self.time())
    }

    /// Whether two parties reach each other.
    pub(super) fn reach(&self, one: Party, other: Party) -> bool {
        !self.is_cut(one, other)
    }

    /// Sends a request to the member that a replica asks; its number.
    fn request(&mut self, replica: usize, process: ProcessId, asked: Asked) -> u64 {
        self.number += 1;
        let (id, member) = (self.number, self.replicas[replica].member);
        self.requests.insert(id, (replica, process, member, asked));
        if self.members[member].is_dead {
            // Its machine may be gone as well: then nothing is heard.
            if self.random.one_in_thousand(700) {
                self.after(1000, Event::Answers(id, Err(refused())));
            }
        } else if self.reach(Party::Replica(replica), Party::Member(member)) {
            let is_late = self.scenario.faults.etcd && self.random.one_in_thousand(5);
            let most = if is_late { 5 * SECOND } else { 1500 };
            let delay = self.random.between(100, most);
            self.after(delay, Event::Arrives(id));
        }
        id
    }

    /// A request has reached its member.
    pub(super) fn arrives(&mut self, id: u64) {
        let Some((replica, _, member, asked)) = self.requests.get(&id).cloned() else { return };
        let time = self.time();
        if self.members[member].is_dead {
            return drop(self.requests.remove(&id));
        }
        if self.leaderless > time {
            // It is refused, lost, or carried out once there is a leader, also if its replica waits no longer.
            match self.random.between(0, 3) {
                0 => self.after(1000, Event::Answers(id, Err(refused()))),
                1 => drop(self.requests.remove(&id)),
                _ => {
                    let later = self.random.between(1, SECOND);
                    self.at(self.leaderless + later, Event::Arrives(id));
                }
            }
            return;
        }
        let said = self.carry_out(asked);
        self.tell_watches();
        if self.reach(Party::Replica(replica), Party::Member(member)) {
            let delay = self.random.between(100, 1500);
            self.after(delay, Event::Answers(id, said));
        } else {
            self.requests.remove(&id);
        }
    }

    fn carry_out(&mut self, asked: Asked) -> Result<Said, EtcdError> {
        let now = Duration::from_micros(self.time());
        match asked {
            Asked::Transact(mut fences, operations) => {
                // What is compared by a leader is the key of its election, and the count.
                match self.scenario.mutation {
                    Some(Mutation::NoFence) => {
                        fences.retain(|fence| !matches!(fence, Fence::Made(_, made) if *made > 0));
                    }
                    Some(Mutation::NoCount) => {
                        fences.retain(|fence| !matches!(fence, Fence::Value(..)));
                    }
                    _ => {}
                }
                self.model.transact(&fences, &operations).map(Said::Carried)
            }
            Asked::Range(range) => self.model.range(&range).map(Said::Page),
            Asked::Grant(lasts) => {
                let lasts = lasts.max(SHORTEST_LEASE);
                self.model.grant(lasts, now).map(|lease| Said::Granted(lease, lasts))
            }
            Asked::Renew(lease) => Ok(Said::Renewed(self.model.renew(lease, now))),
            Asked::Revoke(lease) => {
                self.model.revoke(lease);
                Ok(Said::Revoked)
            }
        }
    }

    /// The answer to a request has come.
    pub(super) fn answers(&mut self, id: u64, said: Result<Said, EtcdError>) {
        let Some((_, process, ..)) = self.requests.remove(&id) else { return };
        if self.waits.contains_key(&process) {
            self.answers.insert(id, said);
            self.notify(process);
        }
    }

    /// Leases whose time is over end, while etcd has a leader.
    pub(super) fn expire_leases(&mut self) {
        if self.leaderless <= self.time() {
            self.model.expire(Duration::from_micros(self.time()));
            self.tell_watches();
        }
    }

    fn tell_watches(&mut self) {
        let (told, kept) = std::mem::take(&mut self.watches)
            .into_iter()
            .partition(|(_, _, key, since)| self.model.has_changed(key, *since));
        self.watches = kept;
        for (process, ..) in told {
            self.notify(process);
        }
    }
}

fn refused() -> EtcdError {
    EtcdError::Unreachable("refused".to_owned())
}

/// A replica's way to etcd.
pub(super) struct Client {
    pub shared: Arc<Shared>,
    pub replica: usize,
    pub clock: Clock,
}

impl Client {
    /// Asks one member after another, from the one that answered last.
    fn ask(&self, asked: &Asked) -> Result<Said, EtcdError> {
        let own = own().unwrap_or(ProcessId(0));
        let members = self.shared.lock().members.len();
        for _ in 0..members {
            let deadline = self.shared.time() + PATIENCE;
            let id = self.shared.lock().request(self.replica, own, asked.clone());
            let answer = loop {
                if let Some(answer) = self.shared.lock().answers.remove(&id) {
                    break Some(answer);
                }
                if self.shared.time() >= deadline {
                    break None;
                }
                self.shared.wait_until(deadline);
            };
            match answer {
                Some(Err(EtcdError::Unreachable(_))) | None => {
                    let mut world = self.shared.lock();
                    if let Some(request) = world.requests.get_mut(&id) {
                        request.1 = ProcessId(0);
                    }
                    let replica = &mut world.replicas[self.replica];
                    replica.member = (replica.member + 1) % members;
                }
                Some(answer) => return answer,
            }
        }
        Err(EtcdError::Unreachable("no member answers".to_owned()))
    }
}

impl Etcd for Client {
    fn prefix(&self) -> &str {
        PREFIX
    }

    fn transact(
        &self,
        fences: Vec<Fence>,
        operations: Vec<Operation>,
    ) -> Result<Carried, EtcdError> {
        match self.ask(&Asked::Transact(fences, operations))? {
            Said::Carried(carried) => Ok(carried),
            _ => Err(refused()),
        }
    }

    fn range(&self, range: Range) -> Result<Page, EtcdError> {
        match self.ask(&Asked::Range(range))? {
            Said::Page(page) => Ok(page),
            _ => Err(refused()),
        }
    }

    fn grant(&self, lasts: Duration) -> Result<(i64, Duration), EtcdError> {
        match self.ask(&Asked::Grant(lasts))? {
            Said::Granted(lease, lasts) => Ok((lease, lasts)),
            _ => Err(refused()),
        }
    }

    fn renew(&self, lease: i64) -> Result<bool, EtcdError> {
        match self.ask(&Asked::Renew(lease))? {
            Said::Renewed(is_there) => Ok(is_there),
            _ => Err(refused()),
        }
    }

    fn revoke(&self, lease: i64) {
        // One that cannot be ended ends by itself.
        let _ = self.ask(&Asked::Revoke(lease));
    }

    fn wait_for_change(&self, key: &str, since: u64, longest: Duration) {
        let (Some(own), time) = (own(), self.shared.time()) else { return };
        let mut world = self.shared.lock();
        let member = world.replicas[self.replica].member;
        let is_there = !world.members[member].is_dead
            && world.reach(Party::Replica(self.replica), Party::Member(member));
        let until = if !is_there {
            time + PAUSE
        } else if world.model.has_changed(key, since) {
            time + 1000
        } else {
            world.watches.push((own, self.replica, key.to_owned(), since));
            time + longest.as_micros() as u64
        };
        drop(world);
        self.shared.wait_until(until);
        self.shared.lock().watches.retain(|(process, ..)| *process != own);
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn sleep(&self, time: Duration) {
        self.shared.wait_until(self.shared.time() + time.as_micros() as u64);
    }

    fn begin(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        self.shared.lock().begun.push((self.replica, work));
        true
    }
}
