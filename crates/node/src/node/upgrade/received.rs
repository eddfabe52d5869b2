//! What the old process has received, and what it leaves to the new one.

use std::collections::HashMap;

use weft_dataplane::worker::{Seen, Uncarried, Worker};

use super::SharedPort;
use crate::node::conversation::Drained;

/// Packets at a worker that are left to the other process, at most: its receive queues hold twice as
/// many.
const LEFT_AT_MOST: usize = 2048;

/// What has been received since the other process was told to receive as well.
#[derive(Default)]
pub(super) struct Received {
    /// By port.
    digests: HashMap<u16, Seen>,
    /// By worker, where what comes from users is left to the other process.
    uncarried: Vec<Uncarried>,
}

impl Received {
    /// Takes in what queues hold; what comes from users behind it is left to the other process.
    /// False where buffers do not suffice.
    pub(super) fn receive_all(&mut self, workers: &mut [Worker]) -> bool {
        let Received { digests, uncarried } = self;
        uncarried.resize_with(workers.len(), Uncarried::default);
        let mut workers = workers.iter_mut().zip(uncarried);
        workers.all(|(worker, own)| worker.receive_all(own, &mut noting(digests)))
    }

    /// Carries what was received; whether there may be more.
    pub(super) fn drain(&mut self, number: usize, worker: &mut Worker) -> bool {
        match self.uncarried.get_mut(number) {
            Some(own) => worker.finish_in_flight(own, &mut noting(&mut self.digests)),
            None => worker.drain_received(&mut noting(&mut self.digests)),
        }
    }

    /// Carries what was not, as this process goes on.
    pub(super) fn carry_uncarried(&mut self, workers: &mut [Worker]) {
        let workers = workers.iter_mut().zip(&mut self.uncarried);
        workers.for_each(|(worker, own)| worker.carry_uncarried(own));
    }

    /// Drops it, where neither process may carry it.
    pub(super) fn drop_uncarried(&mut self, workers: &mut [Worker]) {
        let workers = workers.iter_mut().zip(&mut self.uncarried);
        workers.for_each(|(worker, own)| worker.drop_uncarried(own));
    }

    /// Whether packets of users are left to the other process.
    pub(super) fn leaves_users(&self) -> bool {
        !self.uncarried.is_empty()
    }

    /// Whether more waits than the other process's queues may hold.
    pub(super) fn leaves_too_much(&self) -> bool {
        self.uncarried.iter().any(|one| one.left() > LEFT_AT_MOST)
    }

    /// What ports may have given to both processes.
    pub(super) fn by_name(&self, ports: &[SharedPort]) -> Drained {
        let digests = |port: &SharedPort| {
            let seen = self.digests.get(&port.number)?;
            let count = seen.values().map(|times| u64::from(*times)).sum();
            let seen = seen.iter().map(|(digest, times)| (*digest, *times)).collect();
            Some((port.name.clone(), (count, seen)))
        };
        let copying = ports.iter().filter(|port| port.ingress.copies());
        Drained { seen: copying.filter_map(digests).collect() }
    }
}

fn noting(digests: &mut HashMap<u16, Seen>) -> impl FnMut(u16, u64) {
    |port, digest| *digests.entry(port).or_default().entry(digest).or_default() += 1
}
