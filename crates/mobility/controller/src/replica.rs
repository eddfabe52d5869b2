//! One of several controllers: it campaigns, leads while it may, and campaigns again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_etcd::{Candidate, Cluster, Election, EtcdStore, Leadership};
use weft_state::{Owner, Role};

use crate::config::Replica;
use crate::journal::{Journal, JournalError};
use crate::lead::{LeadError, Means};
use crate::standing::Site;

/// How often a leader looks whether it still leads.
const LOOK: Duration = Duration::from_millis(20);
/// Pause after it could not lead.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the log says that etcd does not answer.
const REMINDER: Duration = Duration::from_secs(10);

/// Why it does not lead, or no longer does.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Lead(#[from] LeadError),
    #[error("the thread {0} has ended by a panic")]
    Dead(&'static str),
    #[error("its lease was not renewed in time")]
    Lease,
}

/// A replica at work.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Begins to campaign.
    pub fn start(
        replica: Replica,
        cluster: Cluster,
        means: Means,
        site: Site,
    ) -> std::io::Result<Running> {
        let stop: Arc<AtomicBool> = Arc::default();
        let told = stop.clone();
        let work = move || {
            let address = replica.address.clone().unwrap_or_default();
            let candidate = Candidate { name: replica.name.clone(), address };
            let election = Election::new(Arc::new(cluster), candidate, replica.lease);
            while let Some(leadership) = campaign(&election, &told, &site) {
                let term = leadership.term();
                tracing::info!(term, "this replica leads");
                let ended = lead(&means, &leadership, &told, &site);
                means.handle.stop();
                site.follow(None);
                leadership.resign();
                match ended {
                    Ok(()) => return,
                    Err(Unfit::Lease) => {
                        tracing::warn!(term, "this replica leads no longer: {}", Unfit::Lease)
                    }
                    Err(Unfit::Journal(error)) if error.is_deposed() => {
                        tracing::warn!(term, "this replica leads no longer: {error}");
                    }
                    Err(error) => {
                        tracing::error!(term, "this replica cannot lead: {error}");
                        // Another one may be able to.
                        wait(&told, PAUSE);
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("replica".to_owned()).spawn(work)?;
        Ok(Running { stop, thread })
    }

    /// Whether its thread has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops: another replica may lead at once.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // It may have ended by a panic.
        let _ = self.thread.join();
    }
}

fn campaign(election: &Election, stop: &AtomicBool, site: &Site) -> Option<Leadership> {
    let mut said: Option<Instant> = None;
    let mut term = 0;
    election.campaign(stop, |leader, error| {
        if let Some(error) = error
            && said.is_none_or(|said| said.elapsed() > REMINDER)
        {
            tracing::warn!("{error}");
            said = Some(Instant::now());
        }
        if let Some(leader) = &leader
            && std::mem::replace(&mut term, leader.term) != leader.term
        {
            tracing::info!(term, leader = leader.name, "another replica leads");
        }
        site.follow(leader);
    })
}

/// Leads until it may not any more; well when it is told to stop.
fn lead(
    means: &Means,
    leadership: &Leadership,
    stop: &Arc<AtomicBool>,
    site: &Site,
) -> Result<(), Unfit> {
    let name = means.configuration.name.clone();
    let owner = Owner { role: Role::Controller, name };
    // What waits for etcd ends with the leadership as well.
    let store =
        EtcdStore::open(leadership.clone(), &owner, stop.clone()).map_err(JournalError::from)?;
    let counts = store.counts();
    let (journal, recovered) = Journal::in_store(Box::new(store))?;
    let (failed, failure) = mpsc::channel();
    let lead = means.lead(journal, recovered, leadership.term(), move |error| {
        // The receiver waits below.
        let _ = failed.send(error);
    })?;
    site.lead(leadership.term(), counts);
    let ended = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        if leadership.is_over() {
            break Err(Unfit::Lease);
        }
        if let Ok(error) = failure.recv_timeout(LOOK) {
            break Err(error.into());
        }
        if let Some(thread) = lead.dead() {
            // Why it did may still be on its way.
            break Err(failure.try_recv().map_or(Unfit::Dead(thread), Unfit::from));
        }
    };
    lead.stop();
    ended
}

fn wait(stop: &AtomicBool, time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
    }
}
