//! Ports, sources, wires and receivers of a profile.

use weft_dpdk::{Eal, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_traffic::profile::{PortPlan, SourcePlan};
use weft_traffic::{Done, Profile, Receiver, Source, Wire};

use super::PACKETS;
use super::capture::Capture;
use crate::failure::Failure;

/// Arrivals of a watched flow that are kept.
const WATCHED: usize = 100_000;

/// All that sends and receives.
pub struct Rig {
    pub sending: Sending,
    pub receiving: Receiving,
    /// By index of the profile.
    pub ports: Vec<Port>,
}

/// What the generator's thread has.
pub struct Sending {
    pub pool: Pool,
    /// In the order of the profile.
    pub sources: Vec<(Source, TxQueue)>,
}

/// What the receiver's thread has.
pub struct Receiving {
    pool: Pool,
    wires: Vec<(Wire, RxQueue, TxQueue)>,
    /// One for each port that packets should arrive at.
    pub inlets: Vec<Inlet>,
    capture: Option<Capture>,
}

/// A port that packets should arrive at.
pub struct Inlet {
    pub receiver: Receiver,
    rx: RxQueue,
}

impl Rig {
    /// Opens all ports and makes what sends and receives.
    ///
    /// # Errors
    /// When a port cannot be opened or is used twice.
    pub fn open(eal: &Eal, profile: &Profile, capture: Option<Capture>) -> Result<Rig, Failure> {
        let pool = Pool::new(eal, "traffic", PACKETS)?;
        let open = |plan: &PortPlan| {
            let options = PortOptions { descriptors: plan.descriptors, ..Default::default() };
            Port::open(eal, &plan.device, &options, &pool)
        };
        let ports: Vec<Port> = profile.ports.iter().map(open).collect::<Result<_, _>>()?;
        let queues = Queues { ports: &ports, plans: &profile.ports };
        let mut sources = Vec::new();
        for plan in &profile.sources {
            let source = Source::of(&plan.load).map_err(Failure::input)?;
            sources.push((source, queues.tx(plan.from)?));
        }
        let mut wires = Vec::new();
        for (nth, plan) in (0..).zip(&profile.wires) {
            let wire = Wire::new(plan.harm, profile.seed.wrapping_add(nth));
            wires.push((wire, queues.rx(plan.from)?, queues.tx(plan.to)?));
        }
        let inlets = inlets(&profile.sources, &queues)?;
        let sending = Sending { pool: pool.clone(), sources };
        Ok(Rig { sending, receiving: Receiving { pool, wires, inlets, capture }, ports })
    }
}

struct Queues<'a> {
    ports: &'a [Port],
    plans: &'a [PortPlan],
}

impl Queues<'_> {
    fn tx(&self, port: usize) -> Result<TxQueue, Failure> {
        self.ports[port].take_tx(0).ok_or_else(|| self.taken(port, "sent at by two"))
    }

    fn rx(&self, port: usize) -> Result<RxQueue, Failure> {
        self.ports[port].take_rx(0).ok_or_else(|| self.taken(port, "received from by two"))
    }

    fn taken(&self, port: usize, how: &str) -> Failure {
        Failure::input(format!("the port {} is {how} parts of the profile", self.plans[port].name))
    }
}

/// The ports that packets should arrive at; several sources may send to one.
fn inlets(plans: &[SourcePlan], queues: &Queues<'_>) -> Result<Vec<Inlet>, Failure> {
    let mut inlets = Vec::new();
    for (nth, plan) in plans.iter().enumerate() {
        let is_first = !plans[..nth].iter().any(|before| before.to == plan.to);
        let Some(port) = plan.to.filter(|_| is_first) else { continue };
        let streams = plans.iter().filter(|plan| plan.to == Some(port));
        let streams: Vec<_> = streams.flat_map(|plan| &plan.streams).collect();
        let mut receiver = Receiver::new(streams.iter().map(|stream| stream.arriving));
        for (nth, stream) in streams.iter().enumerate() {
            stream.watch.iter().for_each(|flow| receiver.watch(nth, *flow, WATCHED));
            stream.addresses.iter().for_each(|addresses| receiver.expect(nth, addresses));
        }
        inlets.push(Inlet { receiver, rx: queues.rx(port)? });
    }
    Ok(inlets)
}

impl Sending {
    /// Sends what is due at each source, a burst at most.
    #[inline]
    pub fn turn(&mut self) {
        for (source, tx) in &mut self.sources {
            source.send(tx, &self.pool);
        }
    }

    /// Sends nothing more.
    pub fn finish(&mut self) {
        self.sources.iter_mut().for_each(|(source, _)| source.finish());
    }

    /// Packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sources.iter().map(|(source, _)| source.tally().sent).sum()
    }
}

impl Receiving {
    /// Carries and receives a burst everywhere; returns how many packets there
    /// were.
    #[inline]
    pub fn turn(&mut self) -> usize {
        let mut count = 0;
        for (wire, rx, tx) in &mut self.wires {
            count += wire.carry(rx, tx, &self.pool);
        }
        for Inlet { receiver, rx, .. } in &mut self.inlets {
            count += match &mut self.capture {
                Some(capture) => receiver.receive_and(rx, |now, frame| capture.add(now, frame)),
                None => receiver.receive(rx),
            };
        }
        count
    }

    /// Lets the wires hold nothing back; returns how many packets are on them.
    pub fn empty_wires(&mut self) -> usize {
        self.wires.iter_mut().map(|(wire, _, tx)| wire.finish(tx)).sum()
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.capture.take().map_or(Ok(()), Capture::finish)
    }

    /// Packets received so far.
    pub fn received(&self) -> u64 {
        let streams = self.inlets.iter().flat_map(|inlet| inlet.receiver.streams());
        streams.map(|stream| stream.received).sum()
    }

    /// What the wires did.
    pub fn done(&self) -> impl Iterator<Item = &Done> {
        self.wires.iter().map(|(wire, ..)| wire.done())
    }
}
