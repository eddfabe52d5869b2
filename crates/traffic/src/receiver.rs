//! Takes packets in and says what became of the streams they belong to.

use hdrhistogram::Histogram;
use weft_dpdk::{Batch, RxQueue, tsc};

use crate::arrived::{Arrived, Unreadable};
use crate::endpoints::Endpoints;
use crate::flow::{Arrival, Flow};
use crate::stamp::Stamp;
use crate::template::Template;

/// Packets that are received at once.
const BURST: usize = 32;
/// Longest delay that is told from longer ones: a minute, in nanoseconds.
const LONGEST_DELAY: u64 = 60_000_000_000;
/// Significant decimal digits of a delay.
const DIGITS: u8 = 3;

/// A stream that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its number.
    pub stream: u16,
    /// How many users it has.
    pub users: u32,
    /// Bearers of each user, at least 1: as many flows does a user have.
    pub bearers: u16,
    /// The addresses with which its packets arrive.
    pub endpoints: Endpoints,
}

impl Expected {
    /// The packets of `users` users as `template` makes them.
    pub fn of(template: &Template, users: u32) -> Expected {
        let Template { stream, bearers, endpoints, .. } = *template;
        Expected { stream, users, bearers, endpoints }
    }

    fn flows(&self) -> u32 {
        self.users.saturating_mul(self.bearers.into())
    }
}

/// What arrived of one stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// What was expected.
    pub expected: Expected,
    /// Different packets that arrived.
    pub received: u64,
    /// Bytes of these, from the Ethernet header on.
    pub bytes: u64,
    /// Copies of packets that had arrived.
    pub duplicated: u64,
    /// Packets received behind one of the same user that was sent after them.
    pub reordered: u64,
    /// Packets received that did not have the addresses expected.
    pub misaddressed: u64,
    /// Delays from sender to receiver in nanoseconds (RFC 7679), without
    /// duplicates.
    pub delays: Histogram<u64>,
    /// What arrived of each flow.
    pub flows: Vec<Flow>,
}

/// Receives the packets of some streams, and checks them.
#[derive(Debug)]
pub struct Receiver {
    streams: Vec<Stream>,
    damaged: u64,
    foreign: u64,
    nanoseconds_per_cycle: f64,
    batch: Batch,
}

impl Receiver {
    /// A receiver of these streams. The environment must have been started.
    pub fn new(streams: impl IntoIterator<Item = Expected>) -> Receiver {
        Receiver {
            streams: streams.into_iter().map(Stream::new).collect(),
            damaged: 0,
            foreign: 0,
            nanoseconds_per_cycle: 1e9 / tsc::hz() as f64,
            batch: Batch::new(),
        }
    }

    /// Takes a burst from `rx`; returns how many packets it had.
    pub fn receive(&mut self, rx: &mut RxQueue) -> usize {
        let count = rx.receive(&mut self.batch, BURST);
        if count == 0 {
            return 0;
        }
        let now = tsc::now();
        self.batch.iter().for_each(|packet| packet.prefetch());
        for packet in self.batch.iter() {
            match Arrived::read(packet.data()) {
                Ok(arrived) => {
                    let delay = now.saturating_sub(arrived.stamp.sent) as f64;
                    let delay = (delay * self.nanoseconds_per_cycle) as u64;
                    match self.streams.iter_mut().find(|stream| stream.has(&arrived)) {
                        Some(stream) => stream.arrive(&arrived, packet.len(), delay),
                        None => self.foreign += 1,
                    }
                }
                Err(Unreadable::Damaged) => self.damaged += 1,
                Err(Unreadable::Foreign) => self.foreign += 1,
            }
        }
        self.batch.clear();
        count
    }

    /// The streams, in the order in which they were given.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// IP packets whose IPv4 or UDP checksum was wrong or missing; what else they
    /// say is not looked at.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Packets of no stream that is expected.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
}

impl Stream {
    fn new(expected: Expected) -> Stream {
        let delays = Histogram::new_with_max(LONGEST_DELAY, DIGITS);
        Stream {
            expected,
            received: 0,
            bytes: 0,
            duplicated: 0,
            reordered: 0,
            misaddressed: 0,
            delays: delays.expect("these bounds are valid"),
            flows: vec![Flow::default(); expected.flows() as usize],
        }
    }

    #[inline]
    fn has(&self, arrived: &Arrived) -> bool {
        arrived.stamp.stream == self.expected.stream && arrived.stamp.flow < self.expected.flows()
    }

    /// Notes a packet of `bytes` that took `delay` nanoseconds.
    #[inline]
    fn arrive(&mut self, arrived: &Arrived, bytes: usize, delay: u64) {
        let Stamp { flow, sequence, .. } = arrived.stamp;
        match self.flows[flow as usize].arrive(sequence) {
            Arrival::Duplicated => {
                self.duplicated += 1;
                return;
            }
            Arrival::Reordered => self.reordered += 1,
            Arrival::InOrder => {}
        }
        self.received += 1;
        self.bytes += bytes as u64;
        self.delays.saturating_record(delay);
        if (arrived.source, arrived.destination)
            != self.expected.endpoints.of(flow / u32::from(self.expected.bearers))
        {
            self.misaddressed += 1;
        }
    }
}
