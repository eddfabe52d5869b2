//! What each worker has of a function in a process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::Sender;

use weft_compose::Kind;
use weft_dataplane::offload::{Carrier, Options, Placeholder, RemoteQueue, Shared};
use weft_dataplane::service_path::VfPath;
use weft_dpdk::{Batch, Port};
use weft_function::{Scope, tags_written};

use super::plan::{Plan, StartError};
use super::sockets::Sockets;
use crate::frame::Form;
use crate::process::carrier::{Frames, Sent};
use crate::process::order::{ProcessOrders, Request};
use crate::vf::direct_path::Line;
use crate::vf::fabric::{self, Fabric};

/// The place of a function at one worker.
#[derive(Debug)]
pub struct WorkerEnd {
    /// What takes packets there and back.
    pub remote_queue: RemoteQueue,
    /// What stands for it in the rules.
    pub away: Placeholder,
    /// The other end of the queue, at the node's ports, where packets go through a NIC.
    pub endpoint: Option<VfPath>,
}

/// What the ends of all workers are made from.
pub(super) struct WorkerEnds<'a> {
    pub plan: &'a Plan<'a>,
    /// What the function is, and whose contexts it has.
    pub kind: &'static Kind,
    pub scope: Scope,
    pub sockets: &'a Sockets,
    /// Where orders of workers go.
    pub requests: &'a Sender<Request>,
    /// The clock of the node, in nanoseconds.
    pub now: &'a Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl WorkerEnds<'_> {
    /// The end of each worker, and what is counted there.
    ///
    /// # Errors
    /// [`StartError`], where the ring has too few queues.
    pub fn make(&self) -> Result<Vec<(WorkerEnd, Arc<Shared>)>, StartError> {
        (0..self.plan.workers as u16).map(|worker| self.of_worker(worker)).collect()
    }

    fn of_worker(&self, worker: u16) -> Result<(WorkerEnd, Arc<Shared>), StartError> {
        let shared = Arc::new(Shared::default());
        let last = Arc::new(AtomicU32::new(0));
        let (carrier, endpoint) = match (&self.plan.fabric, &self.sockets.port) {
            (Some(fabric), _) => self.through_nic(fabric, worker, last.clone()),
            (None, Some(port)) => (self.by_ring(port, worker, last.clone())?, None),
            (None, None) => {
                let error = io::ErrorKind::NotConnected.into();
                return Err(StartError::at(&self.plan.ring, error));
            }
        };
        let writes = tags_written(self.plan.kind.writes, self.plan.tags);
        let options = Options { writes, policy: self.plan.policy, shared: shared.clone() };
        let remote_queue = RemoteQueue::new(carrier, options);
        let orders = ProcessOrders::new(worker, self.requests.clone(), last);
        let away = Placeholder::new(self.kind, self.scope, Box::new(orders));
        Ok((WorkerEnd { remote_queue, away, endpoint }, shared))
    }

    /// `last` is the number of the last order, which a packet must not overtake.
    fn through_nic(
        &self,
        fabric: &Fabric,
        worker: u16,
        last: Arc<AtomicU32>,
    ) -> (Box<dyn Carrier>, Option<VfPath>) {
        let Plan { instance, tags, number, .. } = *self.plan;
        let ends = (fabric.ends, fabric.peers.clone());
        let (carriage, endpoint) = fabric::new(fabric::Parts {
            line: Line::new(number as u16, tags.iter().count(), ends, worker),
            function: instance.to_owned(),
            path: self.plan.path(),
            orders: last,
            pool: self.sockets.pool.clone(),
            timeout: fabric.timeout,
            now: self.now.clone(),
        });
        (Box::new(carriage), Some(endpoint))
    }

    fn by_ring(
        &self,
        port: &Port,
        worker: u16,
        last: Arc<AtomicU32>,
    ) -> Result<Box<dyn Carrier>, StartError> {
        let plan = self.plan;
        let Some((rx, tx)) = port.take_rx(worker).zip(port.take_tx(worker)) else {
            let error = io::Error::other("too many workers for one ring");
            return Err(StartError::at(&plan.ring, error));
        };
        let form = (!plan.plain).then(|| Form::new(plan.path(), plan.tags.iter().count()));
        Ok(Box::new(Frames {
            rx,
            tx,
            form,
            sent: Sent::new(plan.heartbeat),
            orders: last,
            pool: self.sockets.pool.clone(),
            leaving: Batch::new(),
            coming: Batch::new(),
        }))
    }
}
