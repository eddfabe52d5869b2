//! What a controller orders of the process that has the node: to go over to another one, as
//! `weft ctl upgrade` orders it, or to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weft_management_api::{Outcome, Starter};
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::Sender;
use weft_mobility_transport::note::{Attempt, Note, Process, Upgrade, UpgradeMethod};

/// How often it is looked what has become of an order.
const LOOK: Duration = Duration::from_millis(50);
/// Characters of a reason that are told.
const REASON: usize = 500;

/// What orders are carried out with.
#[derive(Clone)]
pub struct Orders {
    /// Starts the program that takes the node over.
    pub starter: Starter,
    /// Whether the process is to end.
    pub ends: Arc<AtomicBool>,
}

/// A number that no other process of this machine has, nor had: its id, and when it started.
fn identity() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(std::process::id()) << 32 | u64::from(now.as_micros() as u32)
}

/// Carries out what is told, and answers, until the node stops.
///
/// # Errors
/// When the machine has no thread for it.
pub fn follow(
    told: Receiver<Upgrade>,
    controller: Sender,
    orders: Orders,
) -> std::io::Result<JoinHandle<()>> {
    let work = move || {
        let mut ordered = Ordered::new(identity(), orders);
        loop {
            let said = match told.recv_timeout(LOOK) {
                Ok(upgrade) => Some(ordered.told(&upgrade)),
                Err(RecvTimeoutError::Timeout) => ordered.news(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Some(said) = said {
                // What is lost is asked for again.
                controller.note(NodeId::CONTROLLER, &Note::Process(said));
            }
        }
    };
    thread::Builder::new().name("orders".to_owned()).spawn(work)
}

/// The last order, and what becomes of it.
struct Ordered {
    process: u64,
    orders: Orders,
    request: u64,
    attempt: Attempt,
    reason: String,
    under_way: Option<Outcome>,
}

impl Ordered {
    fn new(process: u64, orders: Orders) -> Ordered {
        let (attempt, reason) = (Attempt::On, String::new());
        Ordered { process, orders, request: 0, attempt, reason, under_way: None }
    }

    /// A controller says something; returns the answer.
    fn told(&mut self, upgrade: &Upgrade) -> Process {
        let Upgrade { request, process, method } = *upgrade;
        if request == 0 || process != self.process {
            let (attempt, reason) = (Attempt::On, String::new());
            return Process { request, attempt, reason, ..self.said() };
        }
        // The same one again asks what has become of it.
        if request != self.request {
            self.request = request;
            self.begin(method);
        }
        self.said()
    }

    fn begin(&mut self, method: UpgradeMethod) {
        // Another controller may go on with what the one before it has begun.
        if self.under_way.is_some() || self.orders.ends.load(Ordering::Relaxed) {
            return;
        }
        tracing::info!(?method, "the controller orders that this process goes");
        self.attempt = Attempt::Begun;
        match method {
            UpgradeMethod::End => self.orders.ends.store(true, Ordering::Relaxed),
            UpgradeMethod::TakeOver => match self.orders.starter.start() {
                Ok(outcome) => self.under_way = Some(outcome),
                Err(reason) => self.refuse(&reason),
            },
        }
    }

    fn refuse(&mut self, reason: &str) {
        tracing::warn!("this process does not go: {reason}");
        self.attempt = Attempt::Refused;
        self.reason = reason.chars().take(REASON).collect();
    }

    /// What there is to say although nothing was asked.
    fn news(&mut self) -> Option<Process> {
        let outcome = self.under_way.as_mut()?.look()?;
        self.under_way = None;
        // Otherwise this process ends, and the other one says so.
        self.refuse(&outcome.err()?);
        Some(self.said())
    }

    fn said(&self) -> Process {
        Process {
            request: self.request,
            process: self.process,
            attempt: self.attempt,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reason: self.reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use weft_management_api::UpgradeRequest;
    use weft_management_api::api::{PortsWent, Upgraded};

    use super::*;

    fn ordered() -> (Ordered, Receiver<UpgradeRequest>) {
        let (requests, received) = sync_channel(1);
        let orders = Orders { starter: Starter::new(requests), ends: Arc::default() };
        (Ordered::new(7, orders), received)
    }

    fn is_started(received: &Receiver<UpgradeRequest>) -> bool {
        received.try_recv().is_ok()
    }

    fn told(
        ordered: &mut Ordered,
        request: u64,
        process: u64,
        method: UpgradeMethod,
    ) -> (Attempt, String) {
        let Process { attempt, reason, .. } = ordered.told(&Upgrade { request, process, method });
        (attempt, reason)
    }

    #[test]
    fn a_question_and_what_means_another_process_change_nothing() {
        let (mut ordered, received) = ordered();
        for (request, process) in [(0, 0), (0, 7), (1, 8), (1, 0)] {
            let said = ordered.told(&Upgrade { request, process, method: UpgradeMethod::End });
            assert_eq!((said.request, said.process, said.attempt), (request, 7, Attempt::On));
        }
        assert!(!is_started(&received) && !ordered.orders.ends.load(Ordering::Relaxed));
        assert_eq!(told(&mut ordered, 2, 7, UpgradeMethod::End).0, Attempt::Begun);
        assert!(ordered.orders.ends.load(Ordering::Relaxed));
    }

    #[test]
    fn what_the_node_has_left_says_nothing_more() {
        let (mut ordered, received) = ordered();
        told(&mut ordered, 1, 7, UpgradeMethod::TakeOver);
        let Ok(UpgradeRequest::Start(outcome)) = received.try_recv() else { panic!() };
        outcome
            .send(Ok(Upgraded { process: 2, waited: 0, dropped: 0, ports: PortsWent::Beside }))
            .unwrap();
        assert!(ordered.news().is_none() && ordered.news().is_none());
        assert_eq!(told(&mut ordered, 1, 7, UpgradeMethod::TakeOver).0, Attempt::Begun);
    }

    #[test]
    fn an_order_is_carried_out_once_however_often_it_is_said() {
        let (mut ordered, received) = ordered();
        for request in [5, 5, 6, 5] {
            assert_eq!(told(&mut ordered, request, 7, UpgradeMethod::TakeOver).0, Attempt::Begun);
        }
        let Ok(UpgradeRequest::Start(outcome)) = received.try_recv() else { panic!() };
        assert!(!is_started(&received) && ordered.news().is_none());
        outcome.send(Err("a user moves; try again".to_owned())).unwrap();
        let said = ordered.news().unwrap();
        assert_eq!((said.request, said.attempt), (5, Attempt::Refused));
        assert_eq!(said.reason, "a user moves; try again");
        // Asked again, it says the same; a new order is tried again.
        assert_eq!(told(&mut ordered, 5, 7, UpgradeMethod::TakeOver).0, Attempt::Refused);
        assert!(!is_started(&received));
        assert_eq!(told(&mut ordered, 9, 7, UpgradeMethod::TakeOver).0, Attempt::Begun);
        assert!(is_started(&received), "and what it would be told by is gone");
        assert_eq!(ordered.news().unwrap().attempt, Attempt::Refused);
    }
}
