//! What a controller is at the moment: alone, the leader, or a replica that follows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_etcd::{Counts, Leader};

/// What a controller is at the moment.
#[derive(Clone, Debug)]
pub enum Standing {
    /// There are no other replicas.
    Alone,
    /// It leads, in this term, and this is what its records have cost.
    Leads(u64, Arc<Counts>),
    /// Another replica leads, or none that is known.
    Follows(Option<Leader>),
}

/// What a controller is, for all who ask; clones are the same one.
#[derive(Clone, Debug)]
pub struct Site(Arc<Mutex<Standing>>);

impl Site {
    /// A controller without replicas.
    pub fn alone() -> Site {
        Site(Arc::new(Mutex::new(Standing::Alone)))
    }

    /// A replica, which does not lead yet.
    pub fn replica() -> Site {
        Site(Arc::new(Mutex::new(Standing::Follows(None))))
    }

    /// It leads from now on.
    pub fn lead(&self, term: u64, counts: Arc<Counts>) {
        *self.locked() = Standing::Leads(term, counts);
    }

    /// It does not lead; another replica does, or none that is known.
    pub fn follow(&self, leader: Option<Leader>) {
        *self.locked() = Standing::Follows(leader);
    }

    /// What it is now.
    pub fn standing(&self) -> Standing {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Standing> {
        // What is locked is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
