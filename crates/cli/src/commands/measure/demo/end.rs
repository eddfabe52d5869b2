//! The far end of one of the node's ports: where packets are sent and received.

use weft_dpdk::{Eal, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_traffic::{Direction, Expected, Receiver, Source};

use super::scene::Plan;
use crate::failure::Failure;

/// Sends the streams of one direction and receives those of the other.
pub struct End {
    port: Port,
    rx: RxQueue,
    tx: TxQueue,
    /// In the order of the plans of their direction.
    pub sources: Vec<Source>,
    /// Streams in the order of the plans of their direction.
    pub receiver: Receiver,
}

impl End {
    /// Opens the other end of a ring that the node has open, to send what `sources` of this
    /// `direction` have and to receive the streams of the other.
    pub fn open(
        eal: &Eal,
        device: &str,
        pool: &Pool,
        plans: &[Plan],
        direction: Direction,
        sources: Vec<Source>,
    ) -> Result<End, Failure> {
        let port = Port::open(eal, device, &PortOptions::default(), pool)?;
        let queues = port.take_rx(0).zip(port.take_tx(0));
        let (rx, tx) = queues.ok_or_else(|| Failure::broken(format!("{device} has no queues")))?;
        let received = plans.iter().filter(|plan| plan.direction != direction);
        let receiver = Receiver::new(received.map(|plan| Expected {
            endpoints: plan.arriving,
            ..Expected::of(&plan.template, plan.weights.len() as u32)
        }));
        Ok(End { port, rx, tx, sources, receiver })
    }

    /// Receives all that has come, then sends what is due. In this order nothing
    /// is sent while the queue from the node fills up.
    #[inline]
    pub fn turn(&mut self, pool: &Pool) {
        self.receive();
        self.send(pool);
    }

    /// Sends what is due, of each source a burst at most.
    #[inline]
    pub fn send(&mut self, pool: &Pool) {
        for source in &mut self.sources {
            source.send(&mut self.tx, pool);
        }
    }

    /// Receives all that has come.
    #[inline]
    pub fn receive(&mut self) {
        while self.receiver.receive(&mut self.rx) > 0 {}
    }

    /// The same; shows `see` each frame.
    pub fn receive_and(&mut self, mut see: impl FnMut(&[u8])) {
        while self.receiver.receive_and(&mut self.rx, |_, frame| see(frame)) > 0 {}
    }

    /// Sends nothing more.
    pub fn finish(&mut self) {
        self.sources.iter_mut().for_each(Source::finish);
    }

    /// Packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sources.iter().map(|source| source.tally().sent).sum()
    }

    /// Packets received so far, whatever they were.
    pub fn received(&self) -> u64 {
        let of_streams = self.receiver.streams().iter();
        let ours: u64 = of_streams.map(|stream| stream.received + stream.duplicated).sum();
        ours + self.receiver.damaged() + self.receiver.foreign()
    }

    /// Packets from the node that found the queue full.
    pub fn missed(&self) -> u64 {
        self.port.statistics().rx_missed
    }
}
