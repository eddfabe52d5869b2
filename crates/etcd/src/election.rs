//! Who leads: the replica that has made the key `leader`, as long as the lease of that key lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::EtcdError;
use crate::layout::{self, ValueKind};
use crate::requests::{Etcd, Fence, Found, Operation, Range};

/// Pause after an attempt that came to nothing because etcd does not answer.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the end of another leader is waited for before it is looked again.
const LOOK: Duration = Duration::from_secs(1);
/// Pause after a renewal that came to nothing.
const RETRY: Duration = Duration::from_millis(50);
/// A lease is renewed so many times before it would end.
const RENEWALS: u32 = 4;

/// Who wants to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name, which no other replica has.
    pub name: String,
    /// Where clients reach it: a URL, or nothing.
    pub address: String,
}

/// Who leads, as etcd says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its name.
    pub name: String,
    /// Where clients reach it: a URL, or nothing.
    pub address: String,
    /// Revision at which it began to lead. Later leaders have higher ones.
    pub term: u64,
}

/// A replica that campaigns.
#[derive(Clone)]
pub struct Election {
    etcd: Arc<dyn Etcd>,
    candidate: Candidate,
    lease: Duration,
}

/// What an attempt came to.
enum Attempt {
    Won(Leadership),
    /// Another one leads, as etcd says at this revision.
    Lost(Leader, u64),
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Election").field(&self.candidate).finish()
    }
}

impl Election {
    /// A candidate whose lease, once it leads, lasts so many seconds; etcd grants no lease
    /// shorter than one and a half times the time of its own elections, 2 s by default.
    pub fn new(etcd: Arc<dyn Etcd>, candidate: Candidate, lease: Duration) -> Election {
        Election { etcd, candidate, lease }
    }

    /// Waits until this replica leads; `None` when it is told to stop. `seen` is called with
    /// who leads meanwhile, none when that is not known, and with the reason if etcd does not
    /// answer.
    pub fn campaign(
        &self,
        stop: &AtomicBool,
        mut seen: impl FnMut(Option<Leader>, Option<&EtcdError>),
    ) -> Option<Leadership> {
        while !stop.load(Ordering::Relaxed) {
            match self.attempt() {
                Ok(Attempt::Won(leadership)) => return Some(leadership),
                Ok(Attempt::Lost(leader, revision)) => {
                    seen(Some(leader), None);
                    self.etcd.wait_for_change(&self.key(), revision, LOOK);
                }
                Err(error) => {
                    seen(None, Some(&error));
                    self.etcd.sleep(PAUSE);
                }
            }
        }
        None
    }

    fn key(&self) -> String {
        format!("{}leader", self.etcd.prefix())
    }

    fn attempt(&self) -> Result<Attempt, EtcdError> {
        if let (Some(leader), revision) = self.leader()? {
            return Ok(Attempt::Lost(self.read(&leader)?, revision));
        }
        let asked = self.etcd.now();
        let (lease, ttl) = self.etcd.grant(self.lease)?;
        let Candidate { name, address } = &self.candidate;
        let said = format!("{name}\n{address}");
        let value = layout::value(ValueKind::Leader, said.as_bytes());
        let is_free = Fence::Made(self.key(), 0);
        let put = Operation::Put { key: self.key(), value, lease };
        // A member that was slow may have written all the same: who leads is read in any case.
        let written = self.etcd.transact(vec![is_free], vec![put]);
        let (there, revision) = self.leader()?;
        match there {
            Some(there) if there.lease == lease => Ok(Attempt::Won(self.won(&there, asked, ttl))),
            there => {
                self.etcd.revoke(lease);
                written?;
                let gone = || EtcdError::Unreachable("another leader has just ended".to_owned());
                Ok(Attempt::Lost(self.read(&there.ok_or_else(gone)?)?, revision))
            }
        }
    }

    /// This replica leads: its key is there, with a lease that was asked for then.
    fn won(&self, there: &Found, asked: Instant, ttl: Duration) -> Leadership {
        if ttl > self.lease {
            let (asked, granted) = (self.lease.as_secs(), ttl.as_secs());
            tracing::warn!(
                asked,
                granted,
                "etcd grants a longer lease, and that counts: start etcd with a shorter \
                 --election-timeout, or set `etcd.lease` to what it grants"
            );
        }
        let until = Mutex::new(Some(asked + ttl));
        let lease = Arc::new(Lease { id: there.lease, ttl, until });
        let (etcd, id, held) = (self.etcd.clone(), there.lease, Arc::downgrade(&lease));
        if !self.etcd.begin(Box::new(move || keep(etcd.as_ref(), id, &held))) {
            // Without renewals it ends with its first lease.
            tracing::error!("no thread for the renewal of the leader's lease");
        }
        Leadership { etcd: self.etcd.clone(), key: self.key(), term: there.made, lease }
    }

    /// The key of the leader, and the revision at which it was read.
    fn leader(&self) -> Result<(Option<Found>, u64), EtcdError> {
        let range = Range { from: self.key(), before: None, limit: 1, revision: 0 };
        let mut page = self.etcd.range(range)?;
        Ok((page.found.pop(), page.revision))
    }

    fn read(&self, there: &Found) -> Result<Leader, EtcdError> {
        let damaged = |what| EtcdError::Refused(format!("{}: {what}", self.key()));
        let said = layout::said(ValueKind::Leader, &there.value).map_err(damaged)?;
        let text = String::from_utf8_lossy(said);
        let (name, address) = text.split_once('\n').unwrap_or((&text, ""));
        let term = there.made;
        Ok(Leader { name: name.to_owned(), address: address.to_owned(), term })
    }
}

#[derive(Debug)]
struct Lease {
    id: i64,
    ttl: Duration,
    /// It lasts as long, by this machine's clock: from when it was asked for. None once it is
    /// known to be over: what is told so stops to lead, and an answer that comes late must not
    /// make this replica lead without knowing it.
    until: Mutex<Option<Instant>>,
}

impl Lease {
    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is over, from now on for good.
    fn is_over(&self, now: Instant) -> bool {
        let mut until = self.until();
        *until = until.filter(|until| now < *until);
        until.is_none()
    }

    /// It was renewed by what was asked then, unless it is known to be over.
    fn renew(&self, asked: Instant) {
        let mut until = self.until();
        *until = until.and(Some(asked + self.ttl));
    }

    fn end(&self) {
        *self.until() = None;
    }
}

/// This replica leads, until it is [over](Leadership::is_over) or resigns.
#[derive(Clone)]
pub struct Leadership {
    etcd: Arc<dyn Etcd>,
    key: String,
    term: u64,
    lease: Arc<Lease>,
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leadership").field("term", &self.term).finish_non_exhaustive()
    }
}

impl Leadership {
    /// Revision at which it began: no transaction of an earlier leader is carried out after it.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Whether it has ended, or may have: its lease was not renewed in time.
    pub fn is_over(&self) -> bool {
        self.lease.is_over(self.etcd.now())
    }

    /// It is known to have ended.
    pub(crate) fn lose(&self) {
        self.lease.end();
    }

    pub(crate) fn etcd(&self) -> &Arc<dyn Etcd> {
        &self.etcd
    }

    /// What a transaction has to compare so that only this leader may write.
    pub(crate) fn fence(&self) -> Fence {
        Fence::Made(self.key.clone(), self.term)
    }

    /// Lets another replica lead at once.
    pub fn resign(&self) {
        self.lose();
        self.etcd.revoke(self.lease.id);
    }
}

/// Renews a lease until it is known to be over, or what it was for is gone; then gives it back:
/// an answer that came too late may have renewed it.
fn keep(etcd: &dyn Etcd, id: i64, held: &Weak<Lease>) {
    let mut failed = false;
    let pause = |failed| {
        let lease = held.upgrade()?;
        let left = (*lease.until())?.saturating_duration_since(etcd.now());
        Some(if failed { RETRY } else { left.min(lease.ttl / RENEWALS) })
    };
    while let Some(pause) = pause(failed) {
        etcd.sleep(pause);
        let asked = etcd.now();
        let renewed = etcd.renew(id);
        failed = renewed.is_err();
        let Some(lease) = held.upgrade() else { break };
        match renewed {
            Ok(true) => lease.renew(asked),
            Ok(false) => lease.end(),
            Err(_) => {}
        }
    }
    etcd.revoke(id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_known_to_be_over_is_not_renewed_by_a_late_answer() {
        let ttl = Duration::from_millis(20);
        let lease = Lease { id: 1, ttl, until: Mutex::new(Some(Instant::now())) };
        // Nothing has been told yet, and etcd says that it lasts.
        lease.renew(Instant::now() + ttl);
        assert!(!lease.is_over(Instant::now()));
        let later = Instant::now() + 3 * ttl;
        assert!(lease.is_over(later));
        lease.renew(Instant::now() + ttl);
        assert!(lease.is_over(Instant::now()), "for good");
    }
}
