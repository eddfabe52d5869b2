//! Who leads: the replica that has made the key `leader`, as long as the lease of that key lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, Txn, TxnOp, WatchOptions};
use tokio::time::{sleep, timeout};

use crate::cluster::Cluster;
use crate::error::EtcdError;
use crate::layout::{self, ValueKind};

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
#[derive(Clone, Debug)]
pub struct Election {
    cluster: Cluster,
    candidate: Candidate,
    lease: Duration,
}

/// What an attempt came to.
enum Attempt {
    Won(Leadership),
    /// Another one leads, as etcd says at this revision.
    Lost(Leader, i64),
}

impl Election {
    /// A candidate whose lease, once it leads, lasts so many seconds; etcd takes no lease
    /// shorter than one and a half times the time of its own elections, 2 s by default.
    pub fn new(cluster: Cluster, candidate: Candidate, lease: Duration) -> Election {
        Election { cluster, candidate, lease }
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
            let own = self.clone();
            match self.cluster.wait(async move { own.attempt().await })? {
                Ok(Attempt::Won(leadership)) => return Some(leadership),
                Ok(Attempt::Lost(leader, revision)) => {
                    seen(Some(leader), None);
                    let own = self.clone();
                    self.cluster.wait(async move { own.until_over(revision).await })?;
                }
                Err(error) => {
                    seen(None, Some(&error));
                    std::thread::sleep(PAUSE);
                }
            }
        }
        None
    }

    fn key(&self) -> String {
        format!("{}leader", self.cluster.prefix())
    }

    async fn attempt(&self) -> Result<Attempt, EtcdError> {
        if let (Some(leader), revision) = self.leader().await? {
            return Ok(Attempt::Lost(self.read(&leader)?, revision));
        }
        let asked = Instant::now();
        let seconds = self.lease.as_secs().max(1) as i64;
        let granted = self.cluster.ask(async |mut client| client.lease_grant(seconds, None).await);
        let granted = granted.await?;
        let (lease, ttl) = (granted.id(), Duration::from_secs(granted.ttl().max(1) as u64));
        let Candidate { name, address } = &self.candidate;
        let (key, said) = (self.key(), format!("{name}\n{address}"));
        let value = layout::value(ValueKind::Leader, said.as_bytes());
        let written = self.cluster.ask(|mut client| {
            let put =
                TxnOp::put(key.clone(), value.clone(), Some(PutOptions::new().with_lease(lease)));
            let is_free = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
            async move { client.txn(Txn::new().when([is_free]).and_then([put])).await }
        });
        // A member that was slow may have written all the same: who leads is read in any case.
        let written = written.await;
        let (there, revision) = self.leader().await?;
        match there {
            Some(there) if there.lease() == lease => {
                let term = there.create_revision() as u64;
                let until = Mutex::new(Some(asked + ttl));
                let shared = Arc::new(Lease { id: lease, ttl, until });
                tokio::spawn(keep(self.cluster.clone(), lease, Arc::downgrade(&shared)));
                let cluster = self.cluster.clone();
                Ok(Attempt::Won(Leadership { cluster, key, term, lease: shared }))
            }
            there => {
                revoke(&self.cluster, lease).await;
                written?;
                let gone = || EtcdError::Unreachable("another leader has just ended".to_owned());
                Ok(Attempt::Lost(self.read(&there.ok_or_else(gone)?)?, revision))
            }
        }
    }

    /// The key of the leader, and the revision at which it was read.
    async fn leader(&self) -> Result<(Option<KeyValue>, i64), EtcdError> {
        let key = self.key();
        let read = self.cluster.ask(|mut client| {
            let key = key.clone();
            async move { client.get(key, None).await }
        });
        let mut read = read.await?;
        let revision = read.header().map_or(0, |header| header.revision());
        Ok((read.take_kvs().pop(), revision))
    }

    fn read(&self, there: &KeyValue) -> Result<Leader, EtcdError> {
        let damaged = |what| EtcdError::Refused(format!("{}: {what}", self.key()));
        let said = layout::said(ValueKind::Leader, there.value()).map_err(damaged)?;
        let text = String::from_utf8_lossy(said);
        let (name, address) = text.split_once('\n').unwrap_or((&text, ""));
        let term = there.create_revision() as u64;
        Ok(Leader { name: name.to_owned(), address: address.to_owned(), term })
    }

    /// Returns when who leads has changed since a revision, and now and then.
    async fn until_over(&self, revision: i64) {
        let key = self.key();
        let watched = self.cluster.ask(|mut client| {
            let options = WatchOptions::new().with_start_revision(revision + 1);
            let key = key.clone();
            async move { client.watch(key, Some(options)).await }
        });
        let Ok(mut watched) = watched.await else { return sleep(PAUSE).await };
        // The first answer says that it is watched.
        let mut answers = 0;
        let _ = timeout(LOOK, async {
            while let Ok(Some(answer)) = watched.message().await {
                answers += 1;
                if answer.canceled() || !answer.events().is_empty() {
                    return;
                }
            }
        })
        .await;
        if answers == 0 {
            sleep(PAUSE).await;
        }
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
    fn is_over(&self) -> bool {
        let mut until = self.until();
        *until = until.filter(|until| Instant::now() < *until);
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
#[derive(Clone, Debug)]
pub struct Leadership {
    cluster: Cluster,
    key: String,
    term: u64,
    lease: Arc<Lease>,
}

impl Leadership {
    /// Revision at which it began: no transaction of an earlier leader is carried out after it.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Whether it has ended, or may have: its lease was not renewed in time.
    pub fn is_over(&self) -> bool {
        self.lease.is_over()
    }

    /// It is known to have ended.
    pub(crate) fn lose(&self) {
        self.lease.end();
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What a transaction has to compare so that only this leader may write.
    pub(crate) fn fence(&self) -> Compare {
        Compare::create_revision(self.key.clone(), CompareOp::Equal, self.term as i64)
    }

    /// Lets another replica lead at once.
    pub fn resign(&self) {
        self.lose();
        let (cluster, lease) = (self.cluster.clone(), self.lease.id);
        self.cluster.wait(async move { revoke(&cluster, lease).await });
    }
}

async fn revoke(cluster: &Cluster, lease: i64) {
    // One that cannot be given back ends by itself.
    let _ = cluster.ask(async |mut client| client.lease_revoke(lease).await).await;
}

/// Renews a lease until it is known to be over, or what it was for is gone; then gives it back:
/// an answer that came too late may have renewed it.
async fn keep(cluster: Cluster, id: i64, held: Weak<Lease>) {
    let mut failed = false;
    let pause = |failed| {
        let lease = held.upgrade()?;
        let left = (*lease.until())?.saturating_duration_since(Instant::now());
        Some(if failed { RETRY } else { left.min(lease.ttl / RENEWALS) })
    };
    while let Some(pause) = pause(failed) {
        sleep(pause).await;
        let asked = Instant::now();
        let renewed = cluster.ask(async |mut client| client.lease_keep_alive(id).await).await;
        failed = renewed.is_err();
        let Some(lease) = held.upgrade() else { break };
        match renewed {
            Ok(_) => lease.renew(asked),
            Err(error) if error.to_string().contains("lease not found") => lease.end(),
            Err(_) => {}
        }
    }
    revoke(&cluster, id).await;
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
        assert!(!lease.is_over());
        std::thread::sleep(3 * ttl);
        assert!(lease.is_over());
        lease.renew(Instant::now() + ttl);
        assert!(lease.is_over(), "for good");
    }
}
