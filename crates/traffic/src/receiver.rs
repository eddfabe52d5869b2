//! Takes packets in and says what became of the streams they belong to.

use std::net::IpAddr;

use weft_dpdk::{Batch, RxQueue, tsc};

use crate::receiver::arrived::{Arrived, Unreadable};
use crate::receiver::stream::{Expected, Stream};

pub(crate) mod arrived;
pub(crate) mod density;
pub(crate) mod flow;
pub(crate) mod stream;

/// Packets that are received at once.
const BURST: usize = 32;

/// Receives the packets of some streams, and checks them.
#[derive(Debug)]
pub struct Receiver {
    streams: Vec<Stream>,
    damaged: u64,
    foreign: u64,
    nanoseconds_per_cycle: f64,
}

impl Receiver {
    /// A receiver of these streams. The environment must have been started.
    pub fn new(streams: impl IntoIterator<Item = Expected>) -> Receiver {
        Receiver {
            streams: streams.into_iter().map(Stream::new).collect(),
            damaged: 0,
            foreign: 0,
            nanoseconds_per_cycle: 1e9 / tsc::hz() as f64,
        }
    }

    /// Takes a burst from `rx`; returns how many packets it had.
    #[inline]
    pub fn receive(&mut self, rx: &mut RxQueue) -> usize {
        self.receive_and(rx, |_, _| {})
    }

    /// As [`receive`](Self::receive); shows `see` each frame, and the cycle of the
    /// time-stamp counter in which its burst was received.
    #[inline]
    pub fn receive_and(&mut self, rx: &mut RxQueue, mut see: impl FnMut(u64, &[u8])) -> usize {
        let mut batch = Batch::new();
        let count = rx.receive(&mut batch, BURST);
        if count > 0 {
            let now = tsc::now();
            batch.iter().for_each(|packet| packet.prefetch());
            for packet in batch.iter() {
                self.take(packet.data(), now);
                see(now, packet.data());
            }
        }
        count
    }

    /// Takes one frame that arrived at cycle `now` of the time-stamp counter.
    #[inline]
    pub fn take(&mut self, frame: &[u8], now: u64) {
        match Arrived::read(frame) {
            Ok(arrived) => {
                let delay = now.saturating_sub(arrived.stamp.sent) as f64;
                let delay = (delay * self.nanoseconds_per_cycle) as u64;
                match self.streams.iter_mut().find(|stream| stream.has(&arrived)) {
                    Some(stream) => stream.arrive(&arrived, frame.len(), now, delay),
                    None => self.foreign += 1,
                }
            }
            Err(Unreadable::Damaged) => self.damaged += 1,
            Err(Unreadable::Foreign) => self.foreign += 1,
        }
    }

    /// The streams, in the order in which they were given.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Notes when the packets of a flow of the `nth` stream arrive, up to `most`
    /// of them.
    pub fn watch(&mut self, nth: usize, flow: u32, most: usize) {
        if let Some(stream) = self.streams.get_mut(nth) {
            stream.watch(flow, most);
        }
    }

    /// Sets the source and destination address of each flow of the `nth` stream, where
    /// they are not in a row, as those of a capture are not.
    pub fn expect(&mut self, nth: usize, addresses: &[(IpAddr, IpAddr)]) {
        if let Some(stream) = self.streams.get_mut(nth) {
            stream.expect(addresses);
        }
    }

    /// IP packets whose IPv4, UDP or TCP checksum was wrong or missing; what else they
    /// say is not looked at.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Packets of no stream that is expected.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
}
