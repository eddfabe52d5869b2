//! The device of a port, which may go and come back while the node runs.
//!
//! A device that is gone is closed, since nothing else makes room for one that comes: the
//! workers give their queues back first. From then on the node tries to open it again.

use std::sync::mpsc::{Receiver, Sender, channel};

use serde::{Deserialize, Serialize};
use weft_dataplane::parse::local::OwnAddresses;
use weft_dataplane::worker::{Attachment, Inlet};
use weft_dpdk::{Eal, Holder, Ingress, Link, Pool, Port, PortOptions, PortStatistics, Spreading};
use weft_node_config::PortPlan;

use super::flow_rules::{FlowRules, RuleCounts, RuleScheme};

/// Nanoseconds between two attempts to open a device that is gone.
const TRY_EVERY: u64 = 1_000_000_000;

/// The device of a port as another process hears of it that is to have the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedDevice {
    /// The device string.
    pub device: String,
    /// Its own MAC address; all zero where it has none.
    pub mac: [u8; 6],
    /// How many receive queues it has.
    pub rx_queues: u16,
    /// How many transmit queues it has.
    pub tx_queues: u16,
    /// Whether that process may have it open at the same time.
    pub admits_another: bool,
}

/// How a port was opened, and is opened again.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The device string.
    pub device: String,
    /// With what.
    pub options: PortOptions,
    /// Where its packets come from.
    pub pool: Pool,
    /// The port that it is for.
    pub plan: PortPlan,
    /// How many workers there are.
    pub workers: usize,
}

impl Opening {
    /// The flow rules of a device that was opened; none where it takes none.
    fn flow_rules(&self, port: &Port) -> Option<FlowRules> {
        let support = port.flow_support();
        let scheme = RuleScheme::new(&self.plan, self.workers, |field| support.of(field));
        (!support.is_none()).then(|| FlowRules::new(&self.plan.name, scheme))
    }
}

/// What is to be done about a device.
pub(crate) enum Step {
    /// It is gone: all workers give their queues back, to this one.
    Leave(Sender<Attachment>),
    /// It is back: each worker gets its queues, in the order of their numbers.
    Return(Vec<Attachment>),
}

/// The device of a port.
pub(crate) struct PortDevice {
    number: u16,
    opening: Opening,
    /// None while it is closed.
    port: Option<Port>,
    /// What was counted by the devices that are gone.
    before: PortStatistics,
    /// Changes of their links.
    link_changes_before: u64,
    /// Queues that workers have yet to give back, and where they do.
    leaving: Option<(Receiver<Attachment>, usize)>,
    /// What workers look at before a packet is routed.
    own: Option<OwnAddresses>,
    tx_queues: u16,
    is_gone: bool,
    /// Whether another process has it: it is closed until this one is to have it.
    is_held: bool,
    next_try: u64,
    /// Why it could not be opened the last time.
    failure: String,
    /// None where the device takes no flow rules.
    flows: Option<FlowRules>,
    /// To which queue each entry of its redirection table leads; empty where that is fixed.
    redirection: Vec<u16>,
    /// How often that was changed since it was opened.
    redirections: u64,
}

impl std::fmt::Debug for PortDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PortDevice({})", self.opening.device)
    }
}

impl PortDevice {
    /// Of the port of that number, which is open, or which another process has; with what workers
    /// look at before a packet is routed.
    pub fn new(
        number: u16,
        opening: Opening,
        (port, tx_queues): (Option<Port>, u16),
        own: Option<OwnAddresses>,
    ) -> PortDevice {
        PortDevice {
            flows: port.as_ref().and_then(|port| opening.flow_rules(port)),
            redirection: port.as_ref().map_or_else(Vec::new, Port::redirection),
            redirections: 0,
            number,
            opening,
            tx_queues,
            is_held: port.is_none(),
            port,
            before: PortStatistics::default(),
            link_changes_before: 0,
            leaving: None,
            own,
            is_gone: false,
            next_try: 0,
            failure: String::new(),
        }
    }

    /// Its device string.
    pub fn name(&self) -> &str {
        &self.opening.device
    }

    /// Whether it is gone.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether another process has it.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// State of its link; down while it is gone.
    pub fn link(&self) -> Link {
        let open = self.port.as_ref().filter(|_| !self.is_gone);
        open.map_or(Link { up: false, megabits: 0 }, Port::link)
    }

    /// Changes of its link that it has told of.
    pub fn link_changes(&self) -> u64 {
        self.link_changes_before + self.port.as_ref().map_or(0, Port::link_changes)
    }

    /// What it has counted, each time that it was there.
    pub fn statistics(&self) -> PortStatistics {
        self.port.as_ref().map_or(self.before, |port| sum(self.before, port.statistics()))
    }

    /// What its driver counts by its own names, since it was opened.
    pub fn extended_statistics(&self) -> Vec<(String, u64)> {
        self.port.as_ref().map(Port::extended_statistics).unwrap_or_default()
    }

    /// Its receive queues, how packets come to them, and how many flow rules there are.
    pub fn spreading(&self) -> (u16, String, RuleCounts) {
        let counts = self.flows.as_ref().map(FlowRules::counts).unwrap_or_default();
        let Some(port) = &self.port else { return (0, Spreading::OneQueue.to_string(), counts) };
        let mut rest = port.spreading().to_string();
        if self.redirections > 0 {
            rest.push_str(&format!(" changed {} times for even loads", self.redirections));
        }
        let queues = port.rx_queues();
        let said = self.flows.as_ref().map(|flows| format!("{flows}, {rest} for the rest"));
        (queues, said.unwrap_or(rest), counts)
    }

    /// Its redirection table, and the queue of each worker; none where there is no such table, or
    /// a worker has no queue, or more than one.
    pub fn redirection(&self) -> Option<(&[u16], Vec<u16>)> {
        let port = self.port.as_ref().filter(|_| !self.is_gone)?;
        let (workers, first) = (self.opening.workers, self.opening.plan.worker);
        let is_even = usize::from(port.rx_queues()) == workers && !self.redirection.is_empty();
        let queue = |worker: usize| ((worker + workers - first % workers) % workers) as u16;
        is_even.then(|| (&*self.redirection, (0..workers).map(queue).collect()))
    }

    /// Sets its redirection table.
    ///
    /// # Errors
    /// Why the device does not take it.
    pub fn redirect(&mut self, table: Vec<u16>) -> std::io::Result<()> {
        let port = self.port.as_ref().ok_or(std::io::ErrorKind::NotConnected)?;
        port.redirect(&table)?;
        self.redirection = table;
        self.redirections += 1;
        Ok(())
    }

    /// Its flow rules, where it takes some.
    pub fn flow_rules(&mut self) -> Option<&mut FlowRules> {
        self.flows.as_mut()
    }

    /// Gives the device some flow rules, and takes others back; whether
    /// there was anything to do. One that is gone gets none: its workers give back the queues that
    /// rules would lead to.
    pub fn keep_flow_rules(&mut self) -> bool {
        match (&mut self.flows, &self.port) {
            (Some(flows), Some(port)) if !self.is_gone => flows.work(port),
            _ => false,
        }
    }

    /// What it does in the place of the processor.
    pub fn offloads(&self) -> Vec<&'static str> {
        self.port.as_ref().map(Port::offloads).unwrap_or_default()
    }

    /// As [`Port::ingress`]; none while it is gone.
    ///
    /// # Errors
    /// As [`Port::ingress`].
    pub fn ingress(&self, holder: Holder) -> std::io::Result<Option<Ingress>> {
        self.port.as_ref().map_or(Ok(None), |port| port.ingress(holder))
    }

    /// What another process hears of it, for which it is prepared now; none while it is gone.
    pub fn offered(&self) -> Option<OfferedDevice> {
        let port = self.port.as_ref().filter(|_| !self.is_gone)?;
        Some(OfferedDevice {
            device: self.opening.device.clone(),
            mac: port.mac(),
            rx_queues: port.rx_queues(),
            tx_queues: port.tx_queues(),
            admits_another: port.admits_another(),
        })
    }

    /// As [`Port::own`]; it is opened again as this process's own.
    pub fn own(&mut self) {
        self.opening.options.is_beside = false;
        if let Some(port) = &self.port {
            port.own();
        }
    }

    /// Closes it for another process; workers have given its queues back.
    pub fn give_away(&mut self) {
        self.lose_flow_rules();
        self.close();
        self.is_held = true;
    }

    /// Opens it, if another process has had it, and says what each worker gets of it, in the order
    /// of their numbers.
    ///
    /// # Errors
    /// Why it does not open: it stays as it is.
    pub fn take(&mut self) -> Result<Vec<Attachment>, String> {
        if !self.is_held {
            return Ok(Vec::new());
        }
        let port = self.open()?;
        let attachments = self.attachments(&port);
        self.flows = self.flows.take().or_else(|| self.opening.flow_rules(&port));
        self.redirection = port.redirection();
        self.port = Some(port);
        self.is_held = false;
        Ok(attachments)
    }

    /// Goes on as with a device that is gone, where another process has had it.
    pub fn wait_for_return(&mut self) {
        if std::mem::take(&mut self.is_held) {
            (self.is_gone, self.next_try) = (true, 0);
        }
    }

    /// Looks whether it has gone, or is back, `now` nanoseconds after the start of the clock.
    pub fn look_after(&mut self, now: u64) -> Option<Step> {
        if self.is_held {
            return None;
        }
        if let Some((back, missing)) = &mut self.leaving {
            for attachment in back.try_iter() {
                *missing -= 1;
                drop(attachment);
            }
            if *missing == 0 {
                self.leaving = None;
                self.close();
            }
            return None;
        }
        let Some(port) = &self.port else { return self.try_again(now) };
        if self.is_gone || !port.is_gone() {
            return None;
        }
        self.is_gone = true;
        let may_return = port.may_return();
        // Ahead of the queues that they lead to.
        self.lose_flow_rules();
        if !may_return {
            return None;
        }
        self.next_try = now + TRY_EVERY;
        let (give, back) = channel();
        self.leaving = Some((back, self.opening.workers));
        Some(Step::Leave(give))
    }

    /// Takes all flow rules back; those that there are to be are kept in mind.
    fn lose_flow_rules(&mut self) {
        if let Some(port) = &self.port {
            port.clear_flows();
        }
        self.flows.iter_mut().for_each(FlowRules::lose_all);
    }

    /// What closes with the port was given back by all workers.
    fn close(&mut self) {
        if let Some(port) = self.port.take() {
            self.before = sum(self.before, port.statistics());
            self.link_changes_before += port.link_changes();
        }
    }

    fn try_again(&mut self, now: u64) -> Option<Step> {
        if now < self.next_try {
            return None;
        }
        self.next_try = now + TRY_EVERY;
        match self.open() {
            Ok(port) => {
                self.failure.clear();
                self.is_gone = false;
                let attachments = self.attachments(&port);
                (self.redirection, self.redirections) = (port.redirection(), 0);
                self.port = Some(port);
                Some(Step::Return(attachments))
            }
            Err(reason) => {
                if reason != self.failure {
                    tracing::info!(device = self.name(), reason, "waiting for the device");
                    self.failure = reason;
                }
                None
            }
        }
    }

    fn open(&self) -> Result<Port, String> {
        let Opening { device, options, pool, .. } = &self.opening;
        let eal = Eal::standing().ok_or("DPDK has ended")?;
        let port = Port::open(eal, device, options, pool).map_err(|error| error.to_string())?;
        let (now, before) = (port.tx_queues(), self.tx_queues);
        match now == before {
            true => Ok(port),
            false => Err(format!("it has {now} transmit queues, and had {before}")),
        }
    }

    /// What each worker gets of a port that was opened again.
    fn attachments(&self, port: &Port) -> Vec<Attachment> {
        let (first, workers) = (self.opening.plan.worker, self.opening.workers);
        let inlets = |worker: usize| {
            let polls = |queue: &u16| (first + usize::from(*queue)) % workers == worker;
            let queues =
                (0..port.rx_queues()).filter(polls).filter_map(|queue| port.take_rx(queue));
            queues.map(|queue| Inlet { port: self.number, queue, own: self.own.clone() }).collect()
        };
        let of = |worker: usize| Attachment {
            port: self.number,
            inlets: inlets(worker),
            queue: port.take_tx(worker as u16),
        };
        (0..workers).map(of).collect()
    }
}

fn sum(one: PortStatistics, other: PortStatistics) -> PortStatistics {
    PortStatistics {
        rx_packets: one.rx_packets + other.rx_packets,
        rx_bytes: one.rx_bytes + other.rx_bytes,
        rx_missed: one.rx_missed + other.rx_missed,
        rx_errors: one.rx_errors + other.rx_errors,
        tx_packets: one.tx_packets + other.tx_packets,
        tx_bytes: one.tx_bytes + other.tx_bytes,
        tx_errors: one.tx_errors + other.tx_errors,
    }
}
